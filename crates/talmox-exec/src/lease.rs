//! One writer: whoever takes nodes down, removes them or bootstraps says so where others look first.
//!
//! ```text
//!  Kubernetes answers ─▶ the lease kube-system/talmox
//!  not yet            ─▶ a word in the mark of the first control plane, guarded by the digest of its VM
//! ```
//!
//! A lease of a run that died ends by itself after two minutes. The next run waits for that, unless it can see that the run is gone:
//!
//! - its process ran under the same kernel, in the same PID namespace, and is not there any more ([`LeaseHolder`]);
//! - in Kubernetes, the API server wrote the lease so long ago, by its own clock, that it ran out a whole term before.
//!
//! Clocks of two people may be far apart, so the time a holder wrote into its lease proves nothing. Otherwise the lease is watched:
//! a run that lives renews it. It fences nothing, so every step survives a second actor all the same.
//!
//! Whoever ends a cluster, or makes room in an etcd that takes no writes any more, cannot depend on Kubernetes: where the lease
//! cannot be written there, the mark has it.

mod holder;

use std::time::Duration;

use futures_util::future::join_all;
use talmox_k8s::{Holding, Lock, Outcome, Time};
use talmox_plan::{Goal, Plan, Step, first_control_plane, identify};
use talmox_pve::client::{Client, ConfigChange, Waiting};
use talmox_types::desired::Desired;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, LeaseWord, Mark, VmId};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::find::{Found, find};
use crate::machine::kubernetes::control_planes;
use crate::run::takes_down;
use crate::{Reach, Reporter, Run, StepError, observe_for};

pub use holder::{FoundProcess, LeaseHolder, ProcessHome, ProcessId, Processes};

type Result<T> = std::result::Result<T, StepError>;

/// How long a lease lasts unless it is renewed.
const TERM: u64 = 120;
const RENEWED_EVERY: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_secs(5);
/// How long a lease is watched that has run out by our clock: longer than whoever is alive takes to renew it.
const WATCHED: Duration = Duration::from_secs(50);
/// One in a mark that was not renewed for so many seconds is of a run that died, however far two clocks are apart.
const FORGOTTEN: u64 = 3600;
/// One that the API server wrote so many seconds ago ran out a whole term before: clocks of its control planes differ by less.
const LONG_OVER: u64 = 2 * TERM;
/// How often a mark is written that others write too.
const TRIES: u32 = 5;
/// How long the lease of a cluster that was to go is given back for.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Whether a plan has something that nobody else may do at the same time.
pub(crate) fn is_needed(plan: &Plan) -> bool {
    let alone = |step: &Step| matches!(step, Step::Bootstrap { .. } | Step::Upkeep(_));
    !sabotaged(Defect::LeaseNotTaken) && plan.steps.iter().any(|step| alone(&step.step) || takes_down(step))
}

/// Whose a lease is that was ours.
pub(crate) enum Held {
    Ours,
    Theirs {
        holder: String,
        seconds: u64,
    },
    /// Nobody could be asked.
    Unknown {
        reason: String,
    },
}

/// What a lease is taken with, by whoever wants to be the only one at work.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    pub client: &'a Client,
    pub desired: &'a Desired,
    pub reporter: &'a dyn Reporter,
    pub stop: &'a CancellationToken,
}

impl<'a> From<&'a Run<'a>> for Writer<'a> {
    fn from(run: &'a Run<'a>) -> Self {
        Self { client: run.client, desired: run.desired, reporter: run.reporter, stop: run.stop }
    }
}

/// Whether it must be to be had where Kubernetes does not take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Ordinary,
    /// Then the mark has it.
    WithoutKubernetes,
    /// The cluster goes, and what keeps the lease with it: where it can be kept nowhere, nothing waits for it.
    ToTheEnd,
}

impl Need {
    pub(crate) fn of(run: &Run<'_>) -> Self {
        if run.destroys_all() { Self::ToTheEnd } else { Self::Ordinary }
    }
}

