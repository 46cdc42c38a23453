//! One writer: whoever takes nodes down, removes them or bootstraps says so where others look first.
//!
//! ```text
//!  Kubernetes answers ─▶ the lease kube-system/talmox
//!  not yet            ─▶ a word in the mark of the first control plane, guarded by the digest of its VM
//! ```
//!
//! A lease of a run that died ends by itself after two minutes: nobody is told to go away for it, the end is waited for. It
//! fences nothing, so every step survives a second actor all the same.

use std::time::Duration;

use talmox_k8s::{Lock, Outcome, Time};
use talmox_plan::{Plan, Step, first_control_plane, identify};
use talmox_pve::client::{ConfigChange, Waiting};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, LeaseWord, Mark, VmId};
use tokio::time::Instant;

use crate::find::{Found, find};
use crate::machine::kubernetes::control_planes;
use crate::run::takes_down;
use crate::{Reach, Run, StepError, observe_for};

type Result<T> = std::result::Result<T, StepError>;

/// How long a lease lasts unless it is renewed.
const TERM: u64 = 120;
const RENEWED_EVERY: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_secs(5);
/// How often a mark is written that others write too.
const TRIES: u32 = 5;

/// Whether a plan has something that nobody else may do at the same time.
pub(crate) fn is_needed(plan: &Plan) -> bool {
    !sabotaged(Defect::LeaseNotTaken)
        && plan.steps.iter().any(|step| matches!(step.step, Step::Bootstrap { .. }) || takes_down(step))
}

/// A lease that is held.
pub(crate) struct Lease<'a> {
    run: &'a Run<'a>,
    reach: &'a Reach<'a>,
    place: Place,
}

enum Place {
    Mark { host: HostName, vmid: VmId },
    Kubernetes(Box<Lock>),
}

/// Takes the lease, or waits until whoever has it is done or gone. None where there is nothing yet to keep it in.
pub(crate) async fn take<'a>(run: &'a Run<'a>, reach: &'a Reach<'a>) -> Result<Option<Lease<'a>>> {
    let Some(place) = place(run, reach).await? else { return Ok(None) };
    let lease = Lease { run, reach, place };
    let (begun, limit) = (Instant::now(), Duration::from_secs(TERM) + PAUSE);
    let mut first: Option<(String, u64)> = None;
    loop {
        let Some((holder, renewed)) = lease.try_once(reach.take_over).await? else { return Ok(Some(lease)) };
        let alive = first.as_ref().is_some_and(|(known, at)| *known == holder && *at != renewed);
        if alive || begun.elapsed() > limit {
            let seconds = reach.clock.now().saturating_sub(renewed);
            return Err(StepError::Leased { holder, seconds });
        }
        let name = format!("{holder} to finish, or its lease to end");
        let (elapsed, detail) = (begun.elapsed(), "it works on this cluster, or did until a moment ago");
        run.reporter.waiting(&Waiting { name: &name, elapsed, limit, detail });
        first.get_or_insert((holder, renewed));
        let pause = run.stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        pause.ok_or(StepError::Interrupted { waiting_for: name })?;
    }
}

/// Where the lease is kept.
async fn place(run: &Run<'_>, reach: &Reach<'_>) -> Result<Option<Place>> {
    let observed = observe_for(run.client, run.desired, run.request)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    for client in reach.kubernetes_at(control_planes(run.desired, &observed).into_iter()) {
        let lock = Lock::new(client, reach.holder.clone());
        if lock.look(now(reach)).await.is_ok() {
            return Ok(Some(Place::Kubernetes(Box::new(lock))));
        }
    }
    let first = first_control_plane(run.desired);
    let identities = identify(run.desired, &observed);
    let owned = first.and_then(|first| identities.of_node(first).next());
    Ok(owned.map(|owned| Place::Mark { host: owned.host.clone(), vmid: owned.mark.vmid }))
}

fn now(reach: &Reach<'_>) -> Time {
    Time::from_unix(i64::try_from(reach.clock.now()).unwrap_or(i64::MAX))
}

