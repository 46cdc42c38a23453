//! What is done to a cluster that lives.
//!
//! Nodes that run as configured are compared with the description: what differs becomes steps, one node after the other, with a
//! snapshot of etcd before what is risky.

mod authorities;
mod config;
mod kubernetes;
mod quorum;
mod restore;
mod retire;
mod returning;
mod rotation;
mod snapshot;
mod talos;
mod written;

use talmox_types::desired::{Node, Role};

use super::Planner;
use crate::SeenNode;

pub(super) use authorities::OTHER_SECRETS;
pub use quorum::BEGINS_WITH_NOTHING;
pub(super) use retire::Departure;
pub(super) use rotation::UNKNOWN_PHASE;

/// A declared node whose machine is configured and answers, and which nothing else happens to in this plan.
#[derive(Clone, Copy)]
pub(super) struct Living<'a> {
    pub node: &'a Node,
    pub seen: &'a SeenNode,
}

impl<'a> Planner<'a> {
    /// Plans what is done to nodes that live. What concerns one node only if it is covered; what concerns the cluster only if
    /// no targets are given.
    pub(super) fn upkeep(&mut self, living: &[Living<'a>]) {
        self.talos_upgrades(living);
        self.config_changes(living);
        self.kubernetes_upgrade(living);
        self.return_nodes(living);
        self.rotation(living);
    }

    /// By what nodes are put in turn where they go one after the other: control planes first, and of a role those that an earlier run
    /// closed and did not finish with.
    fn turn_of(&self, node: &Node) -> (Role, bool) {
        (node.role, self.closed_for(&node.name).is_none())
    }
}
