//! Making a VM on an id that others may take meanwhile.
//!
//! ```text
//!  anybody there who is this one? ──yes──▶ take that one, plan anew
//!        │ no
//!  id taken? ──yes──▶ wait for its lock ─▶ whose mark? ours: done · foreign: next id, unless it is declared
//!        │ no                                  ▲
//!  make it (name, mark and pool in one call) ─┬─ exists, or the answer was lost
//!        │                                    └─ failed: say so
//!  count again: two of them? the lower id stays
//! ```
//!
//! Proxmox shows neither name nor description before the VM is made, only a lock. So that an id exists proves nothing: the
//! lock is waited for, and the mark decides.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use talmox_pve::client::{self, Client, Error, ErrorKind, Look, Outcome, TaskError, Upid, VmResource};
use talmox_types::desired::{Desired, VmIdRange};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, VmId};

use super::doubles;
use crate::find::{Found, find, vms};
use crate::locks::{Settled, is_of_making};
use crate::work::{End, Made, Result, Work};
use crate::{Event, StepError};

/// How long a copy may take: a large disk on a slow storage takes an hour.
pub(super) const COPY_LIMIT: Duration = Duration::from_hours(3);
/// How long a VM whose answer was lost may take to show up: its worker claims the id within moments.
const APPEAR_LIMIT: Duration = Duration::from_secs(10);
/// Ids that are tried.
const TRIES: usize = 16;

/// A VM to be made: what it is known by, and the call that makes it.
pub(super) trait Order: Send + Sync + Sized {
    /// The id it gets.
    fn vmid(&self) -> VmId;

    /// The same on another id.
    fn on(&self, vmid: VmId) -> Self;

    /// Who it is for, in a few words. No two orders of one plan are for the same.
    fn whose(&self) -> String;

    /// What it will be called.
    fn name(&self) -> &str;

    /// Where another one of the same may be; none for everywhere.
    fn only_on(&self) -> Option<&HostName>;

