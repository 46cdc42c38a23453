//! Disks: new ones, and larger ones.

use talmox_plan::Expected;
use talmox_pve::client::{ChangeError, ConfigChange};
use talmox_pve::property::{Disk, DiskSize, Slot};
use talmox_types::StorageId;

use super::{CHANGE_LIMIT, follow};
use crate::StepError;
use crate::find::Found;
use crate::work::{End, Result, Work};

/// Puts a new disk into a free slot. The digest of what was seen goes along: if an earlier try is still under way or has
/// succeeded, Proxmox refuses instead of making a second disk.
pub(super) async fn add(
    work: &Work<'_>,
    vm: &Expected,
    slot: Slot,
    (storage, size): (&StorageId, DiskSize),
    value: &str,
) -> Result {
    let found = work.expect(vm).await?;
    if holds(&found, slot, storage, size)? {
        return Ok(End::Unchanged);
    }
    let doing = format!("add {slot} ({size} on {storage}) to {}", found.name());
    let disk = Disk::parse(value).map_err(ChangeError::Property);
    let change = disk.and_then(|disk| ConfigChange::new().add_disk(slot, &disk, &found.config));
    let change = change.map_err(StepError::impossible(doing.clone()))?;
    let change = found.config.digest().map_or(change.clone(), |digest| change.if_digest(digest));
    let turn = work.turn_for_little().await;
    let task = work.client().change_config_in_task(&found.host, found.vmid, &change).await;
    follow(work, task.map_err(StepError::call(doing.clone()))?, &doing, CHANGE_LIMIT).await?;
    drop(turn);
    let after = work.expect(vm).await?;
    if holds(&after, slot, storage, size)? { Ok(End::Changed) } else { Err(changed(&after, slot)) }
}

/// Whether the slot holds the wanted disk; anything else in it is an error.
fn holds(found: &Found, slot: Slot, storage: &StorageId, size: DiskSize) -> Result<bool> {
    let Some(text) = found.config.get(&slot.to_string()) else { return Ok(false) };
    let held = Disk::parse(text).map_err(|_| changed(found, slot))?;
    let on_storage =
        held.source.volume().is_some_and(|volume| volume.storage() == storage) && found.owns(&held);
    // Some storages round up.
    if on_storage && held.size.is_some_and(|held| held >= size) {
        Ok(true)
    } else {
        Err(changed(found, slot))
    }
}

pub(super) async fn grow(work: &Work<'_>, vm: &Expected, slot: Slot, to: DiskSize) -> Result {
    let found = work.expect_as_left(vm).await?;
    if size_of(&found, slot)? >= to {
        return Ok(End::Unchanged);
    }
    let doing = format!("grow {slot} of {} to {to}", found.name());
    let digest = found.config.digest();
    let turn = work.turn_for_little().await;
    let task = work.client().resize_disk(&found.host, found.vmid, slot, to, digest).await;
    follow(work, task.map_err(StepError::call(doing.clone()))?, &doing, CHANGE_LIMIT).await?;
    drop(turn);
    let after = work.expect(vm).await?;
    if size_of(&after, slot)? >= to { Ok(End::Changed) } else { Err(changed(&after, slot)) }
}

fn size_of(found: &Found, slot: Slot) -> Result<DiskSize> {
    let disk = found.config.get(&slot.to_string()).and_then(|text| Disk::parse(text).ok());
    // Somebody may have hung another volume there since.
    disk.filter(|disk| found.owns(disk)).and_then(|disk| disk.size).ok_or_else(|| changed(found, slot))
}

fn changed(found: &Found, slot: Slot) -> StepError {
    StepError::Changed { what: format!("{slot} of {}", found.name()) }
}
