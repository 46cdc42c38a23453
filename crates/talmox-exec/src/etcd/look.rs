//! One look at all members.

use std::collections::BTreeMap;
use std::net::IpAddr;

use futures_util::future::join_all;
use talmox_talos::{Alarm, Client, EtcdHealth, Member, MemberId};
use talmox_types::NodeName;

use crate::Reach;
use crate::machine::looking;

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
    /// it alone.
    pub fn is_healthy(&self, node: &NodeName) -> bool {
        let harmless = |error: &String| error.contains("alarm:NOSPACE");
        matches!(self.nodes.get(node), Some(Ok(health)) if health.errors.iter().all(harmless))
            && self.follows_a_leader(node)
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
