//! Whether nobody is started who has forgotten what it promised the other members of etcd.

use talmox_types::desired::Role;
use talmox_types::{Mark, NodeName, VmId};

use super::{Court, Rule};
use crate::{Guest, Planned, Power, Step};

/// A VM that is off and has disks of the past stays off while another control plane has disks of its last run.
pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        let (Step::StartVm { vm } | Step::RebootVm { vm, .. }) = &step.step else { continue };
        let vmid = vm.vmid();
        let is_off = court.observed.guests.get(&vmid).is_some_and(|guest| guest.power == Power::Stopped);
        // What this plan makes in its place has a past of its own.
        let makes = |before: &&Planned| before.step.makes() == Some(&vm.mark);
        let is_worker = court.node(&vm.mark.node).is_some_and(|node| node.role == Role::Worker);
        if !is_off
            || is_worker
            || !court.observed.rewound.contains_key(&vmid)
            || court.before(step).iter().any(makes)
        {
            continue;
        }
        if let Some(other) = who_remembers(court, &vm.mark.node) {
            let problem = format!("VM {vmid} has disks of the past, and {other} was not rolled back");
            court.violate(Rule::PastStaysOff, step, problem);
        }
    }
}

/// Another described control plane whose VM was not rolled back.
fn who_remembers(court: &Court<'_>, besides: &NodeName) -> Option<NodeName> {
    let marks = court.observed.guests.iter().filter_map(|(vmid, guest)| own_mark(court, *vmid, guest));
    let mut others = marks.filter(|mark| {
        let described = court.node(&mark.node).is_some_and(|node| node.role == Role::Controller);
        mark.node != *besides && described && !court.observed.rewound.contains_key(&mark.vmid)
    });
    others.next().map(|mark| mark.node)
}

/// The mark of a VM of ours whose making came to its end.
fn own_mark(court: &Court<'_>, vmid: VmId, guest: &Guest) -> Option<Mark> {
    let seen = guest.seen()?;
    let line = seen.live.description()?.trim_end().lines().last()?;
    let mark = Mark::parse(line.trim()).ok()?;
    let witness = seen.next.smbios().ok().flatten()?.family?;
    let is_ours = court.desired.uid.as_ref() == Some(&mark.uid) && mark.vmid == vmid && !mark.shelf;
    (is_ours && witness == mark.witness_family()).then_some(mark)
}