    /// Ids it may have, and what gives more of them.
    fn range(&self, desired: &Desired) -> (VmIdRange, &'static str);

    /// Whether the description gives it its id.
    fn is_id_declared(&self, desired: &Desired) -> bool;

    /// What is being done, after `could not`.
    fn doing(&self) -> String;

    /// Who is asked to make it.
    fn asked(&self) -> &HostName;

    /// The template that is copied, if one is.
    fn source(&self) -> Option<VmId>;

    /// Whether it is work for a host: a clone that stands on its template's disk is no more than a line in a
    /// configuration and an empty volume.
    fn is_work(&self) -> bool;

    fn send(&self, client: &Client) -> impl Future<Output = std::result::Result<Upid, Error>> + Send;

    /// What a VM is to this order.
    fn judge(&self, found: &Found) -> Verdict;

    /// Which run made a VM, as its mark says.
    fn maker(&self, found: &Found) -> Option<String>;

    /// Whether a VM is used already, so that it stays whatever its id.
    fn is_used(
        &self,
        client: &Client,
        found: &Found,
    ) -> impl Future<Output = std::result::Result<bool, Error>> + Send;

    /// Reads a VM once more, and only if it still carries the mark it was seen with.
    fn again(&self, work: &Work<'_>, found: &Found) -> impl Future<Output = Result<Option<Found>>> + Send;
}

/// What a VM is to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The very VM that was to be made.
    This,
    /// One that serves the same, made by another run.
    Same,
    Foreign,
}

/// What is on the id now.
enum Attempt {
    /// The VM this step was to make, and whether this try made it.
    Ours { found: Found, wrote: bool },
    /// A VM that serves the same, which another run made.
    Another(VmId),
    /// Somebody else's.
    Foreign(Found),
    /// It was there and is gone again.
    Nothing,
}

pub(super) async fn run<O: Order>(work: &Work<'_>, mut order: O) -> Result {
    let planned = order.vmid();
    for _ in 0..TRIES {
        let vmid = order.vmid();
        match attempt(work, &order).await? {
            Attempt::Ours { found, wrote } => {
                work.reserved.note_made(vmid, order.whose(), Made::Seen);
                let end = if vmid == planned { plain(wrote) } else { End::Instead { vmid, wrote } };
                let end = doubles::count(work, &order, &found, end).await?;
                if end.instead().is_none() {
                    work.reserved.hand_over(found);
                }
                return Ok(end);
            }
            Attempt::Another(vmid) => return Ok(End::Instead { vmid, wrote: false }),
            Attempt::Foreign(found) => {
                work.reserved.forget(vmid);
                order = order.on(next_id(work, &order, &found).await?);
                work.event(Event::OtherId { step: work.planned, vmid: order.vmid() });
            }
            Attempt::Nothing => work.reserved.forget(vmid),
        }
    }
    Err(StepError::Changed { what: format!("VM {}, which comes and goes,", order.vmid()) })
}

fn plain(wrote: bool) -> End {
    if wrote { End::Changed } else { End::Unchanged }
}

async fn attempt<O: Order>(work: &Work<'_>, order: &O) -> Result<Attempt> {
    let doing = || format!("look for VMs of {}", order.whose());
    let listed = vms(work.client()).await.map_err(StepError::call(doing()))?;
    if let Some(vm) = listed.iter().find(|vm| vm.vmid == order.vmid()) {
        return whose(work, &vm.node, order, false).await;
    }
    let others = doubles::bearers(work, order, &listed, Made::Accepted).await?;
    if let Some(other) = others.first() {
        return Ok(Attempt::Another(other.vmid));
    }
    send(work, order).await
}

async fn send<O: Order>(work: &Work<'_>, order: &O) -> Result<Attempt> {
    let doing = order.doing();
    let host = Some(order.asked()).filter(|_| order.is_work());
    let turn = work.turn_to_begin(order.source(), host).await?;
    let upid = match order.send(work.client()).await {
        Ok(upid) => upid,
        Err(error) => {
            drop(turn);
            return after_refusal(work, order, StepError::call(doing)(error)).await;
        }
    };
    work.reserved.note_made(order.vmid(), order.whose(), Made::Accepted);
    let end = work.follow(&upid, &doing, COPY_LIMIT).await;
    drop(turn);
    match end {
        Ok(()) => whose(work, order.asked(), order, true).await,
        Err(error) => after_failure(work, order, doing, error).await,
    }
}

/// The call was not answered with a task.
async fn after_refusal<O: Order>(work: &Work<'_>, order: &O, error: StepError) -> Result<Attempt> {
    if error.kind() == Some(&ErrorKind::Exists) {
        return whose(work, order.asked(), order, false).await;
    }
    if matches!(&error, StepError::Call { source, .. } if source.outcome() == Outcome::MayHaveHappened)
        && let Some(host) = appears(work, order.vmid()).await?
    {
        return whose(work, &host, order, true).await;
    }
    Err(error)
}

/// The task failed. Normally it took everything back; a worker that was killed could not.
async fn after_failure<O: Order>(
    work: &Work<'_>,
    order: &O,
    doing: String,
    error: TaskError,
) -> Result<Attempt> {
    if error.kind() == Some(&ErrorKind::Exists) {
        work.reserved.forget(order.vmid());
        return whose(work, order.asked(), order, false).await;
    }
    let left = find(work.client(), order.asked(), order.vmid()).await;
    if let Some(found) = left.map_err(StepError::call(doing.clone()))?
        && found.config.lock().is_some_and(is_of_making)
    {
        // This says how to take the lock away if nobody works on it, or waits for whoever does.
        work.settle(found, COPY_LIMIT).await?;
    }
    work.reserved.forget(order.vmid());
    Err(StepError::task(doing)(error))
}

/// Waits a little for a VM nobody has confirmed.
async fn appears(work: &Work<'_>, vmid: VmId) -> Result<Option<HostName>> {
    let client = work.client();
    let look = async || -> std::result::Result<Look<HostName>, Error> {
        let listed = vms(client).await?.into_iter().find(|vm| vm.vmid == vmid);
        Ok(listed.map_or_else(|| Look::NotYet("not there".to_owned()), |vm| Look::Done(vm.node)))
    };
    match work.until(&format!("VM {vmid}, in case it is being made"), APPEAR_LIMIT, look).await {
        Ok(host) => Ok(Some(host)),
        Err(StepError::Wait { source: client::WaitError::Deadline { .. }, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Waits until the id can be looked at, and tells whose it is.
async fn whose<O: Order>(work: &Work<'_>, host: &HostName, order: &O, wrote: bool) -> Result<Attempt> {
    let doing = format!("look whose VM {} is", order.vmid());
    let found = find(work.client(), host, order.vmid()).await.map_err(StepError::call(doing))?;
    let Some(found) = found else { return Ok(Attempt::Nothing) };
    let found = match found.config.lock() {
        Some(lock) if is_of_making(lock) && !sabotaged(Defect::LockNotWaitedFor) => {
            match work.settle(found, COPY_LIMIT).await? {
                Settled::Free(found) => found,
                Settled::Gone => return Ok(Attempt::Nothing),
            }
        }
        _ => found,
    };
    Ok(match order.judge(&found) {
        Verdict::This => Attempt::Ours { found, wrote },
        Verdict::Same => Attempt::Another(found.vmid),
        Verdict::Foreign => Attempt::Foreign(found),
    })
}

/// Another id where the first was taken by somebody else.
async fn next_id<O: Order>(work: &Work<'_>, order: &O, holder: &Found) -> Result<VmId> {
    let desired = work.run.desired;
    if order.is_id_declared(desired) {
        let what = holder.config.name().unwrap_or("a VM without a name");
        let found = format!("{what} has the id the description gives to {}", order.whose());
        return Err(StepError::NotOurs { vmid: holder.vmid, host: holder.host.clone(), found });
    }
    let doing = format!("look for a free VMID for {}", order.whose());
    let listed: Vec<VmResource> = vms(work.client()).await.map_err(StepError::call(doing))?;
    let used: BTreeSet<VmId> = listed.into_iter().map(|vm| vm.vmid).collect();
    let (range, remedy) = order.range(desired);
    let none = || StepError::NoId { whose: order.whose(), from: range.start, to: range.end, remedy };
    work.reserved.next(range, &used).ok_or_else(none)
}
