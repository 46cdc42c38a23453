//! Making a VM from a template.
//!
//! ```text
//!  anybody there who is this node? ──yes──▶ take that one, plan anew
//!        │ no
//!  id taken? ──yes──▶ wait for its lock ─▶ whose mark? ours: done · foreign: next id, unless it is declared
//!        │ no                                  ▲
//!  clone (name, mark and pool in one call) ─┬─ exists, or the answer was lost
//!        │                                  └─ failed: say so
//!  count again: two of them? the lower id stays
//! ```
//!
//! Proxmox shows neither name nor description before the clone is done, only a lock. So that an id exists proves nothing:
//! the lock is waited for, and the mark decides.

use std::collections::BTreeSet;
use std::time::Duration;

use talmox_plan::{CloneKind, TemplateSource};
use talmox_pve::client::{self, CloneVm, Error, ErrorKind, Look, Outcome, TaskError, VmResource};
use talmox_types::{HostName, Mark, PoolName, VmId};

use super::doubles;
use crate::find::{Found, find, vms};
use crate::locks::{Settled, is_of_making};
use crate::work::{End, Result, Work};
use crate::{Event, StepError};

/// How long a copy may take: a large disk on a slow storage takes an hour.
pub(super) const COPY_LIMIT: Duration = Duration::from_hours(3);
/// How long a clone whose answer was lost may take to show up: its worker claims the id within moments.
const APPEAR_LIMIT: Duration = Duration::from_secs(10);
/// Ids that are tried.
const TRIES: usize = 16;

/// What is to be made.
pub(super) struct Order<'a> {
    pub(super) host: &'a HostName,
    pub(super) mark: &'a Mark,
    pub(super) template: &'a TemplateSource,
    pub(super) clone: &'a CloneKind,
    pub(super) pool: Option<&'a PoolName>,
}

/// What is on the id now.
enum Made {
    /// The VM this step was to make, and whether this try made it.
    Ours { found: Found, wrote: bool },
    /// A VM of this node that another run made.
    Another(VmId),
    /// Somebody else's.
    Foreign(Found),
    /// It was there and is gone again.
    Nothing,
}

pub(super) async fn run(work: &Work<'_>, order: &Order<'_>) -> Result {
    let mut mark = order.mark.clone();
    for _ in 0..TRIES {
        match attempt(work, order, &mark).await? {
            Made::Ours { found, wrote } => {
                work.reserved.note_made(mark.vmid, &mark.node, crate::work::Made::Seen);
                let end = if mark.vmid == order.mark.vmid { plain(wrote) } else { instead(mark.vmid, wrote) };
                return doubles::count(work, &mark, &found, end).await;
            }
            Made::Another(vmid) => return Ok(instead(vmid, false)),
            Made::Foreign(found) => {
                work.reserved.forget(mark.vmid);
                mark.vmid = next_id(work, &mark, &found).await?;
                work.event(Event::OtherId { step: work.planned, vmid: mark.vmid });
            }
            Made::Nothing => work.reserved.forget(mark.vmid),
        }
    }
    Err(StepError::Changed { what: format!("VM {}, which comes and goes,", mark.vmid) })
}

fn plain(wrote: bool) -> End {
    if wrote { End::Changed } else { End::Unchanged }
}

fn instead(vmid: VmId, wrote: bool) -> End {
    End::Instead { vmid, wrote }
}

async fn attempt(work: &Work<'_>, order: &Order<'_>, mark: &Mark) -> Result<Made> {
    let doing = || format!("look for VMs of {}", mark.node);
    let listed = vms(work.client()).await.map_err(StepError::call(doing()))?;
    if let Some(vm) = listed.iter().find(|vm| vm.vmid == mark.vmid) {
        return whose(work, &vm.node, mark, false).await;
    }
    let others = doubles::bearers(work, mark, &listed, crate::work::Made::Accepted).await?;
    if let Some(other) = others.first() {
        return Ok(Made::Another(other.vmid));
    }
    send(work, order, mark).await
}

