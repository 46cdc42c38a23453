//! One step at work: its way to Proxmox, its voice, its waits.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use talmox_plan::{Expected, ExpectedTemplate, Plan, Planned, Step};
use talmox_pve::client::{Client, Error, Look, Progress, TaskError, Upid, Wait, Waiting};
use talmox_types::desired::VmIdRange;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, StorageId, VmId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::find::Found;
use crate::gate::Door;
use crate::locks::{Settled, Watch};
use crate::unavailable::Beside;
use crate::{Event, Limits, Run, StepError};

/// How a step ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// There was nothing to do.
    Unchanged,
    Changed,
    /// The node has this VM, not the planned one: what follows is planned anew.
    Instead {
        vmid: VmId,
        wrote: bool,
    },
}

impl End {
    pub(crate) fn wrote(self) -> bool {
        match self {
            Self::Unchanged => false,
            Self::Changed => true,
            Self::Instead { wrote, .. } => wrote,
        }
    }

    pub(crate) fn instead(self) -> Option<VmId> {
        match self {
            Self::Instead { vmid, .. } => Some(vmid),
            Self::Unchanged | Self::Changed => None,
        }
    }
}

pub(crate) type Result<T = End> = std::result::Result<T, StepError>;

/// What the steps of one plan must know of each other and of the cluster: ids that are spoken for, VMs just made, and
/// storages that are shared.
#[derive(Default)]
pub(crate) struct Reserved {
    /// Storages several hosts share, as far as Proxmox tells.
    shared: BTreeSet<StorageId>,
    ids: Mutex<BTreeSet<VmId>>,
    made: Mutex<BTreeMap<VmId, (String, Made)>>,
    /// What a step saw of its VM last, for the one that follows it.
    seen: Mutex<BTreeMap<VmId, Found>>,
    /// Who may have a host work now.
    turns: Mutex<BTreeMap<Busy, Arc<Semaphore>>>,
}

/// What has only so much done to it at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Busy {
    Template(VmId),
    Storage(StoragePlace),
    Host(HostName),
}

/// A storage of one host, or of all of them if they share it.
pub(crate) type StoragePlace = (StorageId, Option<HostName>);

/// How sure it is that this run makes a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Made {
    /// Proxmox has taken it on; another run may still be faster.
    Accepted,
    /// The VM carries our mark.
    Seen,
}

impl Reserved {
    pub(crate) fn of(plan: &Plan, shared: Option<&BTreeSet<StorageId>>) -> Self {
        let ids = plan.steps.iter().filter_map(|planned| vmid_of(&planned.step));
        let shared = shared.cloned().unwrap_or_default();
        Self { shared, ids: Mutex::new(ids.collect()), ..Self::default() }
    }

    fn turns(&self, busy: Busy, limits: Limits) -> Arc<Semaphore> {
        let at_once = match busy {
            Busy::Host(_) => limits.per_host,
            Busy::Storage(_) if sabotaged(Defect::StorageLimitGone) => Semaphore::MAX_PERMITS,
            Busy::Storage(_) => limits.per_storage,
            Busy::Template(_) => limits.per_template,
        };
        let new = || Arc::new(Semaphore::new(at_once.max(1)));
        Arc::clone(lock(&self.turns).entry(busy).or_insert_with(new))
    }

    /// Whether several hosts share a storage.
    pub(crate) fn is_shared(&self, storage: &StorageId) -> bool {
        self.shared.contains(storage)
    }

    /// Takes the next id above all that are in use or spoken for; beyond the range it begins anew, once.
    pub(crate) fn next(&self, range: VmIdRange, used: &BTreeSet<VmId>) -> Option<VmId> {
        let mut ids = lock(&self.ids);
        let taken = |id: VmId| used.contains(&id) || ids.contains(&id);
        let highest = used.iter().chain(ids.iter()).filter(|id| range.contains(**id)).max();
        let above = highest.map_or(range.start.get(), |highest| highest.get() + 1)..=range.end.get();
        let candidates = above.chain(range.start.get()..=range.end.get());
        let found = candidates.filter_map(|id| VmId::try_from(id).ok()).find(|id| !taken(*id))?;
        ids.insert(found);
        Some(found)
    }

    pub(crate) fn note_made(&self, vmid: VmId, whose: String, made: Made) {
        lock(&self.made).insert(vmid, (whose, made));
    }

