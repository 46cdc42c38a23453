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
use std::time::Duration;

use futures_util::future::{Either, select};
use talmox_plan::{Observed, Plan, Waiting, check, plan};
use talmox_pve::client::{self, Progress};
use talmox_types::{HostName, VmId};

use crate::execute::execute_under;
use crate::find::find;
use crate::lease::{self, Lease};
use crate::locks::Watch;
use crate::{ObserveError, Outcome, Reporter, Run, StepError, execute, heartbeat, observe_whole};
use approval::Approval;
pub use outcome::{ApplyError, Summary};

/// Rounds in all. Each makes progress or is one of few that wait; a plan that never becomes empty is a fault.
const ROUNDS: usize = 12;
/// Rounds in a row that may change nothing: another run may be working on the same nodes.
const IDLE_ROUNDS: u32 = 4;
/// How often what others make is waited for before a plan without steps is taken for final.
const WAITS: usize = 4;
/// The same for machines that answer one after the other, and control planes that cannot say yet whether they have data;
/// and how long is waited between looks at those.
const MACHINE_WAITS: usize = 150;
const CONTROL_PLANE_PAUSE: Duration = Duration::from_secs(2);
/// The same for workers that are away and keep others up: in all as long as a machine takes to restart, and some.
const WORKER_PAUSE: Duration = Duration::from_secs(4);
/// How often Proxmox is looked at before it is taken for gone, and how long is waited between.
const LOOKS: u32 = 3;
const LOOK_PAUSE: Duration = Duration::from_secs(5);
/// The longest a look is silent.
const LOOK_SILENCE: Duration = Duration::from_secs(10);
/// How long somebody else may take to make a VM on an id of ours.
const OTHERS_LIMIT: Duration = Duration::from_hours(1);

/// Carries an approved plan out and goes on, within what was approved, until the cluster is as described.
pub async fn apply(run: &Run<'_>, approved: &Plan) -> Result<Summary, ApplyError> {
    let rounds = Rounds { run, approval: Approval::of(approved), summary: Summary::default() };
    if !approved.refusals.is_empty() {
        return Err(ApplyError::Refused { refusals: approved.refusals.clone(), summary: rounds.summary });
    }
    if approved.is_empty() && !rounds.awaits_others(approved) {
        return Ok(Summary { waiting: approved.waiting.clone(), ..rounds.summary });
    }
    let mut lease = None;
    let end = Box::pin(rounds.go(approved, &mut lease)).await;
    // With the cluster goes what its lease is kept in.
    let is_gone = run.destroys_all() && end.is_ok();
    if let Some(lease) = lease.filter(|_| !is_gone) {
        lease.release().await;
    }
    end
}

struct Rounds<'a> {
    run: &'a Run<'a>,
    approval: Approval,
    summary: Summary,
}

impl<'a> Rounds<'a> {
    async fn go(mut self, approved: &Plan, lease: &mut Option<Lease<'a>>) -> Result<Summary, ApplyError> {
        let mut now = Cow::Borrowed(approved);
        let mut idle = 0;
        for _ in 0..ROUNDS {
            if let Some(anew) = self.under_lease(&now, lease).await? {
                now = Cow::Owned(anew);
            }
            let outcome = self.carry_out(&now, lease.as_ref()).await;
            self.summary.add(&outcome);
            if outcome.interrupted || self.run.stop.is_cancelled() {
                return Err(ApplyError::Interrupted { outcome, summary: self.summary });
            }
            if !outcome.wants_another_plan() {
                return Err(ApplyError::Failed { outcome, summary: self.summary });
            }
            if outcome.closed {
                self.summary.left = outcome.skipped.into_iter().map(|skip| skip.step).collect();
                return Ok(self.summary);
            }
            idle = if outcome.got_further() { 0 } else { idle + 1 };
            now = Cow::Owned(self.next(&now, idle).await?);
            if now.steps.is_empty() {
                return self.end(now.into_owned());
            }
            if idle > IDLE_ROUNDS {
                // Steps that find nothing to do, and a plan that has them again: nothing failed, and nothing comes of it.
                if outcome.failed.is_empty() {
                    return Err(self.endless(now.into_owned()));
                }
                return Err(ApplyError::Failed { outcome, summary: self.summary });
            }
        }
        Err(self.endless(now.into_owned()))
    }

