//! Disks that outlive their VM, and the VM that holds them meanwhile.

use std::collections::BTreeMap;

use talmox_plan::Expected;
use talmox_pve::client::MoveDisk;
use talmox_pve::property::{Disk, Slot, VolumeId};
use talmox_types::{HostName, Mark, PoolName, StorageId};

use super::node::NodeVm;
use super::remove::{destroy, must_be_stopped};
use super::{CHANGE_LIMIT, create_vm, follow, making, moving};
use crate::StepError;
use crate::find::Found;
use crate::work::{End, Result, Work};

/// What a shelf is made with. It never runs, and the disks on it are on this bus.
const SETTINGS: [(&str, &str); 4] =
    [("memory", "64"), ("onboot", "0"), ("scsihw", "virtio-scsi-pci"), ("ostype", "other")];

pub(crate) async fn make(work: &Work<'_>, host: &HostName, mark: &Mark, pool: Option<&PoolName>) -> Result {
    let set: BTreeMap<String, String> =
        SETTINGS.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let recipe = create_vm::New { host, set: &set, pool };
    making::run(work, NodeVm::new(mark.clone(), &recipe)).await
}

/// A disk that changes hands.
pub(crate) struct Handover<'a> {
    pub(crate) from: &'a Expected,
    pub(crate) to: &'a Expected,
    pub(crate) slot: Slot,
    pub(crate) storage: &'a StorageId,
    pub(crate) volume: Option<&'a VolumeId>,
}

/// Gives a disk to the other VM. Whoever has it says whether that was done already.
pub(crate) async fn hand_over(work: &Work<'_>, order: &Handover<'_>) -> Result {
    let Handover { from, to, slot, .. } = order;
    let target = work.expect(to).await?;
    let source = work.find(from).await?;
    let left = source.as_ref().and_then(|source| source.config.get(&slot.to_string()));
    if left.is_none() && order.is_at(&target) {
        return Ok(End::Unchanged);
    }
    let gone = || StepError::Gone { vmid: from.vmid(), host: from.host.clone() };
    let source = source.ok_or_else(gone)?;
    order.is_ready(work, &source, &target).await?;
    let doing = format!("give {slot} of {} to VM {}", source.name(), target.vmid);
    let place = MoveDisk::ToVm { vmid: target.vmid, slot: *slot };
    let turn = work.turn_for_little().await;
    let digest = source.config.digest();
    let task = work.client().move_disk(&source.host, source.vmid, *slot, &place, digest).await;
    let task = task.map_err(StepError::call(doing.clone()))?;
    follow(work, Some(task), &doing, CHANGE_LIMIT).await?;
    drop(turn);
    let after = work.expect(to).await?;
    if order.is_at(&after) { Ok(End::Changed) } else { Err(order.changed(&after)) }
}

impl Handover<'_> {
    /// Whether the disk hangs on a VM and is its own.
    fn is_at(&self, found: &Found) -> bool {
        let disk = found.config.get(&self.slot.to_string()).and_then(|text| Disk::parse(text).ok());
        disk.is_some_and(|disk| {
            found.owns(&disk) && disk.source.volume().is_some_and(|volume| volume.storage() == self.storage)
        })
    }

    /// The disk is the planned one, nobody uses it, and its new place is free.
    async fn is_ready(&self, work: &Work<'_>, source: &Found, target: &Found) -> Result<()> {
        let disk = source.config.get(&self.slot.to_string()).and_then(|text| Disk::parse(text).ok());
        let volume = disk.as_ref().and_then(|disk| disk.source.volume());
        if !self.is_at(source) || self.volume.is_some_and(|planned| volume != Some(planned)) {
            return Err(self.changed(source));
        }
        if target.config.get(&self.slot.to_string()).is_some() {
            return Err(self.changed(target));
        }
        if source.host != target.host {
            return Err(StepError::Changed { what: format!("the host of {}", source.name()) });
        }
        must_be_stopped(work, source).await
    }

    fn changed(&self, found: &Found) -> StepError {
        StepError::Changed { what: format!("{} of {}", self.slot, found.name()) }
    }
}

pub(crate) async fn bring(work: &Work<'_>, vm: &Expected, to: &HostName) -> Result {
    moving::run(work, vm, to, false).await
}

/// Removes a shelf, if nothing hangs on it: that is read directly before.
pub(crate) async fn remove(work: &Work<'_>, vm: &Expected) -> Result {
    let Some(found) = work.find(vm).await? else { return Ok(End::Unchanged) };
    must_be_stopped(work, &found).await?;
    let volumes: Vec<String> = found
        .config
        .slots()
        .filter(|(slot, _)| slot.holds_volume())
        .filter_map(|(slot, text)| Some((slot, Disk::parse(text).ok()?.source.volume()?.clone())))
        .map(|(slot, volume)| format!("{volume} ({slot})"))
        .collect();
    if !volumes.is_empty() {
        return Err(StepError::WouldLose { vmid: found.vmid, host: found.host, volumes });
    }
    destroy(work, &found, true).await?;
    Ok(End::Changed)
}
