//! Pods leave a node before it goes down, and come back after: also onto nodes that a run of ours did not finish with.

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
        if !looks || !has_pods || sabotaged(Defect::DrainForgotten) {
            return needs;
        }
        let step = Step::Upkeep(Upkeep::DrainNode { node: node.clone() });
        vec![self.push(Draft::new(Some(node), step, reason, Effect::Drain).after(needs))]
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
