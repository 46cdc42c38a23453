//! Whether templates and images are safe: only our own are touched, none goes that something stands on.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, Slot, VmConfig, VolumeId};
use talmox_types::desired::{OUR_FILES, OUR_SEEDS};
use talmox_types::{StorageId, TemplateMark, VmId};

use super::{Court, Rule};
use crate::{Depth, ExpectedTemplate, Goal, Guest, GuestKind, Planned, Power, Step};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Some(template) = step.step.template() {
            acts_on(court, step, template);
        }
        if matches!(court.request.goal, Goal::Templates | Goal::PruneTemplates) && step.node.is_some() {
            court.violate(Rule::AskedFor, step, "only templates were asked for");
        }
        match &step.step {
            Step::FetchImage { image, .. } => our_file(court, step, &image.file),
            Step::BuildTemplate { mark, image, storage, set, .. } => {
                our_file(court, step, image.file_name());
                build(court, step, mark, storage, set);
            }
            Step::ConfigureTemplate { template, set, delete, mark } => {
                if (&mark.image, mark.vmid) != (&template.mark.image, template.mark.vmid) {
                    court.violate(Rule::OursOnly, step, "its mark would be another template's");
                }
                let keys = set.keys().chain(delete);
                if keys.into_iter().any(|key| Slot::parse(key).is_ok_and(Slot::holds_volume)) {
                    court.violate(Rule::DisksGrow, step, "a template's disks stay as they are");
                }
            }
            Step::RemoveTemplate { template } => removal(court, step, template),
            Step::RemoveImage { host, volume } => {
                our_file(court, step, volume.file_name());
                if volume.file_name().starts_with(OUR_SEEDS) {
                    court.violate(Rule::OursOnly, step, format!("{volume} is a configuration drive"));
                }
                let seen = court.observed.files.get(&(host.clone(), volume.storage().clone()));
                if !seen.is_some_and(|files| files.iter().any(|file| file.volume == *volume)) {
                    court.violate(Rule::OursOnly, step, format!("{volume} was not seen on {host}"));
                }
                asked_for(court, step);
            }
            Step::CreatePool { .. }
            | Step::CloneVm { .. }
            | Step::CreateVm { .. }
            | Step::RegisterSchematic { .. }
            | Step::ConvertTemplate { .. }
            | Step::ConfigureVm { .. }
            | Step::AddDisk { .. }
            | Step::GrowDisk { .. }
            | Step::JoinPool { .. }
            | Step::StartVm { .. }
            | Step::StopVm { .. }
            | Step::RebootVm { .. }
            | Step::MoveVm { .. }
            | Step::AddHa { .. }
            | Step::SetHaGroup { .. }
            | Step::SetHaRule { .. }
            | Step::DeleteHaRule { .. }
            | Step::RemoveVm { .. }
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
    }
}

fn our_file(court: &mut Court<'_>, step: &Planned, file: &str) {
    if !file.starts_with(OUR_FILES) {
        court.violate(Rule::OursOnly, step, format!("{file} is not the name of an image of ours"));
    }
}

fn asked_for(court: &mut Court<'_>, step: &Planned) {
    if court.request.goal != Goal::PruneTemplates {
        court.violate(Rule::AskedFor, step, "nobody asked for templates or images to be removed");
    }
}

/// A template is ours if it carries the mark the step expects, for itself; or if this plan makes it.
fn acts_on(court: &mut Court<'_>, step: &Planned, template: &ExpectedTemplate) {
    let makes = |before: &&Planned| {
        let made =
            if let Step::BuildTemplate { mark, .. } | Step::ConfigureTemplate { mark, .. } = &before.step {
                Some(mark)
            } else {
                None
            };
        made == Some(&template.mark)
    };
    if court.before(step).iter().any(makes) {
        return;
    }
    let Some(guest) = court.observed.guests.get(&template.vmid()) else {
        return court.violate(Rule::OursOnly, step, format!("there is no VM {}", template.vmid()));
    };
    if let Err(why) = proven(guest, template) {
        let problem = format!("template {} is not proven ours: {why}", template.vmid());
        court.violate(Rule::OursOnly, step, problem);
    }
}

fn proven(guest: &Guest, template: &ExpectedTemplate) -> Result<(), &'static str> {
    if guest.kind == GuestKind::Container {
        return Err("it is a container");
    }
    if guest.host != template.host {
        return Err("it is on another host");
    }
    if guest.lock.is_some() {
        return Err("it is locked");
    }
    if !guest.template && guest.power != Power::Stopped {
        return Err("it runs");
    }
    let Some(mark) = mark_of(guest) else { return Err("it has no template's mark") };
    if mark.vmid != guest.vmid {
        return Err("its mark was written for another VM");
    }
    if mark == template.mark { Ok(()) } else { Err("its mark is another one") }
}

