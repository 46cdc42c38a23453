//! What the rules look up again and again, found once: a plan of ten thousand VMs has forty thousand steps.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Desired, Node};
use talmox_types::{ClusterUid, Mark, NodeName, VmId};

use crate::{Guest, Observed, Plan, Planned, Seen, StepId};

pub(super) struct Known<'a> {
    /// The first step of each id.
    pub steps: BTreeMap<&'a StepId, &'a Planned>,
    pub nodes: BTreeMap<&'a NodeName, &'a Node>,
    last: BTreeMap<&'a NodeName, &'a Planned>,
    /// Steps that make VMs.
    by_node: BTreeMap<&'a NodeName, Vec<&'a Planned>>,
    by_id: BTreeMap<VmId, Vec<&'a Planned>>,
    /// Nodes whose mark a VM carries for itself.
    there: BTreeSet<(ClusterUid, NodeName)>,
}

impl<'a> Known<'a> {
    pub(super) fn new(plan: &'a Plan, desired: &'a Desired, observed: &'a Observed) -> Self {
        let nodes = desired.nodes.iter().map(|node| (&node.name, node)).collect();
        let there = observed.guests.values().filter_map(own_mark).map(|mark| (mark.uid, mark.node)).collect();
        let (steps, last, by_node, by_id) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut known = Self { steps, nodes, last, by_node, by_id, there };
        for step in &plan.steps {
            known.steps.entry(&step.id).or_insert(step);
            known.last.extend(step.node.iter().map(|node| (node, step)));
            if let Some(mark) = step.step.makes() {
                // A VM that holds a node's disks is not the node's.
                if !mark.shelf {
                    known.by_node.entry(&mark.node).or_default().push(step);
                }
                known.by_id.entry(mark.vmid).or_default().push(step);
            }
        }
        known
    }

    /// The last step of a node.
    pub(super) fn last_of(&self, node: &NodeName) -> Option<&'a Planned> {
        self.last.get(node).copied()
    }

    /// Steps that make a VM of this node.
    pub(super) fn makers(&self, node: &NodeName) -> impl Iterator<Item = &'a Planned> {
        self.by_node.get(node).into_iter().flatten().copied()
    }

    /// Whether another step makes the same VM or node.
    pub(super) fn has_twin(&self, step: &Planned, mark: &Mark) -> bool {
        let same_id = self.by_id.get(&mark.vmid).into_iter().flatten().copied();
        let same_node = self.makers(&mark.node).filter(|_| !mark.shelf);
        same_id.chain(same_node).any(|other| other.id != step.id)
    }

    /// Whether a VM carries the mark of this node for itself.
    pub(super) fn is_there(&self, mark: &Mark) -> bool {
        self.there.contains(&(mark.uid.clone(), mark.node.clone()))
    }
}

fn own_mark(guest: &Guest) -> Option<Mark> {
    let Seen::Read(seen) = &guest.config else { return None };
    let last_line = seen.live.description()?.trim_end().lines().last()?;
    let mark = Mark::parse(last_line.trim()).ok()?;
    (mark.vmid == guest.vmid && !guest.template && !mark.shelf).then_some(mark)
}
