//! A plan, node by node: whoever looks through all of it for each node takes the square of their number.

use std::collections::BTreeMap;

use talmox_types::NodeName;

use crate::{Plan, Waiting};

pub(super) struct Parts {
    nodes: BTreeMap<NodeName, Plan>,
    /// For nodes the plan has nothing to say of.
    nothing: Plan,
}

impl Parts {
    pub(super) fn of(plan: Plan) -> Self {
        let Plan { cluster, uid, steps, later, waiting, refusals, notes } = plan;
        let nothing = Plan {
            cluster,
            uid,
            steps: Vec::new(),
            later: Vec::new(),
            waiting: Vec::new(),
            refusals: Vec::new(),
            notes: Vec::new(),
        };
        let mut parts = Self { nodes: BTreeMap::new(), nothing };
        for step in steps {
            if let Some(node) = step.node.clone() {
                parts.part(node).steps.push(step);
            }
        }
        for intent in later {
            if let Some(node) = intent.node.clone() {
                parts.part(node).later.push(intent);
            }
        }
        for refusal in refusals {
            if let Some(node) = refusal.node.clone() {
                parts.part(node).refusals.push(refusal);
            }
        }
        for note in notes {
            if let Some(node) = note.node.clone() {
                parts.part(node).notes.push(note);
            }
        }
        for waiting in waiting {
            parts.wait(waiting);
        }
        parts
    }

    fn part(&mut self, node: NodeName) -> &mut Plan {
        let Self { nodes, nothing } = self;
        nodes.entry(node).or_insert_with(|| nothing.clone())
    }

    fn wait(&mut self, waiting: Waiting) {
        if let Waiting::HostDown { host, nodes, reason } = &waiting {
            for node in nodes {
                let (host, nodes, reason) = (host.clone(), vec![node.clone()], reason.clone());
                self.part(node.clone()).waiting.push(Waiting::HostDown { host, nodes, reason });
            }
        } else if let Waiting::InFlight { .. } = waiting {
            // It may be whoever comes later.
            for part in self.nodes.values_mut().filter(|part| !part.later.is_empty()) {
                part.waiting.push(waiting.clone());
            }
        } else if let Waiting::Locked { node, .. }
        | Waiting::Reboot { node, .. }
        | Waiting::Trial { node, .. } = &waiting
        {
            self.part(node.clone()).waiting.push(waiting);
        }
    }

    pub(super) fn of_node(&self, node: &NodeName) -> &Plan {
        self.nodes.get(node).unwrap_or(&self.nothing)
    }
}