fn mark_of(guest: &Guest) -> Option<TemplateMark> {
    let description = guest.seen()?.live.description()?;
    TemplateMark::parse(description.trim_end().lines().last()?.trim()).ok()
}

fn build(
    court: &mut Court<'_>,
    step: &Planned,
    mark: &TemplateMark,
    storage: &StorageId,
    set: &BTreeMap<String, String>,
) {
    if court.observed.guests.contains_key(&mark.vmid) {
        court.violate(Rule::OursOnly, step, format!("there is a guest {} already", mark.vmid));
    }
    if !court.desired.proxmox.template_vmid_range.contains(mark.vmid) {
        court.violate(Rule::OursOnly, step, format!("{} is not an id for templates", mark.vmid));
    }
    let twin = court.steps().iter().any(|other| {
        let template =
            if let Step::BuildTemplate { mark, .. } = &other.step { Some(mark.vmid) } else { None };
        let id = template.or_else(|| other.step.makes().map(|mark| mark.vmid));
        other.id != step.id && id == Some(mark.vmid)
    });
    if twin {
        court.violate(Rule::OursOnly, step, "another step makes the same VM");
    }
    let Step::BuildTemplate { host, .. } = &step.step else { return };
    let same = |guest: &&Guest| {
        guest.host == *host
            && mark_of(guest).is_some_and(|seen| seen.vmid == guest.vmid && seen.image == mark.image)
            && guest.seen().is_some_and(|seen| disk_on(&seen.live, storage))
    };
    if let Some(there) = court.observed.guests.values().find(same) {
        court.violate(Rule::OursOnly, step, format!("{} is that template already", there.vmid));
    }
    for (key, value) in set {
        let Some(slot) = Slot::parse(key).ok().filter(|slot| slot.holds_volume()) else { continue };
        let own = Disk::parse(value).is_ok_and(|disk| disk.source.volume().is_none());
        if !own {
            court.violate(Rule::OursOnly, step, format!("{slot} would hold a volume that is there already"));
        }
    }
}

fn disk_on(config: &VmConfig, storage: &StorageId) -> bool {
    let disk = config.get("scsi0").and_then(|text| Disk::parse(text).ok());
    disk.is_some_and(|disk| disk.source.volume().is_some_and(|volume| volume.storage() == storage))
}

/// A template goes only if asked for, with every volume named, and if no VM stands on its disks.
fn removal(court: &mut Court<'_>, step: &Planned, template: &ExpectedTemplate) {
    asked_for(court, step);
    if court.observed.depth != Depth::Everything {
        court.violate(Rule::OursOnly, step, "not every VM was looked at: one may stand on its disks");
    }
    let Some(seen) = court.observed.guests.get(&template.vmid()).and_then(Guest::seen) else { return };
    for volume in volumes(&seen.live).union(&volumes(&seen.next)) {
        if volume.owner() != Some(template.vmid()) {
            court.violate(Rule::Volumes, step, format!("{volume} belongs to another"));
        } else if !step.destroys.iter().any(|listed| listed.volume == *volume) {
            court.violate(Rule::Volumes, step, format!("{volume} would go and the plan does not say so"));
        }
    }
    let clone = court.observed.guests.values().find(|guest| stands_on(guest, template.vmid()));
    if let Some(clone) = clone {
        court.violate(Rule::Volumes, step, format!("VM {} stands on its disks", clone.vmid));
    }
}

fn volumes(config: &VmConfig) -> BTreeSet<VolumeId> {
    let drives = config.slots().filter(|(slot, _)| slot.holds_volume());
    let disks = drives
        .filter_map(|(_, text)| Disk::parse(text).ok())
        .filter(|disk| !disk.is_cdrom() || disk.is_cloud_init());
    disks.filter_map(|disk| disk.source.volume().cloned()).collect()
}

/// Whether a volume of the guest is named as a clone of one of the template's.
fn stands_on(guest: &Guest, template: VmId) -> bool {
    let base = format!("base-{template}-");
    let stands = |volume: &VolumeId| {
        volume.owner() == Some(guest.vmid)
            && volume.name().rsplit('/').skip(1).any(|part| part.starts_with(&base))
    };
    guest.vmid != template && guest.seen().is_some_and(|seen| volumes(&seen.live).iter().any(stands))
}
