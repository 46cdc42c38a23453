//! Going round: carry out, look, plan, check, until nothing is left.
//!
//! ```text
//!  approved plan ─▶ execute ─▶ observe ─▶ plan ─▶ check ─▶ inside what was approved? ─▶ execute …
//!                                           └── nothing left: done
//! ```
//!
//! Most plans need one round. More are needed when the world moved meanwhile: an id was taken, another run was faster,
//! a VM was being made by somebody else. Nothing is remembered between rounds but what was approved.

mod answer;
mod approval;
mod outcome;

use std::borrow::Cow;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::join_all;
use talmox_plan::{Observed, Plan, Waiting, check, plan};
use talmox_pve::client::{self, Progress};

use crate::find::find;
use crate::locks::Watch;
use crate::{ObserveError, Reporter, Run, StepError, execute, observe_whole};
use approval::Approval;
pub use outcome::{ApplyError, Summary};

/// Rounds in all. Each makes progress or is one of few that wait; a plan that never becomes empty is a fault.
const ROUNDS: usize = 12;
/// Rounds in a row that may change nothing: another run may be working on the same nodes.
const IDLE_ROUNDS: u32 = 4;
/// How often what others make is waited for before a plan without steps is taken for final.
const WAITS: usize = 4;
/// How often Proxmox is looked at before it is taken for gone, and how long is waited between.
const LOOKS: u32 = 3;
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// How long somebody else may take to make a VM on an id of ours.
const OTHERS_LIMIT: Duration = Duration::from_hours(1);

/// Carries an approved plan out and goes on, within what was approved, until the cluster is as described.
pub async fn apply(run: &Run<'_>, approved: &Plan) -> Result<Summary, ApplyError> {
    let mut rounds = Rounds { run, approval: Approval::of(approved), summary: Summary::default() };
    if !approved.refusals.is_empty() {
        return Err(ApplyError::Refused { refusals: approved.refusals.clone(), summary: rounds.summary });
    }
    if approved.is_empty() && !awaits_others(approved) {
        rounds.summary.waiting.clone_from(&approved.waiting);
        return Ok(rounds.summary);
    }
    rounds.go(approved).await
}

struct Rounds<'a> {
    run: &'a Run<'a>,
    approval: Approval,
    summary: Summary,
}

impl Rounds<'_> {
    async fn go(mut self, approved: &Plan) -> Result<Summary, ApplyError> {
        let mut now = Cow::Borrowed(approved);
        let mut idle = 0;
        for _ in 0..ROUNDS {
            let outcome = execute(self.run, &now).await;
            self.summary.add(&outcome);
            if outcome.interrupted || self.run.stop.is_cancelled() {
                return Err(ApplyError::Interrupted { outcome, summary: self.summary });
            }
            if !outcome.wants_another_plan() {
                return Err(ApplyError::Failed { outcome, summary: self.summary });
            }
            idle = if outcome.got_further() { 0 } else { idle + 1 };
            now = Cow::Owned(self.next(&now, idle).await?);
            if now.steps.is_empty() {
                self.summary.waiting = now.into_owned().waiting;
                return Ok(self.summary);
            }
            if idle > IDLE_ROUNDS {
                return Err(ApplyError::Failed { outcome, summary: self.summary });
            }
        }
        let left = now.into_owned().steps.into_iter().map(|step| step.id).collect();
        Err(ApplyError::Endless { left, summary: self.summary })
    }

    /// Waits for others, looks, and plans what is left.
    async fn next(&mut self, last: &Plan, idle: u32) -> Result<Plan, ApplyError> {
        if idle > 0 {
            let pause = tokio::time::sleep(Duration::from_secs(1 << idle.min(4)));
            self.run.stop.run_until_cancelled(pause).await;
        }
        let mut next = self.look_and_plan(last).await?;
        for _ in 0..WAITS {
            if !next.steps.is_empty() || !awaits_others(&next) {
                break;
            }
            next = self.look_and_plan(&next).await?;
        }
        Ok(next)
    }

    async fn look_and_plan(&self, last: &Plan) -> Result<Plan, ApplyError> {
        let summary = || self.summary.clone();
        wait_for_all(self.run, &last.waiting)
            .await
            .map_err(|source| ApplyError::blocked(source, summary()))?;
        let observed = look(self.run).await;
        let observed = observed.map_err(|source| ApplyError::Observe { source, summary: summary() })?;
        let next = plan(self.run.desired, &observed, self.run.request, self.run.nonce);
        if !next.refusals.is_empty() {
            return Err(ApplyError::Refused { refusals: next.refusals, summary: summary() });
        }
        let violations = check(&next, self.run.desired, &observed, self.run.request);
        if !violations.is_empty() {
            return Err(ApplyError::Unsafe { violations, summary: summary() });
        }
        let beyond = self.approval.beyond(&next);
        if !beyond.is_empty() {
            return Err(ApplyError::OutsideApproval { beyond, summary: summary() });
        }
        Ok(next)
    }
}

