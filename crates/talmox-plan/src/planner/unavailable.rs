//! Workers that are away keep the others up.
//!
//! So many may be away at a time, whatever took them down: a run of ours that failed, another one, or nobody knows what. Once they
//! are, no other worker goes down, or a bad image would go from one to the next with every run. What is done to those that are away
//! is what may bring them back.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use talmox_types::NodeName;
use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};

use super::Planner;
use crate::away::{absent_workers, brings_back, kept_off, unfinished};
use crate::{Effect, Intent, Planned, Waiting};

impl Planner<'_> {
    /// Takes what would take another worker down out of the plan while too many are away; gives what was taken out. Nodes that are
    /// built anew are looked at only when all that follows from it is planned.
    pub(super) fn keep_workers_up(&mut self, and_anew: bool) -> Vec<Intent> {
        let at_most = self.at_most_away();
        let mut away = absent_workers(self.desired, self.observed, &self.identities);
        // Who comes back is known only once everything is planned.
        if and_anew {
            away.extend(self.closed_workers());
        }
        if away.len() < at_most || sabotaged(Defect::AwayNotCounted) {
            return Vec::new();
        }
        let workers = self.desired.nodes.iter().filter(|node| node.role == Role::Worker);
        let others: BTreeSet<NodeName> = workers
            .map(|node| node.name.clone())
            .filter(|node| !away.contains_key(node) && (and_anew || !self.anew.contains_key(node)))
            .collect();
        let goes_down = |step: &Planned| {
            takes_away(step.effect) && step.node.as_ref().is_some_and(|node| others.contains(node))
        };
        let names: Vec<&str> = away.keys().map(NodeName::as_str).collect();
        let is = if names.len() == 1 { "is" } else { "are" };
        let held = self.put_off(goes_down, &format!("once {} {is} back", names.join(", ")));
        let nodes: BTreeSet<NodeName> = held
            .iter()
            .filter(|intent| takes_away(intent.effect))
            .filter_map(|intent| intent.node.clone())
            .collect();
        if !nodes.is_empty() {
            self.wait_for_workers(away, nodes, at_most);
        }
        held
    }

    /// Workers an earlier run kept pods off and did not finish with, and which this plan does not bring back.
    fn closed_workers(&self) -> BTreeMap<NodeName, String> {
        let kept_off = kept_off(self.desired, self.observed);
        let dealt_with: BTreeSet<&NodeName> = self.plan.steps.iter().filter_map(brings_back).collect();
        let workers = self.desired.nodes.iter().filter(|node| node.role == Role::Worker);
        let left = workers.filter(|node| !kept_off.contains(&node.name) && !dealt_with.contains(&node.name));
        let closed = left.filter_map(|node| Some((node.name.clone(), self.closed_for(&node.name)?)));
        closed.map(|(node, reason)| (node, unfinished(reason))).collect()
    }

    /// How many workers may be away at a time.
    fn at_most_away(&self) -> usize {
        self.request.upkeep.max_unavailable.map_or(1, NonZeroUsize::get)
    }

    /// Says it once, whoever is kept up for it.
    fn wait_for_workers(
        &mut self,
        away: BTreeMap<NodeName, String>,
        mut nodes: BTreeSet<NodeName>,
        at_most: usize,
    ) {
        self.plan.waiting.retain(|waiting| {
            if let Waiting::Workers { held, .. } = waiting {
                nodes.extend(held.iter().cloned());
                return false;
            }
            true
        });
        self.plan.waiting.push(Waiting::Workers { away, held: nodes.into_iter().collect(), at_most });
    }
}

/// Whether a worker is missed while a step is carried out. One that moves goes on running.
pub(super) fn takes_away(effect: Effect) -> bool {
    effect.interrupts() && effect != Effect::Move
}
