//! Workers that are away while another one is about to go down.
//!
//! A plan is made from one look; between that and the step that takes a worker down, minutes or a person's approval may have
//! passed. So Kubernetes is asked once more, and the machines of those it calls ready: it takes 40 seconds to notice that one is
//! gone. Those that this run itself has down do not count, nor do those that are to be off.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use talmox_k8s::Node;
use talmox_plan::{Effect, Plan, Planned, Until, brings_back, kept_off, must_be_ready, unfinished};
use talmox_types::NodeName;
use talmox_types::desired::{NodeAddress, Power, Role};
use talmox_types::sabotage::{Defect, sabotaged};

use crate::machine::{Probe, probe};
use crate::run::takes_down;
use crate::work::{Result, Work};
use crate::{Reach, Run, StepError, observe_for};

/// How many machines are asked at once, and how long is waited before one that is silent is asked again.
const AT_ONCE: usize = 48;
const PAUSE: Duration = Duration::from_secs(2);

/// Beside whom a worker goes down.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    /// Workers this run has down, or is about to take down.
    pub(crate) ours: BTreeSet<NodeName>,
    /// Nodes that are new and come up for the first time.
    pub(crate) new: BTreeSet<NodeName>,
    /// Nodes the plan brings back, whoever closed them.
    pub(crate) back: BTreeSet<NodeName>,
    /// How many may be away at a time.
    pub(crate) at_most: usize,
}

impl Work<'_> {
    /// Lets the step's worker go down, unless as many others are away as may be. Then everything is planned anew, which tells what
    /// is waited for. Whoever is away itself may be done to what brings it back.
    pub(crate) async fn others_are_there(&self) -> Result<()> {
        let (Some(beside), Some(node)) = (&self.beside, &self.planned.node) else { return Ok(()) };
        if sabotaged(Defect::AwayNotLookedFor) {
            return Ok(());
        }
        let but_for = beside.new.union(&beside.ours).cloned().collect();
        let mut away = away(self.run, &but_for, &beside.back).await;
        if away.remove(node).is_some() {
            return Ok(());
        }
        if away.is_empty() || away.len() + beside.ours.len() < beside.at_most {
            return Ok(());
        }
        Err(StepError::WorkersAway { held: vec![node.clone()], away })
    }
}

/// Whether a worker is missed while a step is carried out. One that moves goes on running.
pub(crate) fn takes_away(run: &Run<'_>, step: &Planned) -> bool {
    let is_worker = step.node.as_ref().and_then(|node| run.role(node)) == Some(Role::Worker);
    takes_down(step) && step.effect != Effect::Move && is_worker
}

/// Nodes a plan makes.
pub(crate) fn made_by(plan: &Plan) -> BTreeSet<NodeName> {
    let made = plan.steps.iter().filter(|step| step.effect == Effect::Create);
    made.filter_map(|step| step.node.clone()).collect()
}

/// Nodes a plan brings back, or does more to.
pub(crate) fn brought_back_by(plan: &Plan) -> BTreeSet<NodeName> {
    plan.steps.iter().filter_map(brings_back).cloned().collect()
}

/// Workers that are away now, if the plan takes others down.
pub(crate) async fn away_beside(run: &Run<'_>, plan: &Plan) -> BTreeSet<NodeName> {
    if run.destroys_all() || !plan.steps.iter().any(|step| takes_away(run, step)) {
        return BTreeSet::new();
    }
    away(run, &made_by(plan), &brought_back_by(plan)).await.into_keys().collect()
}

/// Workers that are to be there and are not, each with why, but for some. Whoever an earlier run closed is away too, unless it is brought
/// `back`. Nobody, where Kubernetes does not say: then nobody sees a node come back either, and the steps that wait for that end the
/// run.
async fn away(
    run: &Run<'_>,
    but_for: &BTreeSet<NodeName>,
    back: &BTreeSet<NodeName>,
) -> BTreeMap<NodeName, String> {
    let inside = run.request.looks_inside() && run.request.until >= Until::Configured;
    let Some(reach) = run.reach.filter(|_| inside) else { return BTreeMap::new() };
    let nodes = nodes(run, reach).await;
    let workers = run.desired.nodes.iter().filter(|node| node.role == Role::Worker);
    let workers = workers.filter(|node| node.vm.power == Power::Running && !but_for.contains(&node.name));
    let known = workers.filter_map(|node| {
        Some((&node.name, nodes.iter().find(|known| known.name() == node.name.as_str())?))
    });
    let must_be_ready = must_be_ready(run.desired);
    let closed = |name: &NodeName, node: &Node| {
        node.cordoned_for().filter(|_| !back.contains(name)).map(|reason| (name.clone(), unfinished(reason)))
    };
    let asked: Vec<Asked<'_>> = known
        .map(|(name, node)| match closed(name, node) {
            Some(closed) => Box::pin(std::future::ready(Some(closed))) as Asked<'_>,
            None => Box::pin(absence(reach, must_be_ready, name, node)) as Asked<'_>,
        })
        .collect();
    let absences = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE);
    let mut away: BTreeMap<NodeName, String> =
        absences.filter_map(std::future::ready).collect::<BTreeMap<_, _>>().await;
    // Only what is asked rarely is worth a look at every VM.
    if !away.is_empty()
        && let Ok(observed) = observe_for(run.client, run.desired, run.request).await
    {
        let off = kept_off(run.desired, &observed);
        away.retain(|node, _| !off.contains(node));
    }
    away
}

type Asked<'a> = Pin<Box<dyn Future<Output = Option<(NodeName, String)>> + Send + 'a>>;

/// Why a worker is away: Kubernetes says so, or its machine does not answer, twice.
async fn absence(
    reach: &Reach<'_>,
    must_be_ready: bool,
    name: &NodeName,
    node: &Node,
) -> Option<(NodeName, String)> {
    if must_be_ready && !node.is_ready() {
        let why = node.readiness().map(|ready| ready.message.as_str()).unwrap_or_default();
        let colon = if why.is_empty() { "" } else { ": " };
        return Some((name.clone(), format!("it is not ready in Kubernetes{colon}{why}")));
    }
    let address = node.addresses().next()?;
    let Probe::Unreachable { .. } = probe(reach, address, None).await else { return None };
    tokio::time::sleep(PAUSE).await;
    let Probe::Unreachable { reason } = probe(reach, address, None).await else { return None };
    Some((name.clone(), format!("it does not answer: {reason}")))
}

/// What Kubernetes has, at whichever control plane answers first.
async fn nodes(run: &Run<'_>, reach: &Reach<'_>) -> Vec<Node> {
    let controllers = run.desired.nodes.iter().filter(|node| node.role == Role::Controller);
    let addresses = controllers.filter_map(|node| match &node.address {
        NodeAddress::Declared(address) => Some(address.primary()),
        NodeAddress::FromPool(_) => None,
    });
    for client in reach.kubernetes_at(addresses) {
        match client.nodes().await {
            Ok(nodes) => return nodes,
            Err(error) => tracing::debug!("Kubernetes does not say who is away: {error}"),
        }
    }
    Vec::new()
}
