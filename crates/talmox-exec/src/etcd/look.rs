//! One look at all members.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures_util::future::join_all;
use talmox_talos::{Alarm, Client, EtcdHealth, Member, MemberId};
use talmox_types::NodeName;

use crate::Reach;
use crate::machine::looking;

/// What members say of one whose data differs from that of the others: `memberID:10501334649042878790 alarm:CORRUPT `.
const CORRUPT: &str = "alarm:CORRUPT";

/// Whether an alarm is this member's. One that names nobody may be.
fn names(error: &str, id: MemberId) -> bool {
    let named = error.split_whitespace().find_map(|word| word.strip_prefix("memberID:"));
    named.and_then(|digits| digits.parse::<u64>().ok()).is_none_or(|named| named == id.0)
}

/// etcd at one moment.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    /// What each control plane says of its own member, or why it does not.
    pub nodes: BTreeMap<NodeName, Result<EtcdHealth, String>>,
    /// All members, as one that can tell knows them; none without a quorum.
    pub members: Option<Vec<Member>>,
    /// Alarms that stand; none known without a quorum.
    pub alarms: Vec<(MemberId, Alarm)>,
}

/// Asks every control plane, side by side: one that is dead must not cost the answers of the others.
pub async fn look(reach: &Reach<'_>, control_planes: &BTreeMap<NodeName, IpAddr>) -> Etcd {
    let clients: Vec<(&NodeName, Option<Client>)> = control_planes
        .iter()
        .map(|(node, address)| (node, reach.secure(*address).map(|client| client.with_deadlines(looking()))))
        .collect();
    let asked = clients.iter().map(|(node, client)| async move {
        let health = match client {
            Some(client) => client.etcd_health().await.map_err(|error| error.to_string()),
            None => Err("the cluster's secrets are not at hand".to_owned()),
        };
        ((*node).clone(), health)
    });
    let mut etcd = Etcd { nodes: join_all(asked).await.into_iter().collect(), ..Etcd::default() };
    // Only who has a leader can answer for all; others would hang or refuse.
    let leading = clients.iter().filter(|(node, _)| etcd.follows_a_leader(node));
    for client in leading.filter_map(|(_, client)| client.as_ref()) {
        if let Ok(members) = client.etcd_members(false).await {
            etcd.alarms = client.etcd_alarms().await.unwrap_or_default();
            etcd.members = Some(members);
            break;
        }
    }
    etcd
}

impl Etcd {
    fn follows_a_leader(&self, node: &NodeName) -> bool {
        matches!(self.nodes.get(node), Some(Ok(health)) if health.leader.is_some() && !health.is_learner)
    }

    /// Whether a node's member votes, has a leader and complains of nothing but a lack of space, which is no reason to leave
    /// it alone, or of another's data: every member repeats all alarms there are.
    pub fn is_healthy(&self, node: &NodeName) -> bool {
        let Some(Ok(health)) = self.nodes.get(node) else { return false };
        let anothers = |error: &str| error.contains(CORRUPT) && !names(error, health.id);
        let harmless = |error: &String| error.contains("alarm:NOSPACE") || anothers(error);
        health.errors.iter().all(harmless) && !self.is_corrupt(node) && self.follows_a_leader(node)
    }

    /// Whether an alarm says that a node's member has other data than the others.
    pub fn is_corrupt(&self, node: &NodeName) -> bool {
        let Some(Ok(health)) = self.nodes.get(node) else { return false };
        let said = health.errors.iter().any(|error| error.contains(CORRUPT) && names(error, health.id));
        said || self.alarms.contains(&(health.id, Alarm::Corrupt))
    }

    /// Whether somebody has a member.
    pub fn is_there(&self) -> bool {
        self.nodes.values().any(Result::is_ok)
    }

    /// Whether members can decide anything.
    pub fn has_quorum(&self) -> bool {
        self.nodes.keys().any(|node| self.follows_a_leader(node))
    }

    /// The node whose member leads.
    pub fn leader(&self) -> Option<&NodeName> {
        let answers = || self.nodes.iter().filter_map(|(node, health)| Some((node, health.as_ref().ok()?)));
        let leader = answers().find_map(|(_, health)| health.leader)?;
        answers().find(|(_, health)| health.id == leader).map(|(node, _)| node)
    }

    /// The node of a member, or its number where it has none.
    pub fn name_of(&self, id: MemberId) -> String {
        let listed = self.members.iter().flatten().find(|member| member.id == id);
        let named = listed.map(|member| member.hostname.clone()).filter(|name| !name.is_empty());
        let own = || {
            let mut answers = self.nodes.iter();
            answers.find(|(_, health)| health.as_ref().is_ok_and(|health| health.id == id))
        };
        named.or_else(|| own().map(|(node, _)| node.to_string())).unwrap_or_else(|| id.to_string())
    }

    /// Members that nobody answers for, by name. One that is just being added has no vote and is no loss.
    pub fn lost(&self) -> Vec<String> {
        let answers = |id: MemberId| self.nodes.values().flatten().any(|health| health.id == id);
        let members = self.members.iter().flatten().filter(|member| !member.is_learner);
        members.filter(|member| !answers(member.id)).map(|member| self.name_of(member.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcd::choose;

    /// Three members, of which the second has other data; each repeats the alarm.
    fn three() -> Etcd {
        let member = |id: u64| EtcdHealth {
            id: MemberId(id),
            leader: Some(MemberId(1)),
            version: "3.6.16".to_owned(),
            database_bytes: 1,
            used_bytes: 1,
            raft_term: 2,
            raft_index: 100 + id,
            applied_index: 100 + id,
            is_learner: false,
            errors: vec!["memberID:2 alarm:CORRUPT ".to_owned()],
        };
        let name = |number: u64| NodeName::parse(&format!("cp-{number}")).unwrap();
        let nodes = (1..=3).map(|number| (name(number), Ok(member(number)))).collect();
        Etcd { nodes, members: None, alarms: vec![(MemberId(2), Alarm::Corrupt)] }
    }

    #[test]
    fn an_alarm_is_about_the_member_it_names() {
        let etcd = three();
        let healthy: Vec<&str> =
            etcd.nodes.keys().filter(|node| etcd.is_healthy(node)).map(NodeName::as_str).collect();
        assert_eq!(healthy, ["cp-1", "cp-3"]);
        assert_eq!(choose(&etcd, false).map(NodeName::as_str), Some("cp-3"));
    }

    #[test]
    fn no_snapshot_is_taken_of_data_that_differs() {
        let mut etcd = three();
        for health in etcd.nodes.values_mut().flatten() {
            health.leader = None;
        }
        etcd.nodes.remove(&NodeName::parse("cp-3").unwrap());
        assert_eq!(choose(&etcd, true).map(NodeName::as_str), Some("cp-1"));
        etcd.nodes.remove(&NodeName::parse("cp-1").unwrap());
        assert_eq!(choose(&etcd, true), None);
    }
}
