//! Whether disks that outlive their VM are somewhere at any time.

use talmox_pve::property::{Disk, Slot, SlotKind, VolumeId};
use talmox_types::{Mark, NodeName};

use super::ownership::acts_on;
use super::requested::may_be_removed;
use super::volumes::{disk, holds, seen};
use super::{Court, Rule};
use crate::{Expected, Guest, Planned, Power, Seen, Step, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        let Step::Upkeep(upkeep) = &step.step else { continue };
        if let Upkeep::MakeShelf { mark, .. } = upkeep {
            made(court, step, mark);
        }
        if let Upkeep::MoveDisk { from, to, slot, volume, .. } = upkeep {
            moved(court, step, (from, to), *slot, volume.as_ref());
        }
        if let Upkeep::MoveShelf { vm, .. } | Upkeep::RemoveShelf { vm } = upkeep
            && !vm.mark.shelf
        {
            court.violate(Rule::Volumes, step, format!("VM {} is no shelf", vm.vmid()));
        }
        if let Upkeep::RemoveShelf { vm } = upkeep {
            is_empty_by_then(court, step, vm);
        }
    }
}

/// A node has one shelf, on an id nobody has.
fn made(court: &mut Court<'_>, step: &Planned, mark: &Mark) {
    if !mark.shelf || step.node.as_ref() != Some(&mark.node) {
        court.violate(Rule::OursOnly, step, "its mark is not that of a shelf of its node");
    }
    if court.desired.uid.as_ref().is_some_and(|uid| *uid != mark.uid) {
        court.violate(Rule::OursOnly, step, "its mark is another cluster's");
    }
    if court.observed.guests.contains_key(&mark.vmid) || court.known.has_twin(step, mark) {
        court.violate(Rule::OursOnly, step, format!("{} is somebody else's", mark.vmid));
    }
    if shelves(court, &mark.node).next().is_some() {
        court.violate(Rule::Volumes, step, "the node has a shelf already");
    }
}

/// A disk goes from a VM that is going to be removed to the shelf of its node, or from there to the node's VM.
fn moved(
    court: &mut Court<'_>,
    step: &Planned,
    (from, to): (&Expected, &Expected),
    slot: Slot,
    volume: Option<&VolumeId>,
) {
    acts_on(court, step, to);
    if from.mark.node != to.mark.node || from.mark.shelf == to.mark.shelf || from.mark.uid != to.mark.uid {
        court.violate(Rule::OursOnly, step, "it is not between a node's VM and its shelf");
    }
    if from.host != to.host {
        court.violate(Rule::WellFormed, step, "the two VMs are on different hosts");
    }
    if seen(court, to).is_some_and(|seen| holds(seen, slot)) {
        court.violate(Rule::DisksGrow, step, format!("{slot} of VM {} holds something already", to.vmid()));
    }
    let held = seen(court, from).and_then(|seen| disk(&seen.next, slot));
    let held = held.as_ref().and_then(|disk| disk.source.volume());
    if volume.is_some() && held != volume {
        court.violate(Rule::Volumes, step, format!("{slot} of VM {} holds another volume", from.vmid()));
    }
    if held.is_some_and(|held| held.owner() != Some(from.vmid())) {
        court.violate(Rule::OursOnly, step, format!("what hangs at {slot} belongs to another"));
    }
    if from.mark.shelf {
        return;
    }
    if !may_be_removed(court, from) {
        court.violate(Rule::AskedFor, step, format!("nobody asked for the removal of {}", from.mark.node));
    }
    let node = court.node(&from.mark.node);
    let kept = node.is_some_and(|node| {
        let mut disks = node.vm.extra_disks.iter();
        slot.kind() == SlotKind::Scsi && disks.any(|disk| disk.keep && disk.slot == slot.index())
    });
    if !kept {
        court.violate(Rule::Volumes, step, format!("{slot} is not to be kept"));
    }
    let stopped = court.observed.guests.get(&from.vmid()).is_some_and(|guest| guest.power == Power::Stopped);
    let stops = |before: &&Planned| matches!(&before.step, Step::StopVm { vm, .. } if vm == from);
    if !stopped && !court.before(step).iter().any(stops) {
        court.violate(Rule::Volumes, step, format!("VM {} may run, and use the disk", from.vmid()));
    }
}

/// Whether a disk has left a VM by the time it is removed.
pub(super) fn is_carried_over(
    court: &Court<'_>,
    step: &Planned,
    vm: &Expected,
    (slot, volume): (Slot, &VolumeId),
) -> bool {
    let leaves = |before: &&Planned| {
        matches!(&before.step, Step::Upkeep(Upkeep::MoveDisk { from, slot: at, volume: Some(moved), .. })
            if from == vm && *at == slot && moved == volume)
    };
    court.before(step).iter().any(leaves)
}

/// Everything that hangs on a shelf, or is put on it by this plan, is given away before it goes.
fn is_empty_by_then(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    let before = court.before(step);
    let is_given = |slot: Slot| {
        before.iter().any(|before| {
            matches!(&before.step, Step::Upkeep(Upkeep::MoveDisk { from, slot: at, .. })
                if from.mark == vm.mark && *at == slot)
        })
    };
    let there = court.observed.guests.get(&vm.vmid()).map(held).unwrap_or_default();
    let put = court.steps().iter().filter_map(|other| {
        let Step::Upkeep(Upkeep::MoveDisk { to, slot, .. }) = &other.step else { return None };
        (to.mark == vm.mark).then_some(*slot)
    });
    if let Some(slot) = there.into_iter().chain(put).find(|slot| !is_given(*slot)) {
        court.violate(Rule::Volumes, step, format!("{slot} would go with VM {}", vm.vmid()));
    }
}

/// Slots of a VM that hold volumes.
fn held(guest: &Guest) -> Vec<Slot> {
    let Seen::Read(seen) = &guest.config else { return Vec::new() };
    let slots = seen.live.slots().chain(seen.next.slots()).filter(|(slot, _)| slot.holds_volume());
    let with_volume =
        slots.filter(|(_, text)| Disk::parse(text).is_ok_and(|disk| disk.source.volume().is_some()));
    with_volume.map(|(slot, _)| slot).collect()
}

/// VMs that hold disks of a node.
fn shelves<'a>(court: &Court<'a>, node: &NodeName) -> impl Iterator<Item = &'a Guest> {
    let observed = court.observed;
    observed.guests.values().filter(move |guest| {
        let Seen::Read(seen) = &guest.config else { return false };
        let line = seen.live.description().unwrap_or_default().trim_end().lines().last().unwrap_or_default();
        Mark::parse(line.trim())
            .is_ok_and(|mark| mark.shelf && mark.vmid == guest.vmid && mark.node == *node && !guest.template)
    })
}

/// Whether a disk of a node that is kept elsewhere belongs into a slot.
pub(super) fn keeps(court: &Court<'_>, node: &NodeName, slot: Slot) -> bool {
    let mut shelves = shelves(court, node);
    shelves.any(|guest| held(guest).contains(&slot))
}
