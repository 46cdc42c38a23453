//! Waiting until everything works.
//!
//! What counts is what the planner would still complain about, twice in a row: readiness comes and goes while a node joins.

use std::time::Duration;

use talmox_plan::{Observed, Step, plan};
use tokio::time::Instant;

use crate::machine::{Compare, observe_machines};
use crate::work::{End, Result, Work};
use crate::{Event, StepError, observe_for};

/// As long as Talos' own health check waits.
const LIMIT: Duration = Duration::from_mins(20);
const PAUSE: Duration = Duration::from_secs(2);
/// How many looks in a row have to find nothing.
const SURE: u32 = 2;
const NAME: &str = "the cluster to be healthy";

pub(super) async fn wait(work: &Work<'_>) -> Result {
    let (run, reach) = (work.run, work.reach()?);
    let mut observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let (begun, mut well) = (Instant::now(), 0);
    loop {
        observe_machines(reach, run.desired, &mut observed, Compare::Nothing).await;
        let complaint = complaint(work, &observed);
        well = if complaint.is_none() { well + 1 } else { 0 };
        if well >= SURE {
            return Ok(End::Unchanged);
        }
        let detail = complaint.unwrap_or_else(|| "it looks so; another look makes sure".to_owned());
        let elapsed = begun.elapsed();
        if elapsed > LIMIT {
            return Err(StepError::NotHealthy { limit: LIMIT, last_words: detail });
        }
        let waiting =
            Event::Waiting { step: work.planned, name: NAME, detail: &detail, elapsed, limit: LIMIT };
        work.event(waiting);
        work.unless_stopped(NAME, tokio::time::sleep(PAUSE)).await?;
    }
}

/// What a plan made now would still wait for.
fn complaint(work: &Work<'_>, observed: &Observed) -> Option<String> {
    let made = plan(work.run.desired, observed, work.run.request, work.run.nonce);
    let waiting = made.waiting.iter().find_map(|waiting| match waiting {
        talmox_plan::Waiting::Answer { node, reason, .. } => {
            Some(format!("{node} does not answer: {reason}"))
        }
        _ => None,
    });
    let step = made.steps.into_iter().find(|planned| matches!(planned.step, Step::AwaitHealth));
    let refused = made.refusals.into_iter().next().map(|refusal| refusal.problem);
    waiting.or(refused).or_else(|| step.map(|planned| planned.reason))
}
