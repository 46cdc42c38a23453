//! Counting again: one node, one VM; one image on one storage of a host, one template.
//!
//! Two runs that saw different worlds may make the same on different ids, and each is told that it succeeded. So after a
//! VM is made everybody looks who else serves the same. One that is used already stays, else the one with the lower id;
//! whoever made the other takes it away again, which it can while that VM has never run or become a template.

use std::time::Duration;

use talmox_pve::client::{Error, ErrorKind, Look, VmResource, WaitError};
use talmox_types::sabotage::{Defect, sabotaged};

use super::making::{COPY_LIMIT, Order, Verdict};
use super::remove::destroy;
use crate::StepError;
use crate::find::{Found, find, vms};
use crate::locks::{Settled, is_of_making};
use crate::work::{End, Made, Result, Work};

/// How long another run gets to take its own VM away.
const OTHERS_LIMIT: Duration = Duration::from_mins(1);

/// VMs beside the order's own that serve the same, lowest id first. Who is still being made is waited for.
pub(super) async fn bearers<O: Order>(
    work: &Work<'_>,
    order: &O,
    listed: &[VmResource],
    sure: Made,
) -> Result<Vec<Found>> {
    let (range, _) = order.range(work.run.desired);
    let may_be = |vm: &&VmResource| {
        let being_made = vm.name.is_none() || matches!(vm.lock.as_deref(), Some("clone" | "create"));
        vm.vmid != order.vmid()
            && order.only_on().is_none_or(|host| vm.node == *host)
            && !work.run.request.hosts.gone.contains(&vm.node)
            && !work.reserved.is_made_for_another(vm.vmid, &order.whose(), sure)
            && (vm.name.as_deref() == Some(order.name()) || (being_made && range.contains(vm.vmid)))
    };
    let mut bearers = Vec::new();
    for vm in listed.iter().filter(may_be) {
        let found = match look_at(work, vm).await {
            Ok(found) => found,
            // On a host that is down; it has no name, so little speaks for it.
            Err(error) if vm.name.is_none() && is_of_host(&error) => {
                work.warn(&format!("VM {} on {} cannot be read: nobody knows whose it is", vm.vmid, vm.node));
                continue;
            }
            Err(error) => return Err(error),
        };
        bearers.extend(found.filter(|found| order.judge(found) == Verdict::Same));
    }
    bearers.sort_by_key(|found| found.vmid);
    Ok(bearers)
}

/// A VM once it can be read; none if it is gone, or was cut off and never gets a mark.
async fn look_at(work: &Work<'_>, vm: &VmResource) -> Result<Option<Found>> {
    let doing = format!("look whose VM {} is", vm.vmid);
    let seen = find(work.client(), &vm.node, vm.vmid).await.map_err(StepError::call(doing))?;
    let Some(found) = seen else { return Ok(None) };
    if !found.config.lock().is_some_and(is_of_making) {
        return Ok(Some(found));
    }
    match work.settle(found, COPY_LIMIT).await {
        Ok(Settled::Free(found)) => Ok(Some(found)),
        Ok(Settled::Gone) | Err(StepError::Stuck { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_of_host(error: &StepError) -> bool {
    matches!(error.kind(), Some(ErrorKind::NodeDown | ErrorKind::Timeout))
}

/// Looks whether a VM that was just made is the only one of its kind, and sees to it that it is.
pub(super) async fn count<O: Order>(work: &Work<'_>, order: &O, own: &Found, end: End) -> Result {
    let doing = format!("count the VMs of {}", order.whose());
    let listed = vms(work.client()).await.map_err(StepError::call(doing))?;
    let others = bearers(work, order, &listed, Made::Seen).await?;
    let Some(lowest) = others.first().filter(|_| !sabotaged(Defect::DoublesNotCounted)) else {
        return Ok(end);
    };
    if lowest.vmid < own.vmid {
        take_away(work, order, own, lowest).await?;
        return Ok(End::Instead { vmid: lowest.vmid, wrote: true });
    }
    for other in &others {
        if !is_left_alone(work, order, own, other).await? {
            take_away(work, order, own, other).await?;
            return Ok(End::Instead { vmid: other.vmid, wrote: true });
        }
    }
    Ok(end)
}

/// Removes a VM that this run made and that nobody uses; the mark is read again before.
async fn take_away<O: Order>(work: &Work<'_>, order: &O, superfluous: &Found, stays: &Found) -> Result<()> {
    let client = work.client();
    let too_late = || double(order, stays, superfluous);
    if order.maker(superfluous).as_deref() != Some(work.run.nonce.as_str()) {
        return Err(too_late());
    }
    let Some(found) = order.again(work, superfluous).await? else { return Ok(()) };
    let doing = format!("look whether {} is used", found.name());
    if order.is_used(client, &found).await.map_err(StepError::call(doing))? {
        return Err(too_late());
    }
    work.warn(&format!("{} was made twice: {} stays, {} goes", order.whose(), stays.vmid, found.vmid));
    work.reserved.forget(found.vmid);
    destroy(work, &found, false).await
}

/// Sees to it that a VM with a higher id goes: takes it away, or waits for whoever made it. False if that one is used
/// by now, and ours has to go instead.
async fn is_left_alone<O: Order>(work: &Work<'_>, order: &O, own: &Found, other: &Found) -> Result<bool> {
    if order.maker(other).as_deref() == Some(work.run.nonce.as_str()) {
        return take_away(work, order, other, own).await.map(|()| true);
    }
    let client = work.client();
    let name = format!("{} to be taken away by who made it", other.name());
    let look = async || -> std::result::Result<Look<bool>, Error> {
        // Its id may be somebody else's by now.
        let same =
            |found: &Found| order.judge(found) == Verdict::Same && order.maker(found) == order.maker(other);
        let Some(found) = find(client, &other.host, other.vmid).await?.filter(same) else {
            return Ok(Look::Done(true));
        };
        match order.is_used(client, &found).await {
            Ok(true) => Ok(Look::Done(false)),
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Look::NotYet("still there".to_owned())),
        }
    };
    match work.unless_stopped(&name, work.until(&name, OTHERS_LIMIT, look)).await? {
        Err(StepError::Wait { source: WaitError::Deadline { .. }, .. }) => Err(double(order, own, other)),
        seen => seen,
    }
}

fn double<O: Order>(order: &O, stays: &Found, superfluous: &Found) -> StepError {
    StepError::Double {
        whose: order.whose(),
        vmid: stays.vmid,
        host: stays.host.clone(),
        other: superfluous.vmid,
        other_host: superfluous.host.clone(),
    }
}