    fn endless(self, last: Plan) -> ApplyError {
        let left = last.steps.into_iter().map(|step| step.id).collect();
        ApplyError::Endless { left, summary: self.summary }
    }

    /// Nothing is left to do. What was to follow and cannot is no good end.
    fn end(mut self, last: Plan) -> Result<Summary, ApplyError> {
        let stuck = last.waiting.iter().find_map(|waiting| match waiting {
            Waiting::Bootstrap { node, missing } => Some(StepError::Stalled {
                node: node.clone(),
                missing: missing.iter().map(ToString::to_string).collect(),
            }),
            Waiting::Workers { away, held, .. } => {
                Some(StepError::WorkersAway { held: held.clone(), away: away.clone() })
            }
            Waiting::InFlight { .. }
            | Waiting::Locked { .. }
            | Waiting::HostDown { .. }
            | Waiting::Reboot { .. }
            | Waiting::Trial { .. }
            | Waiting::Answer { .. } => None,
        });
        if let Some(source) = stuck {
            return Err(ApplyError::blocked(source, self.summary));
        }
        (self.summary.waiting, self.summary.later) = (last.waiting, last.later);
        Ok(self.summary)
    }

    /// Takes the lease if the plan has what nobody else may do meanwhile. One that changed a VM makes what was planned for
    /// that VM out of date: gives the plan anew.
    async fn under_lease(
        &self,
        now: &Plan,
        lease: &mut Option<Lease<'a>>,
    ) -> Result<Option<Plan>, ApplyError> {
        let Some(reach) = self.run.reach.filter(|_| lease.is_none() && lease::is_needed(now)) else {
            return Ok(None);
        };
        let taken = lease::take(self.run.into(), reach, lease::Need::of(self.run)).await;
        *lease = taken.map_err(|source| ApplyError::blocked(source, self.summary.clone()))?;
        match lease {
            Some(lease) if lease.is_in_a_mark() => {
                let nothing = Plan { waiting: Vec::new(), ..now.clone() };
                self.look_and_plan(&nothing).await.map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    async fn carry_out(&self, now: &Plan, lease: Option<&Lease<'a>>) -> Outcome {
        let Some(lease) = lease else { return execute(self.run, now).await };
        let work = std::pin::pin!(execute_under(self.run, now, Some(lease)));
        let kept = std::pin::pin!(lease.keep());
        match select(work, kept).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Waits for others, looks, and plans what is left.
    async fn next(&mut self, last: &Plan, idle: u32) -> Result<Plan, ApplyError> {
        if idle > 0 {
            let pause = self.run.pace().sleep(Duration::from_secs(1 << idle.min(4)));
            self.run.stop.run_until_cancelled(pause).await;
        }
        let mut next = self.look_and_plan(last).await?;
        let mut waits = 0;
        while next.steps.is_empty() && waits < self.patience(&next) {
            next = self.look_and_plan(&next).await?;
            waits += 1;
        }
        Ok(next)
    }

    async fn look_and_plan(&self, last: &Plan) -> Result<Plan, ApplyError> {
        let summary = || self.summary.clone();
        self.wait_for_all(&last.waiting)
            .await
            .map_err(|source| ApplyError::blocked(kept_up(&last.waiting, source), summary()))?;
        let (mut observed, mut next) = self.looked().await?;
        // A machine that was just started is silent for a while. What is refused for that may not be once it answers.
        if !next.refusals.is_empty()
            && self.awaits_others(&next)
            && self.wait_for_all(&next.waiting).await.is_ok()
        {
            (observed, next) = self.looked().await?;
        }
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

    async fn looked(&self) -> Result<(Observed, Plan), ApplyError> {
        let observed = look(self.run).await;
        let summary = || self.summary.clone();
        let observed = observed.map_err(|source| ApplyError::Observe { source, summary: summary() })?;
        let next = plan(self.run.desired, &observed, self.run.request, self.run.nonce);
        Ok((observed, next))
    }

    /// How often another look may show more to do.
    fn patience(&self, plan: &Plan) -> usize {
        let machines = |waiting: &Waiting| {
            matches!(waiting, Waiting::Bootstrap { .. } | Waiting::Answer { .. } | Waiting::Workers { .. })
        };
        match (plan.waiting.iter().any(machines), self.awaits_others(plan)) {
            (true, _) => MACHINE_WAITS,
            (false, true) => WAITS,
            (false, false) => 0,
        }
    }

    /// Whether another task is busy with what we want, or a machine has yet to answer, so that another look may show more to
    /// do.
    fn awaits_others(&self, plan: &Plan) -> bool {
        let answers = |waiting: &Waiting| matches!(waiting, Waiting::Answer { .. });
        plan.waiting.iter().any(|waiting| self.locked(waiting).is_some() || answers(waiting))
    }

    /// The locked VM this run waits for. A backup or snapshot of a VM that nothing was approved for may hold it for hours, and
    /// what it lacks afterwards is in no plan that the user has seen: that is left, and said at the end.
    fn locked<'w>(&self, waiting: &'w Waiting) -> Option<(VmId, &'w HostName)> {
        match waiting {
            Waiting::InFlight { vmid, host, .. } => Some((*vmid, host)),
            Waiting::Locked { node, vmid, host, .. } => self.approval.concerns(node).then_some((*vmid, host)),
            Waiting::HostDown { .. }
            | Waiting::Reboot { .. }
            | Waiting::Trial { .. }
            | Waiting::Answer { .. }
            | Waiting::Workers { .. }
            | Waiting::Bootstrap { .. } => None,
        }
    }

    /// Waits for what Proxmox is busy with, and until some of the silent machines answer.
    async fn wait_for_all(&self, waiting: &[Waiting]) -> Result<(), StepError> {
        for (vmid, host) in waiting.iter().filter_map(|one| self.locked(one)) {
            wait_for(self.run, vmid, host).await?;
        }
        wait_for_machines(self.run, waiting).await
    }
}

/// Looks, more than once if Proxmox does not answer: half-way through is no good place to give up.
async fn look(run: &Run<'_>) -> Result<Observed, ObserveError> {
    let mut tries = 1;
    loop {
        let looking = observe_whole(run.client, run.desired, run.request, run.reach);
        match heartbeat(LOOK_SILENCE, looking, |elapsed| say_slow(run, elapsed)).await {
            Err(error) if tries < LOOKS && error.source.is_safe_to_retry() => {
                tracing::warn!(tries, "looking again: {}", error.source);
                run.stop.run_until_cancelled(run.pace().sleep(LOOK_PAUSE)).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

/// A host that was just lost makes Proxmox slow for every other one too, until it is counted out.
fn say_slow(run: &Run<'_>, elapsed: Duration) {
    let (name, detail) = ("all of Proxmox to answer", "a host that does not answer makes it slow");
    run.reporter.waiting(&client::Waiting { name, elapsed, limit: Duration::ZERO, detail });
}

/// A machine that does not answer may be a worker that keeps others up: then that is what is to be said.
fn kept_up(waiting: &[Waiting], source: StepError) -> StepError {
    let silent = if let StepError::NotThere { node, .. } = &source { Some(node.clone()) } else { None };
    let held = waiting.iter().find_map(|one| {
        let Waiting::Workers { away, held, .. } = one else { return None };
        let node = silent.clone().filter(|node| away.contains_key(node))?;
        let mut away = away.clone();
        away.insert(node, source.to_string());
        Some(StepError::WorkersAway { held: held.clone(), away })
    });
    held.unwrap_or(source)
}

/// Waits until some of the silent machines answer.
async fn wait_for_machines(run: &Run<'_>, waiting: &[Waiting]) -> Result<(), StepError> {
    if waiting.iter().any(|one| matches!(one, Waiting::Bootstrap { .. })) {
        run.stop.run_until_cancelled(run.pace().sleep(CONTROL_PLANE_PAUSE)).await;
    }
    if waiting.iter().any(|one| matches!(one, Waiting::Workers { .. })) {
        run.stop.run_until_cancelled(run.pace().sleep(WORKER_PAUSE)).await;
    }
    let Some(reach) = run.reach else { return Ok(()) };
    let silent = waiting.iter().filter_map(|one| match one {
        Waiting::Answer { node, address, .. } => Some((node, *address)),
        Waiting::InFlight { .. }
        | Waiting::Locked { .. }
        | Waiting::HostDown { .. }
        | Waiting::Reboot { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::Bootstrap { .. } => None,
    });
    answer::wait(run, reach, silent.collect()).await
}

async fn wait_for(run: &Run<'_>, vmid: VmId, host: &HostName) -> Result<(), StepError> {
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
