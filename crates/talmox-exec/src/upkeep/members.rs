//! Members of etcd, as control planes that stay know them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_talos::{Client, Member};
use talmox_types::NodeName;

use crate::machine::looking;
use crate::{Reach, StepError};

/// A control plane that answered, and the members it knows right now.
pub(super) struct Answer {
    pub(super) client: Client,
    pub(super) members: Vec<Member>,
}

/// Asks one control plane after the other: one that is silent must not cost the answer of those that are not.
pub(super) async fn ask(
    reach: &Reach<'_>,
    control_planes: &BTreeMap<NodeName, IpAddr>,
) -> Result<Answer, StepError> {
    let mut last = None;
    for address in control_planes.values() {
        let Some(client) = reach.secure(*address) else {
            return Err(StepError::NoReach { lacks: "the cluster's secrets are not at hand" });
        };
        let client = client.with_deadlines(looking());
        match client.etcd_members(false).await {
            Ok(members) => return Ok(Answer { client, members }),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(
        StepError::NoReach { lacks: "there is no other control plane to ask" },
        StepError::machine("ask the other control planes for the members of etcd"),
    ))
}

/// Members that are this node: by name, or by address for one that never got as far as having a name.
pub(super) fn of_node(members: &[Member], node: &NodeName, address: Option<IpAddr>) -> Vec<Member> {
    let at = |member: &Member| {
        member.hostname.is_empty()
            && address.is_some_and(|address| member.peer_urls.iter().any(|url| is_at(url, address)))
    };
    members.iter().filter(|member| member.hostname == node.as_str() || at(member)).cloned().collect()
}

/// Whether a URL such as `https://10.0.7.11:2380` leads to an address.
fn is_at(url: &str, address: IpAddr) -> bool {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    host.trim_matches(['[', ']']).parse() == Ok(address)
}

#[cfg(test)]
mod tests {
    use talmox_talos::MemberId;

    use super::*;

    #[test]
    fn a_member_without_a_name_is_known_by_its_address() {
        let member = |id, hostname: &str, url: &str| Member {
            id: MemberId(id),
            hostname: hostname.to_owned(),
            peer_urls: vec![url.to_owned()],
            is_learner: false,
        };
        let members = [
            member(1, "cp-1", "https://10.0.7.11:2380"),
            member(2, "", "https://10.0.7.12:2380"),
            member(3, "cp-3", "https://[fd00::3]:2380"),
        ];
        let found = |node: &str, address: &str| {
            let node = NodeName::parse(node).unwrap();
            let found = of_node(&members, &node, address.parse().ok());
            found.iter().map(|member| member.id.0).collect::<Vec<_>>()
        };
        assert_eq!(found("cp-1", "10.0.7.99"), [1]);
        assert_eq!(found("cp-2", "10.0.7.12"), [2]);
        assert_eq!(found("cp-9", "10.0.7.1"), [0; 0]);
        // A name says more than an address, which may have been given on.
        assert_eq!(found("cp-9", "fd00::3"), [0; 0]);
    }
}
