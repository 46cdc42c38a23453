//! How far each etcd is from losing its quorum, for whoever watches over it.

use crate::nodes::Nodes;

/// A cluster of etcd, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorum {
    /// Members that may vote.
    pub voters: usize,
    /// Those of them whose machine runs them.
    pub living: usize,
}

impl Quorum {
    pub fn is_there(self) -> bool {
        self.living * 2 > self.voters
    }
}

impl Nodes {
    /// Every cluster of etcd there ever was and nobody has left.
    pub fn quorums(&self) -> Vec<Quorum> {
        let count = |(id, known): (&u64, &super::Cluster)| {
            let living = self.living(*id);
            let votes = |id: &&u64| known.members.get(*id).is_some_and(|member| !member.learner);
            Quorum { voters: known.voters(), living: living.keys().filter(votes).count() }
        };
        self.clusters.iter().map(count).collect()
    }
}
