//! Whether every step acts on what is proven ours.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, Slot};
use talmox_types::{Mark, VmId};

use super::{Court, Rule};
use crate::{Depth, Expected, Guest, GuestKind, HaRule, Planned, Power, Seen, Step, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Some(vm) = step.step.vm() {
            acts_on(court, step, vm);
        }
        match &step.step {
            Step::CloneVm { mark, template, .. } => {
                made(court, step, mark);
                is_template(court, step, template.vmid);
            }
            Step::CreateVm { mark, set, .. } => {
                made(court, step, mark);
                own_volumes(court, step, set);
            }
            Step::JoinPool { vm, .. } => {
                let guest = court.observed.guests.get(&vm.vmid());
                if guest.is_some_and(|guest| guest.pool.is_some()) {
                    court.violate(Rule::OursOnly, step, "the VM is in a pool already");
                }
            }
            Step::DeletePool { comment, .. } => delete_pool(court, step, comment),
            Step::SetHaRule { rule } | Step::DeleteHaRule { rule } => ha_rule(court, step, rule),
            Step::SetHaGroup { group, .. } => ha_group(court, step, group),
            Step::CreatePool { .. }
            | Step::RegisterSchematic { .. }
            | Step::FetchImage { .. }
            | Step::BuildTemplate { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureTemplate { .. }
            | Step::RemoveTemplate { .. }
            | Step::RemoveImage { .. }
            | Step::ConfigureVm { .. }
            | Step::AddDisk { .. }
            | Step::GrowDisk { .. }
            | Step::StartVm { .. }
            | Step::StopVm { .. }
            | Step::RebootVm { .. }
            | Step::MoveVm { .. }
            | Step::AddHa { .. }
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
            | Step::Upkeep(_)
            | Step::RemoveVm { .. } => {}
        }
    }
}

/// A VM is ours if it carries the mark the step expects, for itself; or if this plan makes it.
pub(super) fn acts_on(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    if step.node.as_ref() != Some(&vm.mark.node) {
        court.violate(Rule::OursOnly, step, format!("it is about another node than {}", vm.mark.node));
    }
    if court.desired.uid.as_ref().is_some_and(|uid| *uid != vm.mark.uid) {
        court.violate(Rule::OursOnly, step, "its mark is another cluster's");
    }
    let makes = |before: &&Planned| before.step.makes() == Some(&vm.mark);
    if court.before(step).iter().any(makes) {
        return;
    }
    match court.observed.guests.get(&vm.vmid()) {
        None => court.violate(Rule::OursOnly, step, format!("there is no VM {}", vm.vmid())),
        Some(guest) => {
            if let Err(why) = proven(guest, vm) {
                court.violate(Rule::OursOnly, step, format!("VM {} is not proven ours: {why}", vm.vmid()));
            }
        }
    }
}

fn proven(guest: &Guest, vm: &Expected) -> Result<(), &'static str> {
    if guest.kind == GuestKind::Container {
        return Err("it is a container");
    }
    if guest.template {
        return Err("it is a template");
    }
    if guest.host != vm.host {
        return Err("it is on another host");
    }
    if guest.lock.is_some() {
        return Err("it is locked");
    }
    let Seen::Read(seen) = &guest.config else { return Err("its configuration was not read") };
    let last_line = seen.live.description().unwrap_or_default().trim_end().lines().last().unwrap_or_default();
    let Ok(mark) = Mark::parse(last_line.trim()) else { return Err("it has no mark") };
    if mark.vmid != guest.vmid {
        return Err("its mark was written for another VM");
    }
    if !vm.is(&mark) {
        return Err("its mark is another one");
    }
    let smbios = seen.next.smbios().ok().flatten().unwrap_or_default();
    // What follows is where the machine fetches its configuration from.
    let serial_is_ours = |serial: &str| {
        let own = mark.witness_serial();
        let rest = serial.strip_prefix(own.as_str());
        !serial.starts_with("h=") || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(";ds="))
    };
    if !smbios.serial.as_deref().is_none_or(serial_is_ours) {
        return Err("its SMBIOS serial says otherwise");
    }
    let has_witness = smbios.serial.as_deref().is_some_and(|serial| serial.starts_with("h="))
        && smbios.family.is_some_and(|family| family == mark.witness_family());
    if !has_witness && guest.power != Power::Stopped {
        return Err("it runs, and its SMBIOS values do not say whose it is");
    }
    Ok(())
}

