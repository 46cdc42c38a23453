//! How far each etcd is from losing its quorum, for whoever watches over it.

use std::collections::BTreeMap;

use crate::hardware::MachineId;
use crate::nodes::Nodes;

/// Who decides in a cluster of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorum {
    pub cluster: u64,
    /// Members that may vote, each with the machine that runs it now, if any does.
    pub voters: BTreeMap<u64, Option<MachineId>>,
}

impl Quorum {
    pub fn is_there(&self) -> bool {
        let living = self.voters.values().filter(|machine| machine.is_some()).count();
        living * 2 > self.voters.len()
    }
}

impl Nodes {
    /// Every cluster of etcd there ever was and nobody has left.
    pub fn quorums(&self) -> Vec<Quorum> {
        let count = |(id, known): (&u64, &super::Cluster)| {
            let living = self.living(*id);
            let voters = known.members.iter().filter(|(_, member)| !member.learner);
            let voters = voters.map(|(member, _)| (*member, living.get(member).copied())).collect();
            Quorum { cluster: *id, voters }
        };
        self.clusters.iter().map(count).collect()
    }
}
