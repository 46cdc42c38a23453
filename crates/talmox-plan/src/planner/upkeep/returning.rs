//! Pods leave a node before it goes down, and come back after: also onto nodes that a run of ours did not finish with.

use talmox_types::desired::Role;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{FamilyPair, NodeName};

use super::Living;
use crate::planner::{Draft, Planner};
use crate::{Effect, SeenCluster, SeenKubernetes, SeenMachine, Step, StepId, Until, Upkeep};

impl<'a> Planner<'a> {
    /// Lets pods back onto nodes that nothing is planned for any more.
    pub(super) fn return_nodes(&mut self, living: &[Living<'a>]) {
        for Living { node, seen } in living {
            let cluster = self.kubernetes();
            let kept_off = cluster.and_then(|cluster| cluster.nodes.get(node.name.as_str()));
            let Some(reason) = kept_off.and_then(|seen| seen.cordoned_for.clone()) else { continue };
            // Nothing is done to a node that is refused; whoever decides about it decides about this too.
            let is_refused = self.refused.contains(&node.name);
            if is_refused || !self.request.covers(&node.name) || self.opens(&node.name) {
                continue;
            }
            let reason = format!("an earlier run kept pods off it ({reason}) and did not finish");
            let step = Step::Upkeep(Upkeep::ReturnNode { node: node.name.clone(), address: seen.address });
            self.push(Draft::new(Some(&node.name), step, &reason, Effect::ChangeLive));
        }
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