impl Lease<'_> {
    /// Whether it is one that others read from a VM's mark: taking it changed that VM's digest.
    pub(crate) fn is_in_a_mark(&self) -> bool {
        matches!(self.place, Place::Mark { .. })
    }

    /// Takes it; gives who has it, and when they were last seen.
    async fn try_once(&self, take_over: bool) -> Result<Option<(String, u64)>> {
        match &self.place {
            Place::Kubernetes(lock) => {
                let taken = lock.acquire(now(self.reach), take_over).await.map_err(|error| {
                    StepError::HandOver { doing: "take the lease".to_owned(), reason: error.to_string() }
                })?;
                Ok(match taken {
                    Outcome::Ours(_) => None,
                    Outcome::Theirs(theirs) => {
                        Some((theirs.holder, u64::try_from(theirs.renewed.unix()).unwrap_or_default()))
                    }
                })
            }
            Place::Mark { .. } => self.take_mark(take_over).await,
        }
    }

    async fn take_mark(&self, take_over: bool) -> Result<Option<(String, u64)>> {
        let ours = LeaseWord::holder(&self.reach.holder);
        for _ in 0..TRIES {
            let Some((found, mark)) = self.marked().await? else { return Ok(None) };
            let now = self.reach.clock.now();
            if let Some(LeaseWord { holder, renewed }) = &mark.lease
                && *holder != ours
                && renewed.saturating_add(TERM) > now
                && !take_over
            {
                return Ok(Some((holder.clone(), *renewed)));
            }
            let word = LeaseWord { holder: ours.clone(), renewed: now };
            if self.written(&found, &Mark { lease: Some(word), ..mark }).await? {
                return Ok(None);
            }
        }
        Err(StepError::Changed { what: "the mark of the first control plane".to_owned() })
    }

    /// The VM that keeps it, with its mark; none if it is gone.
    async fn marked(&self) -> Result<Option<(Found, Mark)>> {
        let Place::Mark { host, vmid } = &self.place else { return Ok(None) };
        let found = find(self.run.client, host, *vmid).await;
        let found = found.map_err(StepError::call(format!("read VM {vmid}")))?;
        let marked = |found: Found| {
            let mark = found.mark().filter(|mark| Some(&mark.uid) == self.run.desired.uid.as_ref())?;
            Some((found, mark))
        };
        Ok(found.and_then(marked))
    }

    /// Writes a mark; false if somebody else wrote meanwhile.
    async fn written(&self, found: &Found, mark: &Mark) -> Result<bool> {
        match write_mark(self.run, found, mark).await {
            Ok(()) => Ok(true),
            Err(error) if error.wants_another_plan() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Renews it for as long as it is held.
    pub(crate) async fn keep(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(RENEWED_EVERY).await;
            let renewed = match &self.place {
                Place::Kubernetes(lock) => lock.renew(now(self.reach)).await.is_ok(),
                Place::Mark { .. } => self.take_mark(false).await.is_ok_and(|theirs| theirs.is_none()),
            };
            if !renewed {
                tracing::warn!("the lease could not be renewed");
            }
        }
    }

    /// Gives it back. If that fails it ends by itself.
    pub(crate) async fn release(self) {
        let released = match &self.place {
            Place::Kubernetes(lock) => lock.release(now(self.reach)).await.is_ok(),
            Place::Mark { .. } => self.release_mark().await.is_ok(),
        };
        if !released {
            tracing::warn!("the lease could not be given back: it ends by itself");
        }
    }

    async fn release_mark(&self) -> Result<()> {
        let ours = LeaseWord::holder(&self.reach.holder);
        for _ in 0..TRIES {
            let Some((found, mark)) = self.marked().await? else { return Ok(()) };
            if mark.lease.as_ref().is_none_or(|word| word.holder != ours) {
                return Ok(());
            }
            if self.written(&found, &Mark { lease: None, ..mark }).await? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Writes a mark in place of the one that was read, if nobody has changed the VM since.
pub(crate) async fn write_mark(run: &Run<'_>, found: &Found, mark: &Mark) -> Result<()> {
    let doing = format!("write into the notes of {}", found.name());
    let description = mark.in_description(found.config.description().unwrap_or_default());
    let change = ConfigChange::new().set("description", &description);
    let change = change.map_err(StepError::impossible(doing.clone()))?;
    let change = found.config.digest().map_or(change.clone(), |digest| change.if_digest(digest));
    let sent = run.client.change_config(&found.host, found.vmid, &change).await;
    sent.map_err(StepError::call(doing))
}
