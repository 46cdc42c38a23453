//! Pods leave a node before it goes down, and come back after: also onto nodes that a run of ours did not finish with.

use std::collections::BTreeSet;

use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{FamilyPair, NodeName};

use super::Living;
use crate::away::unfinished;
use crate::planner::unavailable::takes_away;
use crate::planner::{Draft, Planner};
use crate::{Effect, Planned, SeenCluster, SeenKubernetes, SeenMachine, Step, StepId, Until, Upkeep};

impl<'a> Planner<'a> {
    /// Lets pods back onto nodes that nothing is planned for any more.
    pub(super) fn return_nodes(&mut self, living: &[Living<'a>]) {
        for Living { node, seen } in living {
            let Some(reason) = self.closed_for(&node.name) else { continue };
            // Nothing is done to a node that is refused; whoever decides about it decides about this too.
            let is_refused = self.refused.contains(&node.name);
            if is_refused || !self.request.covers(&node.name) || self.opens(&node.name) {
                continue;
            }
            let reason = unfinished(reason);
            let step = Step::Upkeep(Upkeep::ReturnNode { node: node.name.clone(), address: seen.address });
            self.push(Draft::new(Some(&node.name), step, &reason, Effect::ChangeLive));
        }
    }

    /// Why an earlier run of ours kept pods off a node, if it did not finish with it.
    pub(in crate::planner) fn closed_for(&self, node: &NodeName) -> Option<&'a str> {
        self.kubernetes()?.nodes.get(node.as_str())?.cordoned_for.as_deref()
    }

    /// Has nodes an earlier run did not finish with come back before another one of their role goes down: else two were closed at
    /// once, and one of them nobody has seen well. If one does not come back, none of the others follows.
    pub(in crate::planner) fn unfinished_first(&mut self) {
        let returns: Vec<(NodeName, StepId)> = self.plan.steps.iter().filter_map(returned).collect();
        let returns: Vec<(NodeName, StepId)> =
            returns.into_iter().filter(|(node, _)| self.closed_for(node).is_some()).collect();
        if returns.is_empty() {
            return;
        }
        let goes_down: BTreeSet<NodeName> = self
            .plan
            .steps
            .iter()
            .filter(|step| takes_away(step.effect))
            .filter_map(|step| step.node.clone())
            .collect();
        for (node, back) in &returns {
            let before = self.needed_for(back);
            let peers = |other: &NodeName| {
                let (own, role) = (self.role_of(node), self.role_of(other));
                // Both are closed, and both have to go down once more: which is first makes no difference.
                let alike = goes_down.contains(node) && returns.iter().any(|(closed, _)| closed == other);
                other != node && !alike && (role.is_none() || role == own)
            };
            let waits = |step: &Planned| {
                takes_away(step.effect) && step.node.as_ref().is_some_and(peers) && !before.contains(&step.id)
            };
            let waiting: BTreeSet<StepId> =
                self.plan.steps.iter().filter(|step| waits(step)).map(|step| step.id.clone()).collect();
            for step in self.plan.steps.iter_mut().filter(|step| waiting.contains(&step.id)) {
                if !step.needs.contains(back) {
                    step.needs.push(back.clone());
                }
            }
            self.list_in_order();
        }
    }

    fn role_of(&self, node: &NodeName) -> Option<Role> {
        self.names.get(node.as_str()).map(|node| node.role)
    }

    /// All that has to be done before a step.
    fn needed_for(&self, last: &StepId) -> BTreeSet<StepId> {
        let mut needed = BTreeSet::from([last.clone()]);
        // Each is listed after what it needs.
        for step in self.plan.steps.iter().rev() {
            if needed.contains(&step.id) {
                needed.extend(step.needs.iter().cloned());
            }
        }
        needed
    }

    /// Whether this plan lets pods back onto a node, or keeps them off for good.
    fn opens(&self, node: &NodeName) -> bool {
        self.plan.steps.iter().any(|planned| {
            planned.node.as_ref() == Some(node)
                && matches!(planned.step, Step::Upkeep(Upkeep::ReturnNode { .. } | Upkeep::DrainNode { .. }))
        })
    }

