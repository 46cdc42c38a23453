//! Machines that the description has given another role.
//!
//! A control plane that is described as a worker has a vote in etcd that nobody counts any more: it would be restarted beside others
//! like it, as workers are, and once it has the configuration of a worker its member is dead. A worker that is given the
//! configuration of a control plane never gets well. A node changes its role by leaving and coming back.

use talmox_types::NodeName;
use talmox_types::desired::{Node, Role};

use super::Planner;
use crate::{Change, SeenMachine};

const TYPE: &str = "machine.type";
const CONTROL_PLANE: &str = "controlplane";
const WORKER: &str = "worker";

impl Planner<'_> {
    /// Refuses to do anything to a node whose machine has another role than described; says whether it is one.
    pub(super) fn has_another_role(&mut self, node: &Node) -> bool {
        self.still_votes(node) || self.still_works(node)
    }

    /// A machine that is built anew begins with the role it is described with.
    fn still_works(&mut self, node: &Node) -> bool {
        let works = self.request.looks_inside()
            && node.role == Role::Controller
            && !self.is_replaced(&node.name)
            && self.was_configured_as(&node.name, WORKER);
        if works {
            let name = &node.name;
            let problem =
                "it is described as a control plane, and is a worker: a machine keeps the role it began with";
            let choices = vec![
                format!("build it anew as a control plane: talmox apply --replace {name}"),
                format!("make it a worker again in the description: {name} with controller: false"),
            ];
            self.refuse(Some(name), problem.to_owned(), choices);
        }
        works
    }

    /// Refuses to do anything to a node that is described as a worker and has a vote in etcd; says whether it is one.
    fn still_votes(&mut self, node: &Node) -> bool {
        let votes = node.role == Role::Worker && (self.began_etcd(&node.name) || self.is_seen_to_vote(node));
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

    fn is_seen_to_vote(&self, node: &Node) -> bool {
        self.request.looks_inside()
            && (self.members().contains(&node.name) || self.was_configured_as(&node.name, CONTROL_PLANE))
    }

    /// Whether the mark of its VM says that etcd was begun: only those of control planes do.
    fn began_etcd(&self, name: &NodeName) -> bool {
        self.identities.of_node(name).any(|owned| owned.mark.bootstrap.is_some())
    }

    /// Whether a machine is configured with this role, where another is described.
    fn was_configured_as(&self, name: &NodeName, role: &str) -> bool {
        let seen = self.observed.talos.get(name).and_then(SeenMachine::configured);
        let was = |change: &Change| change.key == TYPE && change.old.as_deref() == Some(role);
        seen.and_then(|seen| seen.config.as_ref()).is_some_and(|changes| changes.iter().any(was))
    }
}
