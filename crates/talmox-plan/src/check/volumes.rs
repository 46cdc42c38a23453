//! Whether data is safe: what goes with a VM, and what happens to disks that stay.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, Slot, SlotKind, VmConfig};
use talmox_types::desired::Node;

use super::{Court, Rule};
use crate::{Expected, GuestConfig, Planned, Step};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        match &step.step {
            Step::RemoveVm { vm, detach, .. } => removal(court, step, vm, detach),
            Step::GrowDisk { vm, slot, to } => {
                own_volume(court, step, vm, *slot);
                let now = seen(court, vm).and_then(|seen| disk(&seen.next, *slot)).and_then(|disk| disk.size);
                if now.is_some_and(|now| now > *to) {
                    court.violate(Rule::DisksGrow, step, format!("{slot} would shrink"));
                }
            }
            Step::AddDisk { vm, slot, .. } => {
                if seen(court, vm).is_some_and(|seen| holds(seen, *slot)) {
                    court.violate(Rule::DisksGrow, step, format!("{slot} holds something already"));
                }
                if super::shelf::keeps(court, &vm.mark.node, *slot) {
                    court.violate(Rule::Volumes, step, format!("another disk was kept for {slot}"));
                }
            }
            Step::ConfigureVm { vm, set, delete, drives, .. } => {
                configuration(court, step, vm, set, delete);
                for slot in drives.keys() {
                    own_volume(court, step, vm, *slot);
                }
            }
            Step::CreatePool { .. }
            | Step::CloneVm { .. }
            | Step::CreateVm { .. }
            | Step::RegisterSchematic { .. }
            | Step::FetchImage { .. }
            | Step::BuildTemplate { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
            | Step::RemoveTemplate { .. }
            | Step::RemoveImage { .. }
            | Step::JoinPool { .. }
            | Step::StartVm { .. }
            | Step::StopVm { .. }
            | Step::RebootVm { .. }
            | Step::MoveVm { .. }
            | Step::AddHa { .. }
            | Step::SetHaGroup { .. }
            | Step::SetHaRule { .. }
            | Step::DeleteHaRule { .. }
            | Step::DeletePool { .. }
            | Step::AttachSeed { .. }
            | Step::EjectSeed { .. }
            | Step::RemoveSeed { .. }
            | Step::PublishConfig { .. }
            | Step::WithdrawConfig { .. }
            | Step::ConfigureNode { .. }
            | Step::Bootstrap { .. }
            | Step::RecordBootstrap { .. }
            | Step::RecordConfigured { .. }
            | Step::ApplyManifests { .. }
            | Step::PostBootstrap { .. }
            | Step::AwaitHealth
            | Step::Upkeep(_) => {}
        }
        if !step.destroys.is_empty()
            && !matches!(step.step, Step::RemoveVm { .. } | Step::RemoveTemplate { .. })
        {
            court.violate(Rule::Volumes, step, "only removing a VM or template destroys volumes");
        }
    }
}

/// A disk that is changed is the VM's own: others hang theirs into it.
fn own_volume(court: &mut Court<'_>, step: &Planned, vm: &Expected, slot: Slot) {
    let Some(seen) = seen(court, vm) else { return };
    for disk in [disk(&seen.live, slot), disk(&seen.next, slot)].into_iter().flatten() {
        if let Some(volume) = disk.source.volume()
            && volume.owner().is_some_and(|owner| owner != vm.vmid())
        {
            return court.violate(Rule::OursOnly, step, format!("{volume} at {slot} belongs to another"));
        }
    }
}

pub(super) fn seen<'a>(court: &Court<'a>, vm: &Expected) -> Option<&'a GuestConfig> {
    let guest = court.observed.guests.get(&vm.vmid())?;
    let config = guest.seen()?;
    // A VM of the same id that this plan removes first says nothing of the one it makes.
    let mark = config.live.description().and_then(talmox_types::Mark::of_description)?;
    vm.is(&mark).then_some(config)
}