    fn kubernetes(&self) -> Option<&'a SeenCluster> {
        match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => Some(cluster),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => None,
        }
    }

    /// Moves pods off a node before something happens to it; gives what that has to wait for. Nothing is moved off a node
    /// that Kubernetes does not have ready, nor where nobody else could take its pods.
    pub(in crate::planner) fn drain(
        &mut self,
        node: &NodeName,
        reason: &str,
        needs: Vec<StepId>,
    ) -> Vec<StepId> {
        let looks = self.request.looks_inside() && self.request.until >= Until::Configured;
        let has_pods = self.kubernetes().is_some_and(|cluster| {
            let ready = |name: &str| cluster.nodes.get(name).is_some_and(|node| node.ready);
            let mut others = cluster.nodes.iter().filter(|(name, _)| name.as_str() != node.as_str());
            ready(node.as_str()) && others.any(|(_, other)| other.ready && other.schedulable)
        });
        if looks && self.has_unasked_pods(node) {
            self.unasked.insert(node.clone());
        }
        if !looks || !has_pods || sabotaged(Defect::DrainForgotten) {
            return needs;
        }
        let step = Step::Upkeep(Upkeep::DrainNode { node: node.clone() });
        vec![self.push(Draft::new(Some(node), step, reason, Effect::Drain).after(needs))]
    }

    /// Whether others' pods run on a node that nobody can ask to leave now.
    fn has_unasked_pods(&self, node: &NodeName) -> bool {
        let machines = [&self.observed.talos, &self.observed.leaving];
        let answers =
            machines.iter().any(|seen| seen.get(node).is_some_and(|one| one.configured().is_some()));
        let takes_pods = match self.names.get(node.as_str()) {
            Some(described) if described.role == Role::Controller => {
                self.desired.kubernetes.allow_scheduling_on_control_planes && self.desired.nodes.len() > 1
            }
            Some(_) => true,
            None => !self.members().contains(node),
        };
        matches!(self.observed.kubernetes, SeenKubernetes::Unreachable { .. })
            && self.goes_on()
            && answers
            && takes_pods
            && !sabotaged(Defect::DrainForgotten)
    }

    /// Refuses to take nodes down whose pods cannot be asked to leave, and of which nobody would see whether they are back: Kubernetes
    /// may be out of reach from here alone. A control plane without such pods may be what ails it, and may go.
    pub(in crate::planner) fn refuse_unasked_pods(&mut self) {
        let SeenKubernetes::Unreachable { reason } = &self.observed.kubernetes else { return };
        let nodes: Vec<&str> = self.unasked.iter().map(NodeName::as_str).collect();
        if nodes.is_empty() {
            return;
        }
        let problem = format!(
            "{}: Kubernetes does not answer ({reason}), so pods cannot be asked to leave before their node goes down",
            nodes.join(", ")
        );
        let choices = vec![
            "talmox health says what is wrong with it; this may also be the network between here and there"
                .to_owned(),
            "if pods may be cut off, restart the node yourself: talosctl reboot".to_owned(),
        ];
        self.refuse(None, problem, choices);
    }

    /// Waits until a node that lived before is well again after what happened to it, and lets pods back.
    pub(in crate::planner) fn give_back(&mut self, node: &NodeName, needs: Vec<StepId>) -> Vec<StepId> {
        let looks = self.request.looks_inside() && self.request.until >= Until::Configured;
        let seen = self.observed.talos.get(node).and_then(SeenMachine::configured).map(|seen| seen.address);
        let cluster = self.kubernetes().filter(|_| looks);
        // One that Kubernetes still has and that does not answer now was drained too.
        let drained = cluster.is_some_and(|cluster| cluster.nodes.contains_key(node.as_str()));
        let assigned = self.addresses.get(node).filter(|_| drained).map(FamilyPair::primary);
        let Some(address) = seen.filter(|_| cluster.is_some()).or(assigned) else { return needs };
        let step = Step::Upkeep(Upkeep::ReturnNode { node: node.clone(), address });
        let reason = "the next one goes only when it is back";
        vec![self.push(Draft::new(Some(node), step, reason, Effect::ChangeLive).after(needs))]
    }
}

/// The node a step lets pods back onto, and the step.
fn returned(step: &Planned) -> Option<(NodeName, StepId)> {
    let Step::Upkeep(Upkeep::ReturnNode { node, .. }) = &step.step else { return None };
    Some((node.clone(), step.id.clone()))
}
