//! etcd: clusters, their members, and who of them can decide anything.
//!
//! A member's data lies on a disk and names its cluster; the list of members is what the members agreed on. A member lives
//! while a machine with its data runs the service. Two bootstraps make two clusters: nothing here keeps them apart.

mod member;
mod quorum;
pub(crate) mod snapshot;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::disk::EtcdData;
use crate::hardware::MachineId;
use crate::nodes::Nodes;

pub use quorum::Quorum;

/// What the members of a cluster agreed on.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Cluster {
    pub(crate) members: BTreeMap<u64, Member>,
    /// Who leads; nobody without a quorum.
    pub(crate) leader: Option<u64>,
    pub(crate) term: u64,
    /// The authority of etcd, in PEM: nobody of another one can join.
    pub(crate) authority: String,
    pub(crate) alarms: Vec<u64>,
    /// When it began, and how many entries its log had then.
    pub(crate) began: u64,
    pub(crate) index: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Empty until it has started for the first time.
    pub(crate) name: String,
    pub(crate) peer_urls: Vec<String>,
    pub(crate) client_urls: Vec<String>,
    /// Has no vote yet.
    pub(crate) learner: bool,
}

impl Cluster {
    pub(crate) fn voters(&self) -> usize {
        self.members.values().filter(|member| !member.learner).count()
    }
}

impl Nodes {
    /// The data of etcd on a machine's disk.
    pub(crate) fn etcd_data(&self, id: MachineId) -> Option<EtcdData> {
        self.system_disk(id)?.ephemeral.as_ref()?.etcd
    }

    /// The member that runs on a machine.
    pub(crate) fn running_member(&self, id: MachineId) -> Option<EtcdData> {
        let running = self.run(id)?.services.get("etcd")?.is_running();
        let data = self.etcd_data(id).filter(|_| running)?;
        self.clusters.get(&data.cluster)?.members.contains_key(&data.member).then_some(data)
    }

    /// Members that live, and where.
    pub(crate) fn living(&self, cluster: u64) -> BTreeMap<u64, MachineId> {
        let found = self.machines.keys().filter_map(|id| {
            let data = self.running_member(*id)?;
            (data.cluster == cluster).then_some((data.member, *id))
        });
        found.collect()
    }

    /// Whether more than half of those who may vote are there.
    pub(crate) fn has_quorum(&self, cluster: u64) -> bool {
        let Some(known) = self.clusters.get(&cluster) else { return false };
        let living = self.living(cluster);
        let voting =
            known.members.iter().filter(|(id, member)| !member.learner && living.contains_key(id)).count();
        voting * 2 > known.voters()
    }

    /// The members choose who leads, if they have to and can.
    pub(crate) fn elect(&mut self, cluster: u64) {
        let living = self.living(cluster);
        let quorum = self.has_quorum(cluster);
        let Some(known) = self.clusters.get_mut(&cluster) else { return };
        let can_lead =
            |id: &u64| living.contains_key(id) && known.members.get(id).is_some_and(|member| !member.learner);
        if !quorum {
            known.leader = None;
        } else if !known.leader.as_ref().is_some_and(can_lead) {
            known.leader = known.members.keys().copied().find(|id| can_lead(id));
            known.term += 1;
        }
    }

    pub(crate) fn elect_everywhere(&mut self) {
        let clusters: Vec<u64> = self.clusters.keys().copied().collect();
        for cluster in clusters {
            self.elect(cluster);
        }
    }

    /// The cluster a machine can ask: its own, else one of a control plane it would find.
    pub(crate) fn reachable_cluster(&self, id: MachineId) -> Option<u64> {
        if let Some(data) = self.running_member(id) {
            return Some(data.cluster);
        }
        let authority = self.run(id)?.settings()?.etcd_authority.clone()?;
        self.machines.keys().find_map(|other| {
            let data = self.running_member(*other)?;
            (self.clusters.get(&data.cluster)?.authority == authority).then_some(data.cluster)
        })
    }

    /// How many entries the log has by now.
    pub(crate) fn raft_index(&self, cluster: &Cluster) -> u64 {
        cluster.index + (self.clock - cluster.began.min(self.clock)) / 500
    }
}