    /// Leaves what a step saw last of its VM to the next step about it.
    pub(crate) fn hand_over(&self, found: Found) {
        if found.config.lock().is_none() && found.config.digest().is_some() {
            lock(&self.seen).insert(found.vmid, found);
        }
    }

    /// What the step before saw last; once, so that another try looks for itself.
    pub(crate) fn handed_over(&self, vmid: VmId) -> Option<Found> {
        lock(&self.seen).remove(&vmid)
    }

    pub(crate) fn forget(&self, vmid: VmId) {
        lock(&self.made).remove(&vmid);
    }

    /// Whether this run makes the VM for somebody else, as surely as asked for.
    pub(crate) fn is_made_for_another(&self, vmid: VmId, whose: &str, sure: Made) -> bool {
        lock(&self.made).get(&vmid).is_some_and(|(owner, made)| owner != whose && *made >= sure)
    }
}

/// The VM a step makes or acts on.
fn vmid_of(step: &Step) -> Option<VmId> {
    if let Step::BuildTemplate { mark, .. } = step {
        return Some(mark.vmid);
    }
    let made = step.makes().map(|mark| mark.vmid);
    made.or_else(|| step.vm().map(Expected::vmid)).or_else(|| step.template().map(ExpectedTemplate::vmid))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody's turn, for as long as it is kept.
pub(crate) struct Turn(#[expect(dead_code, reason = "held, not read")] Vec<OwnedSemaphorePermit>);

/// A step under way.
pub(crate) struct Work<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) planned: &'a Planned,
    pub(crate) reserved: &'a Reserved,
    /// Where it makes or removes volumes, in order.
    storages: Vec<StoragePlace>,
    /// What its node goes down by, if it does.
    pub(crate) door: Option<Door<'a>>,
    /// Whom it goes down beside, if it is a worker that does.
    pub(crate) beside: Option<Beside>,
    /// What it was last heard to wait for.
    heard: Mutex<Heard>,
}

