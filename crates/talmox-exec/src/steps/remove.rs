//! Removing a VM. The mark and the volumes are read once more directly before.

use std::collections::BTreeSet;

use talmox_plan::Expected;
use talmox_pve::client::{Client, ConfigChange, ErrorKind};
use talmox_pve::property::{Disk, Slot, VolumeId};
use talmox_types::VmId;
use talmox_types::sabotage::{Defect, sabotaged};

use super::{CHANGE_LIMIT, follow};
use crate::StepError;
use crate::find::{Found, find, vms};
use crate::work::{End, Result, Work};

pub(super) async fn run(work: &Work<'_>, vm: &Expected, detach: &BTreeSet<Slot>) -> Result {
    let Some(found) = work.find(vm).await? else { return Ok(End::Unchanged) };
    must_be_stopped(work, &found).await?;
    let found = if let_go(work, &found, detach).await? { work.expect(vm).await? } else { found };
    check_volumes(work, &found)?;
    destroy(work, &found, true).await?;
    Ok(End::Changed)
}

pub(super) async fn must_be_stopped(work: &Work<'_>, found: &Found) -> Result<()> {
    let doing = format!("look whether {} runs", found.name());
    let runs = found.is_running(work.client()).await.map_err(StepError::call(doing))?;
    if runs {
        Err(StepError::Changed { what: format!("{}: it runs, and so it", found.name()) })
    } else {
        Ok(())
    }
}

/// Detaches volumes that are not the VM's own; false if none hangs there.
async fn let_go(work: &Work<'_>, found: &Found, slots: &BTreeSet<Slot>) -> Result<bool> {
    let held: Vec<String> =
        slots.iter().map(ToString::to_string).filter(|slot| found.config.get(slot).is_some()).collect();
    if held.is_empty() {
        return Ok(false);
    }
    let doing = format!("detach {} from {}", held.join(", "), found.name());
    let mut change = ConfigChange::new();
    for slot in &held {
        change = change.delete(slot);
    }
    if let Some(digest) = found.config.digest() {
        change = change.if_digest(digest);
    }
    let _turn = work.turn_for_little().await;
    let task = work.client().change_config_in_task(&found.host, found.vmid, &change).await;
    follow(work, task.map_err(StepError::call(doing.clone()))?, &doing, CHANGE_LIMIT).await?;
    Ok(true)
}

/// With a VM go the volumes that are its own. Each must be one the plan named: somebody may have given it more since.
pub(super) fn check_volumes(work: &Work<'_>, found: &Found) -> Result<()> {
    let named: BTreeSet<&VolumeId> = work.planned.destroys.iter().map(|volume| &volume.volume).collect();
    let slots = found.config.slots().filter(|(slot, _)| slot.holds_volume());
    let volumes =
        slots.filter_map(|(slot, text)| Some((slot, Disk::parse(text).ok()?.source.volume()?.clone())));
    let lost: Vec<String> = volumes
        .filter(|(_, volume)| volume.owner() == Some(found.vmid) && !named.contains(volume))
        .map(|(slot, volume)| format!("{volume} ({slot})"))
        .collect();
    if lost.is_empty() || sabotaged(Defect::VolumesNotReadAgain) {
        return Ok(());
    }
    Err(StepError::WouldLose { vmid: found.vmid, host: found.host.clone(), volumes: lost })
}

/// Removes a VM that has just been seen to be the right one, with `purge` also from HA and the jobs that name it. If it
/// is gone anyway, that is as good.
pub(super) async fn destroy(work: &Work<'_>, found: &Found, purge: bool) -> Result<()> {
    let (client, vmid, host) = (work.client(), found.vmid, &found.host);
    let doing = format!("remove {}", found.name());
    let vmid = if sabotaged(Defect::RemovedByName) { first_named(client, found).await } else { vmid };
    let turn = work.turn(host).await;
    let task = match client.delete_vm(host, vmid, purge).await {
        Err(error) if error.is_not_found() => None,
        Err(error) if sabotaged(Defect::DeniedIsDone) && matches!(error.kind(), ErrorKind::Denied(_)) => None,
        other => Some(other.map_err(StepError::call(doing.clone()))?),
    };
    let end = follow(work, task, &doing, CHANGE_LIMIT).await;
    drop(turn);
    match end {
        Err(error) if error.kind() == Some(&ErrorKind::NotFound) => {
            let left = find(client, host, vmid).await.map_err(StepError::call(doing))?;
            if left.is_none() { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}

/// What a removal must never go by.
async fn first_named(client: &Client, found: &Found) -> VmId {
    let listed = vms(client).await.unwrap_or_default();
    let mut named = listed.iter().filter(|vm| vm.name.as_deref() == found.config.name());
    named.next().map_or(found.vmid, |vm| vm.vmid)
}
