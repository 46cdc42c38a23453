//! Control planes that the description has made workers.
//!
//! Such a machine has a vote in etcd that nobody counts any more: it would be restarted beside others like it, as workers are, and once it
//! has the configuration of a worker its member is dead. A node changes its role by leaving and coming back.

use talmox_types::NodeName;
use talmox_types::desired::{Node, Role};

use super::Planner;
use crate::{Change, SeenMachine};

const TYPE: &str = "machine.type";
const CONTROL_PLANE: &str = "controlplane";

impl Planner<'_> {
    /// Refuses to do anything to a node that is described as a worker and has a vote in etcd; says whether it is one.
    pub(super) fn still_votes(&mut self, node: &Node) -> bool {
        let votes = self.request.looks_inside()
            && node.role == Role::Worker
            && (self.members().contains(&node.name) || self.is_control_plane_inside(&node.name));
        if votes {
            let name = &node.name;
            let problem =
                "it is described as a worker, and is a control plane: its vote in etcd would be lost";
            let choices = vec![
                format!("make it a control plane again in the description: {name} with controller: true"),
                format!(
                    "take {name} out of the description, and let it leave: talmox apply --remove {name}; then describe it as a \
                     worker"
                ),
            ];
            self.refuse(Some(name), problem.to_owned(), choices);
        }
        votes
    }

    /// Whether a machine is configured as a control plane, where a worker is described.
    fn is_control_plane_inside(&self, name: &NodeName) -> bool {
        let seen = self.observed.talos.get(name).and_then(SeenMachine::configured);
        let was = |change: &Change| change.key == TYPE && change.old.as_deref() == Some(CONTROL_PLANE);
        seen.and_then(|seen| seen.config.as_ref()).is_some_and(|changes| changes.iter().any(was))
    }
}