/// What a step waits for, as it said last.
#[derive(Default)]
struct Heard {
    name: String,
    detail: String,
    /// How long that may take in all; zero where it is not known.
    limit: Duration,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        run: &'a Run<'a>,
        planned: &'a Planned,
        reserved: &'a Reserved,
        storages: Vec<StoragePlace>,
    ) -> Self {
        Self { run, planned, reserved, storages, door: None, beside: None, heard: Mutex::default() }
    }

    /// The same for a step that takes its node down.
    pub(crate) fn through(self, door: Option<Door<'a>>) -> Self {
        Self { door, ..self }
    }

    /// The same for one that takes a worker down.
    pub(crate) fn beside(self, beside: Option<Beside>) -> Self {
        Self { beside, ..self }
    }

    /// The way to the machines.
    pub(crate) fn reach(&self) -> Result<&'a crate::Reach<'a>> {
        self.run.reach.ok_or(StepError::NoReach { lacks: "this run was given no way to them" })
    }

    pub(crate) fn client(&self) -> &Client {
        self.run.client
    }

    pub(crate) fn event(&self, event: Event<'_>) {
        if let Event::Waiting { name, detail, limit, .. } = &event {
            self.hear(name, detail, *limit);
        }
        self.run.event(event);
    }

    fn hear(&self, name: &str, detail: &str, limit: Duration) {
        *lock(&self.heard) = Heard { name: name.to_owned(), detail: detail.to_owned(), limit };
    }

    /// Says that it is still at work, with what it was last heard to wait for.
    pub(crate) fn still(&self, elapsed: Duration) {
        let heard = lock(&self.heard);
        let Heard { name, detail, limit } = &*heard;
        self.run.event(Event::Still { step: self.planned, name, detail, elapsed, limit: *limit });
    }

    pub(crate) fn warn(&self, words: &str) {
        self.event(Event::Warned { step: self.planned, words });
    }

    /// Waits until a host, and the storages this step makes or removes volumes on, may be given more work. Whoever has a
    /// turn keeps it from the call that begins the work until its end was seen.
    pub(crate) async fn turn(&self, host: &HostName) -> Turn {
        self.take(None, Some(host)).await
    }

    /// The same for what begins something new, perhaps one more copy of a template: told to stop while it waits, it gives
    /// up.
    pub(crate) async fn turn_to_begin(
        &self,
        template: Option<VmId>,
        host: Option<&HostName>,
    ) -> Result<Turn> {
        let mut turn = std::pin::pin!(self.take(template, host));
        if let Some(turn) = turn.as_mut().now_or_never() {
            return Ok(turn);
        }
        let name = match host {
            Some(host) => format!("other work of {host}"),
            None => "other clones of its template".to_owned(),
        };
        self.unless_stopped(&name, turn).await
    }

    /// For what is no work for a host: a line in a configuration, an empty volume. Only the storages' locks are in its way.
    pub(crate) async fn turn_for_little(&self) -> Turn {
        self.take(None, None).await
    }

    async fn take(&self, template: Option<VmId>, host: Option<&HostName>) -> Turn {
        // Everybody asks in the same order, so that nobody waits for somebody who waits.
        let storages = self.storages.iter().cloned().map(Busy::Storage);
        let all = template.map(Busy::Template).into_iter().chain(storages);
        let mut permits = Vec::new();
        for busy in all.chain(host.cloned().map(Busy::Host)) {
            // They are never closed.
            permits.extend(self.reserved.turns(busy, self.run.limits).acquire_owned().await.ok());
        }
        Turn(permits)
    }

    /// Passes on how a wait of this step goes.
    pub(crate) fn progress(&self) -> impl Progress {
        Voice(self)
    }

    /// Follows a task to its end and passes on what it warns of.
    pub(crate) async fn follow(
        &self,
        upid: &Upid,
        name: &str,
        limit: Duration,
    ) -> std::result::Result<(), TaskError> {
        self.event(Event::Task { step: self.planned, upid });
        let end = self.client().follow(upid, name, limit, &Voice(self)).await?;
        for warning in &end.warnings {
            self.warn(&format!("Proxmox: {warning}"));
        }
        Ok(())
    }

    /// Looks again and again until the result of what this step did is seen.
    pub(crate) async fn until<T, F, L>(&self, name: &str, limit: Duration, look: F) -> Result<T>
    where
        F: FnMut() -> L,
        L: Future<Output = std::result::Result<Look<T>, Error>>,
    {
        let seen = Wait { name, limit, progress: &Voice(self) }.until(look).await;
        seen.map_err(|source| StepError::Wait { doing: format!("see {name}"), source })
    }

    /// Waits until nothing holds a VM any more.
    pub(crate) async fn settle(&self, found: Found, limit: Duration) -> Result<Settled> {
        let watch = Watch { client: self.client(), stop: self.run.stop, progress: &Voice(self) };
        watch.settle(found, limit).await
    }

    /// Waits before another look; told to stop, it gives up.
    pub(crate) async fn pause(&self, name: &str, pause: Duration) -> Result<()> {
        if lock(&self.heard).name != name {
            self.hear(name, "", Duration::ZERO);
        }
        self.unless_stopped(name, self.run.pace().sleep(pause)).await
    }

    /// Waits for what others do; told to stop, it gives up, since nothing of ours is under way.
    pub(crate) async fn unless_stopped<T>(&self, name: &str, waited: impl Future<Output = T>) -> Result<T> {
        let stopped = || StepError::Interrupted { waiting_for: name.to_owned() };
        self.run.stop.run_until_cancelled(waited).await.ok_or_else(stopped)
    }
}

/// Passes on how a wait goes.
struct Voice<'w, 'a>(&'w Work<'a>);

impl Progress for Voice<'_, '_> {
    fn report(&self, waiting: &Waiting<'_>) {
        let Waiting { name, elapsed, limit, detail } = *waiting;
        self.0.event(Event::Waiting { step: self.0.planned, name, detail, elapsed, limit });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> VmId {
        VmId::try_from(number).unwrap()
    }

    #[test]
    fn the_next_id_is_above_the_highest_and_wraps_once() {
        let range = VmIdRange { start: id(200), end: id(203) };
        let reserved = Reserved::default();
        let used = BTreeSet::from([id(150), id(201), id(500)]);
        assert_eq!(reserved.next(range, &used), Some(id(202)));
        assert_eq!(reserved.next(range, &used), Some(id(203)));
        assert_eq!(reserved.next(range, &used), Some(id(200)), "from the start again");
        assert_eq!(reserved.next(range, &used), None);
    }
}