/// A VM that is made has a node of the description that has none, and an id nobody has.
fn made(court: &mut Court<'_>, step: &Planned, mark: &Mark) {
    if step.node.as_ref() != Some(&mark.node) {
        court.violate(Rule::OursOnly, step, "its mark is another node's");
    }
    if court.node(&mark.node).is_none() {
        court.violate(Rule::OursOnly, step, "the description has no such node");
    }
    let before = court.before(step);
    let removed: Vec<VmId> = before
        .iter()
        .filter_map(|before| removes(before))
        .filter(|vm| vm.mark.node == mark.node && !vm.mark.shelf)
        .map(Expected::vmid)
        .collect();
    if court.observed.guests.contains_key(&mark.vmid) && !removed.contains(&mark.vmid) {
        court.violate(Rule::OursOnly, step, format!("there is a guest {} already", mark.vmid));
    }
    if court.known.has_twin(step, mark) {
        court.violate(Rule::OursOnly, step, "another step makes the same VM or node");
    }
    if court.observed.depth != Depth::Everything && removed.is_empty() {
        court.violate(Rule::OursOnly, step, "not every VM was looked at: the node may be there");
    }
    if court.known.is_there(mark) && removed.is_empty() {
        court.violate(Rule::OursOnly, step, "the node has a VM already");
    }
}

/// What is cloned is a template, or will be by then.
fn is_template(court: &mut Court<'_>, step: &Planned, template: VmId) {
    let converted = |before: &&Planned| matches!(&before.step, Step::ConvertTemplate { template: made } if made.vmid() == template);
    let there = court.observed.guests.get(&template).is_some_and(|guest| guest.template);
    if !there && !court.before(step).iter().any(converted) {
        court.violate(Rule::OursOnly, step, format!("{template} is not a template"));
    }
}

/// A VM that is made takes no disk that is there already; an ISO is no disk.
fn own_volumes(court: &mut Court<'_>, step: &Planned, set: &BTreeMap<String, String>) {
    for (key, value) in set {
        let Some(slot) = Slot::parse(key).ok().filter(|slot| slot.holds_volume()) else { continue };
        let Ok(disk) = Disk::parse(value) else { continue };
        let iso =
            disk.is_cdrom() && disk.source.volume().is_some_and(|volume| volume.name().starts_with("iso/"));
        if disk.source.volume().is_some() && !iso {
            court.violate(Rule::OursOnly, step, format!("{slot} would hold a volume that is there already"));
        }
    }
}

/// The VM a step removes.
fn removes(step: &Planned) -> Option<&Expected> {
    step.step
        .vm()
        .filter(|_| matches!(step.step, Step::RemoveVm { .. } | Step::Upkeep(Upkeep::RemoveShelf { .. })))
}

fn delete_pool(court: &mut Court<'_>, step: &Planned, comment: &str) {
    let ours =
        court.desired.uid.as_ref().is_some_and(|uid| comment.starts_with(&format!("talmox:v1 uid={uid} ")));
    let pool = court.observed.pool.as_ref();
    if !ours || pool.is_none_or(|pool| pool.comment.as_deref() != Some(comment)) {
        return court.violate(Rule::OursOnly, step, "the pool is not proven ours");
    }
    let before = court.before(step);
    let removed: BTreeSet<String> =
        before.iter().filter_map(|before| removes(before)).map(|vm| format!("qemu/{}", vm.vmid())).collect();
    if pool.is_some_and(|pool| pool.members.iter().any(|member| !removed.contains(member))) {
        court.violate(Rule::OursOnly, step, "something else is in the pool");
    }
}

/// A rule of HA is ours by its comment, and speaks of our VMs only.
fn is_ours(court: &Court<'_>, comment: &str) -> bool {
    let uid = court.desired.uid.as_ref();
    uid.is_some_and(|uid| comment.starts_with(&format!("talmox:v1 uid={uid} ")))
}

/// VMs of others may be in a group of others: HA would move them.
fn ha_group(court: &mut Court<'_>, step: &Planned, group: &str) {
    let seen = court.observed.ha.as_ref().and_then(|ha| ha.groups.get(group));
    if seen.is_some_and(|seen| !is_ours(court, &seen.comment)) {
        court.violate(Rule::OursOnly, step, format!("the HA group {group} is not proven ours"));
    }
}

fn ha_rule(court: &mut Court<'_>, step: &Planned, rule: &HaRule) {
    let is_ours = |comment: &str| is_ours(court, comment);
    let seen = court.observed.ha.as_ref().and_then(|ha| ha.rules.get(&rule.id));
    if !is_ours(&rule.comment) || seen.is_some_and(|seen| !is_ours(&seen.comment)) {
        return court.violate(Rule::OursOnly, step, format!("the HA rule {} is not proven ours", rule.id));
    }
    if matches!(step.step, Step::DeleteHaRule { .. }) {
        return;
    }
    let uid = court.desired.uid.clone();
    let ours = |vmid: &VmId| {
        let seen = court.observed.guests.get(vmid).and_then(Guest::seen);
        let line =
            seen.and_then(|seen| seen.live.description()?.trim_end().lines().last().map(str::to_owned));
        line.and_then(|line| Mark::parse(line.trim()).ok())
            .is_some_and(|mark| mark.vmid == *vmid && Some(mark.uid) == uid)
    };
    if let Some(foreign) = rule.vms.iter().find(|vmid| !ours(vmid)) {
        court.violate(
            Rule::OursOnly,
            step,
            format!("{foreign} in the HA rule {} is not proven ours", rule.id),
        );
    }
}