/// Looks, more than once if Proxmox does not answer: half-way through is no good place to give up.
async fn look(run: &Run<'_>) -> Result<Observed, ObserveError> {
    let mut tries = 1;
    loop {
        match observe_whole(run.client, run.desired, run.request, run.reach).await {
            Err(error) if tries < LOOKS && error.source.is_safe_to_retry() => {
                tracing::warn!(tries, "looking again: {}", error.source);
                run.stop.run_until_cancelled(tokio::time::sleep(LOOK_PAUSE)).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

/// Whether somebody else is busy with what we want, or a machine has yet to answer, so that another look may show more to
/// do.
fn awaits_others(plan: &Plan) -> bool {
    let answers = |waiting: &Waiting| matches!(waiting, Waiting::Answer { .. });
    plan.waiting.iter().any(|waiting| locked(waiting).is_some() || answers(waiting))
}

fn locked(waiting: &Waiting) -> Option<(talmox_types::VmId, &talmox_types::HostName)> {
    match waiting {
        Waiting::InFlight { vmid, host, .. } | Waiting::Locked { vmid, host, .. } => Some((*vmid, host)),
        Waiting::HostDown { .. }
        | Waiting::Reboot { .. }
        | Waiting::Answer { .. }
        | Waiting::Bootstrap { .. } => None,
    }
}

/// Waits for everything a plan waits for: for what Proxmox is busy with in turn, for machines side by side.
async fn wait_for_all(run: &Run<'_>, waiting: &[Waiting]) -> Result<(), StepError> {
    for one in waiting {
        wait_for(run, one).await?;
    }
    let Some(reach) = run.reach else { return Ok(()) };
    let mut answers: Vec<Pin<Box<dyn Future<Output = Result<(), StepError>> + Send + '_>>> = Vec::new();
    for one in waiting {
        if let Waiting::Answer { node, address, .. } = one {
            answers.push(Box::pin(answer::wait(run, reach, node, *address)));
        }
    }
    join_all(answers).await.into_iter().collect()
}

async fn wait_for(run: &Run<'_>, waiting: &Waiting) -> Result<(), StepError> {
    let Some((vmid, host)) = locked(waiting) else { return Ok(()) };
    let found = find(run.client, host, vmid).await.map_err(StepError::call(format!("read VM {vmid}")))?;
    let Some(found) = found else { return Ok(()) };
    let watch = Watch { client: run.client, stop: run.stop, progress: &Voice(run.reporter) };
    watch.settle(found, OTHERS_LIMIT).await.map(drop)
}

/// Passes on how a wait goes that belongs to no step.
struct Voice<'a>(&'a dyn Reporter);

impl Progress for Voice<'_> {
    fn report(&self, waiting: &client::Waiting<'_>) {
        self.0.waiting(waiting);
    }
}
