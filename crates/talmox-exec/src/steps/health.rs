//! Waiting until everything works.
//!
//! First the checks of `talosctl health`, one after the other; then nothing must be left that the planner would complain
//! about, twice in a row: readiness comes and goes while a node joins.

use std::pin::Pin;
use std::time::Duration;

use talmox_plan::{Observed, Planned, Step, Waiting, assigned_addresses, kept_off, plan};
use talmox_types::desired::Node;
use tokio::time::Instant;

use crate::health::{CheckState, Cluster, Member, Progress, await_health, expects_network};
use crate::machine::kubernetes::control_planes;
use crate::machine::{Compare, observe_machines, places};
use crate::work::{End, Result, Work};
use crate::{Event, Reach, Run, StepError, observe_for};

/// As long as Talos' own health check waits.
const LIMIT: Duration = Duration::from_mins(20);
const PAUSE: Duration = Duration::from_secs(2);
/// How many looks in a row have to find nothing.
const SURE: u32 = 2;
const NAME: &str = "the cluster to be healthy";

pub(super) async fn wait(work: &Work<'_>) -> Result {
    let (run, reach, begun) = (work.run, work.reach()?, Instant::now());
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    pass_checks(work, reach, &observed).await?;
    settle(work, reach, observed, begun).await?;
    Ok(End::Unchanged)
}

/// The checks, if they can be asked: without Kubernetes only what machines say is known.
async fn pass_checks(work: &Work<'_>, reach: &Reach<'_>, observed: &Observed) -> Result<()> {
    let Some(cluster) = cluster(work, reach, observed) else { return Ok(()) };
    let (run, step) = (work.run, work.planned);
    let report = move |progress: Progress<'_>| tell(run, step, &progress);
    let waits: Pin<Box<dyn Future<Output = _> + Send + '_>> =
        Box::pin(await_health(&cluster, LIMIT, &report));
    let healthy = work.unless_stopped(NAME, waits).await?;
    healthy
        .map(drop)
        .map_err(|unhealthy| StepError::NotHealthy { limit: LIMIT, last_words: unhealthy.to_string() })
}

fn tell(run: &Run<'_>, step: &Planned, progress: &Progress<'_>) {
    let Progress { name, state, elapsed, limit, .. } = *progress;
    let detail = match state {
        CheckState::Waiting(missing) => missing.why.as_str(),
        CheckState::Skipped { why } => why,
        CheckState::Ok | CheckState::NotAsked => "",
    };
    run.event(Event::Waiting { step, name, detail, elapsed, limit });
}

fn cluster(work: &Work<'_>, reach: &Reach<'_>, observed: &Observed) -> Option<Cluster> {
    let desired = work.run.desired;
    let kubernetes = reach.kubernetes_at(control_planes(desired, observed).into_iter());
    if kubernetes.is_empty() {
        return None;
    }
    let kept_off = kept_off(desired, observed);
    let member = |node: &Node, addresses| Member { name: node.name.clone(), role: node.role, addresses };
    let running = places(desired, observed).into_iter();
    let members =
        running.filter(|(node, _)| !kept_off.contains(&node.name)).map(|(node, at)| member(node, at.address));
    let addresses = assigned_addresses(desired, observed);
    let off = desired.nodes.iter().filter(|node| kept_off.contains(&node.name));
    let off = off.filter_map(|node| Some(member(node, *addresses.get(&node.name)?)));
    Some(Cluster {
        members: members.collect(),
        off: off.collect(),
        talos: std::sync::Arc::clone(&reach.talos),
        identity: reach.machines.identity()?,
        kubernetes,
        has_network: expects_network(desired),
    })
}

/// Looks until a plan made now would have nothing to wait for.
async fn settle(work: &Work<'_>, reach: &Reach<'_>, mut observed: Observed, begun: Instant) -> Result<()> {
    let mut well = 0;
    loop {
        observe_machines(reach, work.run.desired, &mut observed, Compare::Nothing).await;
        let complaint = complaint(work, &observed);
        well = if complaint.is_none() { well + 1 } else { 0 };
        if well >= SURE {
            return Ok(());
        }
        let detail = complaint.unwrap_or_else(|| "it looks so; another look makes sure".to_owned());
        let (elapsed, limit) = (begun.elapsed(), LIMIT);
        if elapsed > limit {
            return Err(StepError::NotHealthy { limit, last_words: detail });
        }
        work.event(Event::Waiting { step: work.planned, name: NAME, detail: &detail, elapsed, limit });
        work.pause(NAME, PAUSE).await?;
    }
}

/// What a plan made now would still wait for.
fn complaint(work: &Work<'_>, observed: &Observed) -> Option<String> {
    let made = plan(work.run.desired, observed, work.run.request, work.run.nonce);
    let waiting = made.waiting.iter().find_map(|waiting| match waiting {
        Waiting::Answer { node, reason, .. } => Some(format!("{node} does not answer: {reason}")),
        Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::HostDown { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::Bootstrap { .. } => None,
    });
    let refused = made.refusals.into_iter().next().map(|refusal| refusal.problem);
    let step = made.steps.into_iter().find(|planned| matches!(planned.step, Step::AwaitHealth));
    waiting.or(refused).or_else(|| step.map(|planned| planned.reason))
}
