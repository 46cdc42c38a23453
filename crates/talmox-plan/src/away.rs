//! Nodes that are not there: because that is how it should be, or although it is not.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Cni, Desired, Node, Power as WantedPower, Role};
use talmox_types::{AwayWord, NodeName};

use crate::{
    Identities, Observed, Planned, Power, SeenKubernetes, SeenMachine, SeenStage, Step, Upkeep, identify,
};

/// Nodes of the description that are to be off: described as stopped, or stopped when their host was drained. Nobody waits for
/// them, and nobody wonders that Kubernetes still knows them.
pub fn kept_off(desired: &Desired, observed: &Observed) -> BTreeSet<NodeName> {
    kept_off_among(desired, observed, &identify(desired, observed))
}

fn kept_off_among(desired: &Desired, observed: &Observed, identities: &Identities) -> BTreeSet<NodeName> {
    let drained = |node: &Node| {
        identities.of_node(&node.name).next().is_some_and(|owned| {
            let power = observed.guests.get(&owned.mark.vmid).map(|guest| guest.power);
            matches!(owned.mark.away, Some(AwayWord::Drained(_))) && power == Some(Power::Stopped)
        })
    };
    let off = desired.nodes.iter().filter(|node| node.vm.power == WantedPower::Stopped || drained(node));
    off.map(|node| node.name.clone()).collect()
}

/// Workers that are away and should not be, each with why. One that Kubernetes never knew is none: it is yet to come.
pub(crate) fn absent_workers(
    desired: &Desired,
    observed: &Observed,
    identities: &Identities,
) -> BTreeMap<NodeName, String> {
    let kept_off = kept_off_among(desired, observed, identities);
    let workers = desired.nodes.iter().filter(|node| node.role == Role::Worker);
    let expected = workers.filter(|node| !kept_off.contains(&node.name));
    let whereabouts = Whereabouts { desired, observed, identities };
    expected.filter_map(|node| Some((node.name.clone(), whereabouts.absence(&node.name)?))).collect()
}

/// The node a step lets pods back onto in the end, or does more to. One that an earlier run closed and did not finish with counts as
/// away unless the plan has such a step.
pub fn brings_back(step: &Planned) -> Option<&NodeName> {
    let returns = matches!(step.step, Step::Upkeep(Upkeep::ReturnNode { .. }));
    step.node.as_ref().filter(|_| returns || step.effect.interrupts())
}

/// Why a worker that an earlier run closed counts as away.
pub fn unfinished(reason: &str) -> String {
    format!("an earlier run kept pods off it ({reason}) and did not finish")
}

struct Whereabouts<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    identities: &'a Identities,
}

impl Whereabouts<'_> {
    /// Why a worker is away; nothing if it is there, or never was.
    fn absence(&self, node: &NodeName) -> Option<String> {
        let known = match &self.observed.kubernetes {
            SeenKubernetes::Answers(cluster) => Some(cluster.nodes.get(node.as_str())?),
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => None,
        };
        let owned = self.identities.of_node(node).next();
        let power = owned.and_then(|owned| self.observed.guests.get(&owned.mark.vmid)).map(|one| one.power);
        match (power, owned) {
            (Some(Power::Stopped), Some(owned)) if owned.finished => return Some("its VM is off".to_owned()),
            (Some(Power::Unknown), _) => return Some("nobody can tell whether its VM runs".to_owned()),
            (Some(_) | None, _) => {}
        }
        // Without Kubernetes nobody knows who was ever part of the cluster.
        let known = known?;
        match self.observed.talos.get(node) {
            Some(SeenMachine::Unreachable { reason, .. }) => {
                return Some(format!("it does not answer: {reason}"));
            }
            Some(SeenMachine::Configured(seen)) if seen.stage != SeenStage::Running => {
                return Some(format!("it is {}", seen.complaint()));
            }
            Some(
                SeenMachine::Configured(_) | SeenMachine::Maintenance { .. } | SeenMachine::Foreign { .. },
            )
            | None => {}
        }
        (must_be_ready(self.desired) && !known.ready).then(|| "it is not ready in Kubernetes".to_owned())
    }
}

/// Whether a node that is there is ready in Kubernetes: without a network for pods none ever is.
pub fn must_be_ready(desired: &Desired) -> bool {
    let kubernetes = &desired.kubernetes;
    kubernetes.cni != Cni::None || !kubernetes.bootstrap_manifests.is_empty()
}