/// A lease that is held.
pub(crate) struct Lease<'a> {
    writer: Writer<'a>,
    reach: &'a Reach<'a>,
    need: Need,
    place: Place,
}

enum Place {
    Mark {
        host: HostName,
        vmid: VmId,
    },
    /// By way of each control plane: any of them may be away for a while. The one that answered comes first.
    Kubernetes(Vec<Lock>),
}

/// Takes the lease, or waits until whoever has it is done or gone. None where there is nothing yet to keep it in.
pub(crate) async fn take<'a>(
    writer: Writer<'a>,
    reach: &'a Reach<'a>,
    need: Need,
) -> Result<Option<Lease<'a>>> {
    let mut places = places(&writer, reach, need).await?.into_iter().peekable();
    while let Some(place) = places.next() {
        let taken = take_at(Lease { writer, reach, need, place }).await;
        match taken {
            // What stood in the way is the place it is kept in, not somebody.
            Err(
                error @ (StepError::HandOver { .. } | StepError::Call { .. } | StepError::Changed { .. }),
            ) if need != Need::Ordinary && (places.peek().is_some() || need == Need::ToTheEnd) => {
                tracing::warn!("the lease could not be taken: {error}");
            }
            taken => return taken.map(Some),
        }
    }
    Ok(None)
}