async fn send(work: &Work<'_>, order: &Order<'_>, mark: &Mark) -> Result<Made> {
    let Order { host, template, clone, pool, .. } = order;
    let doing = format!(
        "clone template {} ({}) to {} ({}) on {host}",
        template.name, template.vmid, mark.node, mark.vmid
    );
    let request = CloneVm {
        newid: mark.vmid,
        name: Some(mark.node.to_string()),
        description: Some(mark.to_string()),
        pool: pool.cloned(),
        target: Some((*host).clone()).filter(|host| *host != template.host),
        kind: match clone {
            CloneKind::Linked => client::CloneKind::Linked,
            CloneKind::Full { storage } => {
                client::CloneKind::Full { storage: Some(storage.clone()), format: None }
            }
        },
    };
    let upid = match work.client().clone_vm(&template.host, template.vmid, &request).await {
        Ok(upid) => upid,
        Err(error) => return after_refusal(work, order, mark, StepError::call(doing)(error)).await,
    };
    work.reserved.note_made(mark.vmid, &mark.node, crate::work::Made::Accepted);
    match work.follow(&upid, &doing, COPY_LIMIT).await {
        Ok(()) => whose(work, host, mark, true).await,
        Err(error) => after_failure(work, order, mark, doing, error).await,
    }
}

/// The call was not answered with a task.
async fn after_refusal(work: &Work<'_>, order: &Order<'_>, mark: &Mark, error: StepError) -> Result<Made> {
    if error.kind() == Some(&ErrorKind::Exists) {
        return whose(work, &order.template.host, mark, false).await;
    }
    if matches!(&error, StepError::Call { source, .. } if source.outcome() == Outcome::MayHaveHappened)
        && let Some(host) = appears(work, mark.vmid).await?
    {
        return whose(work, &host, mark, true).await;
    }
    Err(error)
}

/// The task failed. Normally it took everything back; a worker that was killed could not.
async fn after_failure(
    work: &Work<'_>,
    order: &Order<'_>,
    mark: &Mark,
    doing: String,
    error: TaskError,
) -> Result<Made> {
    if error.kind() == Some(&ErrorKind::Exists) {
        work.reserved.forget(mark.vmid);
        return whose(work, &order.template.host, mark, false).await;
    }
    let left = find(work.client(), &order.template.host, mark.vmid).await;
    if let Some(found) = left.map_err(StepError::call(doing.clone()))?
        && found.config.lock().is_some_and(is_of_making)
    {
        // This says how to take the lock away if nobody works on it, or waits for whoever does.
        work.settle(found, COPY_LIMIT).await?;
    }
    work.reserved.forget(mark.vmid);
    Err(StepError::task(doing)(error))
}

/// Waits a little for a clone nobody has confirmed.
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
async fn whose(work: &Work<'_>, host: &HostName, mark: &Mark, wrote: bool) -> Result<Made> {
    let doing = format!("look whose VM {} is", mark.vmid);
    let found = find(work.client(), host, mark.vmid).await.map_err(StepError::call(doing))?;
    let Some(found) = found else { return Ok(Made::Nothing) };
    let found = match found.config.lock() {
        Some(lock) if is_of_making(lock) => match work.settle(found, COPY_LIMIT).await? {
            Settled::Free(found) => found,
            Settled::Gone => return Ok(Made::Nothing),
        },
        _ => found,
    };
    Ok(match found.mark() {
        _ if found.config.is_template() => Made::Foreign(found),
        Some(seen) if seen == *mark => Made::Ours { found, wrote },
        Some(seen) if is_of_node(&seen, mark, found.vmid) => Made::Another(found.vmid),
        _ => Made::Foreign(found),
    })
}

/// Whether a mark found on a VM makes it the VM of the same node, whoever made it.
pub(super) fn is_of_node(seen: &Mark, mark: &Mark, on: VmId) -> bool {
    seen.uid == mark.uid && seen.node == mark.node && seen.vmid == on
}

/// Another id for a node whose own was taken by somebody else.
async fn next_id(work: &Work<'_>, mark: &Mark, holder: &Found) -> Result<VmId> {
    let declared = work.run.desired.nodes.iter().find(|node| node.name == mark.node);
    if declared.is_some_and(|node| node.vm.id.is_some()) {
        let what = holder.config.name().unwrap_or("a VM without a name");
        let found = format!("{what} has the id the description gives to {}", mark.node);
        return Err(StepError::NotOurs { vmid: holder.vmid, host: holder.host.clone(), found });
    }
    let doing = format!("look for a free VMID for {}", mark.node);
    let listed: Vec<VmResource> = vms(work.client()).await.map_err(StepError::call(doing))?;
    let used: BTreeSet<VmId> = listed.into_iter().map(|vm| vm.vmid).collect();
    let range = work.run.desired.proxmox.vmid_range;
    let none = || StepError::NoId { node: mark.node.clone(), from: range.start, to: range.end };
    work.reserved.next(range, &used).ok_or_else(none)
}