pub(super) fn disk(config: &VmConfig, slot: Slot) -> Option<Disk> {
    Disk::parse(config.get(&slot.to_string())?).ok()
}

pub(super) fn holds(seen: &GuestConfig, slot: Slot) -> bool {
    let key = slot.to_string();
    seen.live.get(&key).is_some() || seen.next.get(&key).is_some()
}

/// With a VM go the volumes that are its own, every one of them named in the plan and none that shall stay.
fn removal(court: &mut Court<'_>, step: &Planned, vm: &Expected, detach: &BTreeSet<Slot>) {
    let Some(seen) = seen(court, vm) else { return };
    let node = court.node(&vm.mark.node);
    let slots: BTreeSet<Slot> = [&seen.live, &seen.next]
        .into_iter()
        .flat_map(VmConfig::slots)
        .map(|(slot, _)| slot)
        .filter(|slot| slot.holds_volume())
        .collect();
    for slot in slots {
        for disk in [disk(&seen.live, slot), disk(&seen.next, slot)].into_iter().flatten() {
            let Some(volume) = disk.source.volume() else { continue };
            if volume.owner() != Some(vm.vmid()) {
                if !disk.is_cdrom() && !detach.contains(&slot) {
                    court.violate(
                        Rule::Volumes,
                        step,
                        format!("{volume} belongs to another and is not let go first"),
                    );
                }
                continue;
            }
            if super::shelf::is_carried_over(court, step, vm, (slot, volume)) {
                continue;
            }
            if !is_expendable(slot, &disk, node) {
                court.violate(Rule::Volumes, step, format!("{volume} at {slot} must not go with the VM"));
            }
            if !step.destroys.iter().any(|listed| listed.volume == *volume) {
                court.violate(Rule::Volumes, step, format!("{volume} would go and the plan does not say so"));
            }
        }
    }
}

fn is_expendable(slot: Slot, disk: &Disk, node: Option<&Node>) -> bool {
    if disk.is_cloud_init() || slot == Slot::EFI_DISK || slot == Slot::TPM_STATE {
        return true;
    }
    if slot.kind() != SlotKind::Scsi {
        return false;
    }
    let declared = |node: &Node| {
        node.vm.extra_disks.iter().any(|declared| declared.slot == slot.index() && !declared.keep)
    };
    slot.index() == 0 || node.is_some_and(declared)
}

/// A configuration may make a cloud-init drive and what a fresh clone lacks, and takes away nothing but the former.
fn configuration(
    court: &mut Court<'_>,
    step: &Planned,
    vm: &Expected,
    set: &BTreeMap<String, String>,
    delete: &BTreeSet<String>,
) {
    let now = seen(court, vm);
    for (key, value) in set {
        let Some(slot) = Slot::parse(key).ok().filter(|slot| slot.holds_volume()) else { continue };
        let taken = now.is_some_and(|seen| {
            [&seen.live, &seen.next].iter().any(|config| {
                let held = disk(config, slot);
                held.is_some_and(|held| held.source.volume().is_some() && !held.is_cloud_init())
            })
        });
        let makes_cloud_init = Disk::parse(value).is_ok_and(|disk| disk.is_cloud_init());
        let of_a_fresh_vm = slot == Slot::EFI_DISK || slot == Slot::TPM_STATE;
        if taken || !(makes_cloud_init || of_a_fresh_vm) {
            court.violate(
                Rule::DisksGrow,
                step,
                format!("{key} would put another volume in place of what is there"),
            );
        }
    }
    for key in delete {
        let Some(slot) = Slot::parse(key).ok() else { continue };
        let drive = now.and_then(|seen| disk(&seen.next, slot));
        let is_cloud_init = drive.as_ref().is_some_and(Disk::is_cloud_init);
        if slot.holds_volume() && now.is_some() && !is_cloud_init {
            court.violate(Rule::AskedFor, step, format!("{key} would be taken away"));
        }
    }
}