async fn take_at(lease: Lease<'_>) -> Result<Lease<'_>> {
    let (reach, writer) = (lease.reach, lease.writer);
    let begun = Instant::now();
    let mut first: Option<Seen> = None;
    loop {
        let other = if reach.take_over { None } else { lease.other().await? };
        let Some(other) = other else {
            let take = if reach.take_over { Take::Whoevers } else { Take::Free };
            match lease.try_once(take).await? {
                None => return Ok(lease),
                // Another run was faster.
                Some(other) => first = Some(Seen { other, since: Instant::now() }),
            }
            continue;
        };
        let seen = match first.take().filter(|seen| seen.other.holder == other.holder) {
            Some(seen) => seen,
            None => Seen { other: other.clone(), since: Instant::now() },
        };
        let now = reach.clock.now();
        if seen.other.renewed != other.renewed || begun.elapsed() > LONGEST_WATCH * 2 {
            return Err(other.is_at_work(now));
        }
        let is_gone = LeaseHolder::read(&other.holder).is_gone(reach.processes);
        let left = if is_gone { Duration::ZERO } else { other.left(seen.since.elapsed(), now) };
        if left.is_zero() {
            return match lease.try_once(Take::From(&seen.other)).await? {
                None => Ok(lease),
                Some(other) => Err(other.is_at_work(now)),
            };
        }
        let name = format!("{} to finish, or its lease to end", other.name());
        let (elapsed, detail) = (begun.elapsed(), other.last_sign(now));
        let waiting = Waiting { name: &name, elapsed, limit: elapsed + left, detail: &detail };
        writer.reporter.waiting(&waiting);
        first = Some(seen);
        let pause = writer.stop.run_until_cancelled(tokio::time::sleep(PAUSE.min(left))).await;
        pause.ok_or(StepError::Interrupted { waiting_for: name })?;
    }
}

/// How long a lease is watched at most, whatever its holder wrote into it.
const LONGEST_WATCH: Duration = Duration::from_secs(TERM + PAUSE.as_secs());

/// Another run's lease.
#[derive(Clone, Debug)]
struct Other {
    holder: String,
    /// When it was renewed, in seconds since 1970 by the holder's clock.
    renewed: u64,
    /// How many seconds ago that was by the clock of the server that keeps it. A mark has no such clock.
    age: Option<u64>,
}

impl Other {
    fn of(theirs: Holding) -> Self {
        let renewed = u64::try_from(theirs.renewed.unix()).unwrap_or_default();
        Self { holder: theirs.holder, renewed, age: theirs.age.map(|age| age.as_secs()) }
    }

    /// The name people are told.
    fn name(&self) -> String {
        LeaseHolder::read(&self.holder).name().to_owned()
    }

    /// How many seconds ago it was written, as well as that is known.
    fn seconds(&self, now: u64) -> u64 {
        self.age.unwrap_or(now.saturating_sub(self.renewed))
    }

    /// How much longer it has to be watched, if it is not renewed.
    fn left(&self, watched: Duration, now: u64) -> Duration {
        let watch = LONGEST_WATCH.saturating_sub(watched);
        let over_in = |term: u64| Duration::from_secs(term.saturating_sub(self.seconds(now)));
        let ran_out = over_in(TERM).max(WATCHED.saturating_sub(watched));
        let forgotten = match self.age {
            Some(_) => over_in(LONG_OVER),
            None => over_in(FORGOTTEN + 1),
        };
        // A time to come was written by a clock that is ahead, and says nothing.
        let is_ahead = self.age.is_none() && self.renewed > now;
        if is_ahead { watch } else { watch.min(ran_out).min(forgotten) }
    }

    fn last_sign(&self, now: u64) -> String {
        if self.age.is_none() && self.renewed > now {
            return "its clock is ahead of this one".to_owned();
        }
        match self.seconds(now) {
            seconds @ 0..120 => format!("it last wrote {seconds} s ago"),
            seconds => format!("it last wrote {} min ago", seconds / 60),
        }
    }

    fn is_at_work(&self, now: u64) -> StepError {
        StepError::Leased { holder: self.name(), seconds: self.seconds(now) }
    }
}

/// Another run's lease as it was first seen.
struct Seen {
    other: Other,
    since: Instant,
}

/// Which lease is taken.
#[derive(Clone, Copy)]
enum Take<'a> {
    /// One that is nobody's, or ours.
    Free,
    /// That of one that was seen not to renew it.
    From(&'a Other),
    Whoevers,
}

/// Where the lease is kept: the first, unless that cannot be written.
async fn places(writer: &Writer<'_>, reach: &Reach<'_>, need: Need) -> Result<Vec<Place>> {
    let Writer { client, desired, .. } = writer;
    let goal = if need == Need::ToTheEnd { Goal::Destroy } else { Goal::Converge };
    let observed = observe_for(client, desired, goal)
        .await
        .map_err(|error| StepError::Call { doing: error.doing, source: error.source })?;
    let servers = reach.kubernetes_at(control_planes(desired, &observed).into_iter());
    let mut locks: Vec<Lock> =
        servers.into_iter().map(|client| Lock::new(client, reach.holder.to_string())).collect();
    let mut places = Vec::new();
    if let Some(index) = who_answers(&locks, now(reach)).await {
        locks.swap(0, index);
        places.push(Place::Kubernetes(locks));
    }
    let first = first_control_plane(desired);
    let identities = identify(desired, &observed);
    let owned = first.and_then(|first| identities.of_node(first).next());
    places.extend(owned.map(|owned| Place::Mark { host: owned.host.clone(), vmid: owned.mark.vmid }));
    Ok(places)
}

/// The first server that answers. If that is not the first of all, the others are asked at once: of a cluster that is dead none
/// answers, and nobody waits for them one after the other.
async fn who_answers(locks: &[Lock], now: Time) -> Option<usize> {
    let (first, others) = locks.split_first()?;
    if first.look(now).await.is_ok() {
        return Some(0);
    }
    let heard = join_all(others.iter().map(|lock| lock.look(now))).await;
    heard.iter().position(std::result::Result::is_ok).map(|index| index + 1)
}

fn now(reach: &Reach<'_>) -> Time {
    unix(reach.clock.now())
}

fn unix(seconds: u64) -> Time {
    Time::from_unix(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn not_taken(reason: String) -> StepError {
    StepError::HandOver { doing: "take the lease".to_owned(), reason }
}

impl Lease<'_> {
    /// Whether it is one that others read from a VM's mark: taking it changed that VM's digest.
    pub(crate) fn is_in_a_mark(&self) -> bool {
        matches!(self.place, Place::Mark { .. })
    }

    /// Who else stands in it.
    async fn other(&self) -> Result<Option<Other>> {
        let ours = self.reach.holder.to_string();
        let locks = match &self.place {
            Place::Kubernetes(locks) => locks,
            Place::Mark { .. } => {
                let ours = LeaseWord::holder(&ours);
                let word = self.marked().await?.and_then(|(_, mark)| mark.lease);
                return Ok(word.filter(|word| word.holder != ours).map(in_a_mark));
            }
        };
        let mut last = String::new();
        for lock in locks {
            // Whatever time it is: none that was ever renewed had run out then.
            match lock.look(Time::from_unix(0)).await {
                Ok(held) => return Ok(held.filter(|held| held.holder != ours).map(Other::of)),
                Err(error) => last = error.to_string(),
            }
        }
        Err(not_taken(last))
    }

    /// Takes it; gives who has it otherwise.
    async fn try_once(&self, take: Take<'_>) -> Result<Option<Other>> {
        let locks = match &self.place {
            Place::Kubernetes(locks) => locks,
            Place::Mark { .. } => return self.take_mark(take).await,
        };
        let mut last = String::new();
        for lock in locks {
            let taken = match take {
                Take::Free => lock.renew(now(self.reach)).await,
                Take::Whoevers => lock.acquire(now(self.reach), true).await,
                Take::From(seen) => lock.take_from(now(self.reach), &seen.holder, unix(seen.renewed)).await,
            };
            match taken {
                Ok(Outcome::Ours(_)) => return Ok(None),
                Ok(Outcome::Theirs(theirs)) => return Ok(Some(Other::of(theirs))),
                Err(error) => last = error.to_string(),
            }
        }
        Err(not_taken(last))
    }

    async fn take_mark(&self, take: Take<'_>) -> Result<Option<Other>> {
        let ours = self.marked_holder();
        for _ in 0..TRIES {
            let Some((found, mark)) = self.marked().await? else { return Ok(None) };
            let now = self.reach.clock.now();
            if let Some(word) = mark.lease.as_ref().filter(|word| word.holder != ours) {
                let may = match take {
                    Take::Free => false,
                    Take::Whoevers => true,
                    Take::From(seen) => seen.holder == word.holder && seen.renewed == word.renewed,
                };
                if !may {
                    return Ok(Some(in_a_mark(word.clone())));
                }
            }
            let word = LeaseWord { holder: ours.clone(), renewed: now };
            if self.written(&found, &Mark { lease: Some(word), ..mark }).await? {
                return Ok(None);
            }
        }
        Err(StepError::Changed { what: "the mark of the first control plane".to_owned() })
    }

    /// This run, as it stands in a mark.
    fn marked_holder(&self) -> String {
        LeaseWord::holder(&self.reach.holder.to_string())
    }

    /// The VM that keeps it, with its mark; none if it is gone.
    async fn marked(&self) -> Result<Option<(Found, Mark)>> {
        let Place::Mark { host, vmid } = &self.place else { return Ok(None) };
        let found = find(self.writer.client, host, *vmid).await;
        let found = found.map_err(StepError::call(format!("read VM {vmid}")))?;
        let marked = |found: Found| {
            let mark = found.mark().filter(|mark| Some(&mark.uid) == self.writer.desired.uid.as_ref())?;
            Some((found, mark))
        };
        Ok(found.and_then(marked))
    }

    /// Writes a mark; false if somebody else wrote meanwhile.
    async fn written(&self, found: &Found, mark: &Mark) -> Result<bool> {
        match write_mark_by(self.writer.client, found, mark).await {
            Ok(()) => Ok(true),
            Err(error) if error.wants_another_plan() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether it is still ours, by a fresh answer. A lease that ran out while nobody could renew it may be another's by
    /// now, who takes nodes down as well.
    pub(crate) async fn confirm(&self) -> Held {
        match &self.place {
            Place::Kubernetes(locks) => self.renew(locks).await,
            // To write into it would make what was planned for that VM out of date.
            Place::Mark { .. } => match self.marked().await {
                Err(error) => Held::Unknown { reason: error.to_string() },
                Ok(None) => Held::Ours,
                Ok(Some((_, mark))) => {
                    let ours = self.marked_holder();
                    let theirs = mark.lease.filter(|word| word.holder != ours);
                    theirs.map_or(Held::Ours, |word| self.theirs(&in_a_mark(word)))
                }
            },
        }
    }

    async fn renew(&self, locks: &[Lock]) -> Held {
        let mut last = "there is no server to ask".to_owned();
        for lock in locks {
            match lock.renew(now(self.reach)).await {
                Ok(Outcome::Ours(_)) => return Held::Ours,
                Ok(Outcome::Theirs(theirs)) => return self.theirs(&Other::of(theirs)),
                Err(error) => last = error.to_string(),
            }
        }
        Held::Unknown { reason: last }
    }

    fn theirs(&self, other: &Other) -> Held {
        Held::Theirs { holder: other.name(), seconds: other.seconds(self.reach.clock.now()) }
    }

    async fn release_locks(&self, locks: &[Lock]) -> bool {
        for lock in locks {
            if lock.release(now(self.reach)).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// Renews it for as long as it is held.
    pub(crate) async fn keep(&self) -> std::convert::Infallible {
        let mut pause = RENEWED_EVERY;
        loop {
            tokio::time::sleep(pause).await;
            let renewed = match &self.place {
                Place::Kubernetes(locks) => self.renew(locks).await,
                Place::Mark { .. } => match self.take_mark(Take::Free).await {
                    Ok(None) => Held::Ours,
                    Ok(Some(other)) => self.theirs(&other),
                    Err(error) => Held::Unknown { reason: error.to_string() },
                },
            };
            // While its API servers are away it cannot be renewed. Once they are back it may look forgotten to another run, so this
            // one must not come late.
            pause = if matches!(renewed, Held::Unknown { .. }) { PAUSE } else { RENEWED_EVERY };
            // What goes with its cluster is not missed.
            if !matches!(renewed, Held::Ours) && self.need != Need::ToTheEnd {
                tracing::warn!("the lease could not be renewed");
            }
        }
    }

    /// Gives it back. If that fails it ends by itself.
    pub(crate) async fn release(self) {
        let released = match &self.place {
            Place::Kubernetes(locks) if self.need == Need::ToTheEnd => {
                // Most of it may be gone by now.
                let released = tokio::time::timeout(LAST_CALL, self.release_locks(locks)).await;
                released.unwrap_or_default()
            }
            Place::Kubernetes(locks) => self.release_locks(locks).await,
            Place::Mark { .. } => self.release_mark().await.is_ok(),
        };
        if !released {
            tracing::warn!("the lease could not be given back: it ends by itself");
        }
    }

    async fn release_mark(&self) -> Result<()> {
        let ours = self.marked_holder();
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

/// Another run's lease, as a mark has it.
fn in_a_mark(word: LeaseWord) -> Other {
    let LeaseWord { holder, renewed } = word;
    Other { holder, renewed, age: None }
}

/// Writes a mark in place of the one that was read, if nobody has changed the VM since.
pub(crate) async fn write_mark(run: &Run<'_>, found: &Found, mark: &Mark) -> Result<()> {
    write_mark_by(run.client, found, mark).await
}

async fn write_mark_by(client: &Client, found: &Found, mark: &Mark) -> Result<()> {
    let doing = format!("write into the notes of {}", found.name());
    let description = mark.in_description(found.config.description().unwrap_or_default());
    let change = ConfigChange::new().set("description", &description);
    let change = change.map_err(StepError::impossible(doing.clone()))?;
    let change = found.config.digest().map_or(change.clone(), |digest| change.if_digest(digest));
    let sent = client.change_config(&found.host, found.vmid, &change).await;
    sent.map_err(StepError::call(doing))
}
