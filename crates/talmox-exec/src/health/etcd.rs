//! Members of etcd.

use std::collections::BTreeSet;
use std::net::IpAddr;

use talmox_talos::{Member as EtcdMember, MemberId};
use talmox_types::desired::Role;

use super::member::Cluster;
use super::state::{CheckState, Collected};

type Known = BTreeSet<(String, MemberId, bool)>;

/// Every control plane knows the same members.
pub(super) async fn consistent(cluster: &Cluster) -> CheckState {
    let mut missing = Collected::about(Some("etcd"));
    let mut first: Option<Known> = None;
    for (member, answer) in cluster
        .ask(cluster.control_planes(), |client| Box::pin(async move { client.etcd_members(false).await }))
        .await
    {
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(members) => {
                let known: Known =
                    members.into_iter().map(|one| (one.hostname, one.id, one.is_learner)).collect();
                match &first {
                    None => first = Some(known),
                    Some(first) if *first != known => missing.add(&member.name, difference(first, &known)),
                    Some(_) => {}
                }
            }
        }
    }
    missing.state()
}

fn difference(first: &Known, other: &Known) -> String {
    let names = |known: &Known| {
        let name = |(hostname, id, learner): &(String, MemberId, bool)| {
            let name = if hostname.is_empty() { id.to_string() } else { hostname.clone() };
            if *learner { format!("{name} (learner)") } else { name }
        };
        known.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    format!("knows the members {}, another control plane {}", names(other), names(first))
}

/// Nobody else is a member.
pub(super) async fn on_control_planes(cluster: &Cluster) -> CheckState {
    let off = cluster.off.iter().filter(|member| member.role == Role::Controller);
    let addresses: Vec<IpAddr> =
        cluster.control_planes().chain(off).flat_map(|member| member.addresses.iter()).collect();
    let mut missing = Collected::about(Some("etcd"));
    for (member, answer) in cluster
        .ask(cluster.control_planes(), |client| Box::pin(async move { client.etcd_members(false).await }))
        .await
    {
        match answer {
            Err(error) => missing.add(&member.name, error),
            Ok(members) => {
                for stranger in members.iter().filter(|one| !is_among(one, &addresses)) {
                    let urls = stranger.peer_urls.join(", ");
                    missing.add(
                        &member.name,
                        format!("the member {} at {urls} is no control plane", stranger.id),
                    );
                }
            }
        }
    }
    missing.state()
}

fn is_among(member: &EtcdMember, addresses: &[IpAddr]) -> bool {
    member.peer_urls.iter().all(|url| host(url).is_some_and(|host| addresses.contains(&host)))
}

/// Of `https://10.0.7.11:2380` or `https://[fd00::1]:2380`.
fn host(url: &str) -> Option<IpAddr> {
    let rest = url.split_once("://")?.1;
    let host = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => rest.split([':', '/']).next()?,
    };
    host.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_peers_are_addresses() {
        let address = |text: &str| text.parse().ok();
        assert_eq!(host("https://10.0.7.11:2380"), address("10.0.7.11"));
        assert_eq!(host("https://[fd00::1]:2380"), address("fd00::1"));
        assert_eq!(host("https://cp-1:2380"), None);
        assert_eq!(host("cp-1"), None);
    }
}
