//! Drives with configuration, and addresses it is fetched from: one of them for each VM at most, and none but ours are touched.

use std::collections::BTreeSet;

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::desired::{ConfigDelivery, NetworkMode, OUR_SEEDS};

use super::{Court, Rule};
use crate::{Expected, Guest, Planned, Seen, Step};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        if let Step::AttachSeed { vm, .. } = &step.step {
            attach(court, step, vm);
        }
        if let Step::EjectSeed { vm, volume, .. } = &step.step {
            eject(court, step, vm, volume);
        }
        if let Step::RemoveSeed { volume, .. } = &step.step {
            remove(court, step, volume);
        }
        if let Step::PublishConfig { vm, .. } = &step.step {
            publish(court, step, vm);
        }
        if let Step::WithdrawConfig { vm, .. } = &step.step
            && !fetches(court, vm)
        {
            court.violate(Rule::OursOnly, step, "this VM has no address of its configuration");
        }
        if let Step::ConfigureVm { vm, set, .. } = &step.step
            && set.values().any(|value| makes_cloud_init(value))
        {
            if drives(court, vm).iter().any(is_seed) {
                court.violate(Rule::OneDrive, step, "a cloud-init drive would be beside a drive of ours");
            }
            if fetches(court, vm) {
                court.violate(
                    Rule::OneDrive,
                    step,
                    "the VM fetches its configuration: it would not read a drive",
                );
            }
        }
    }
}

/// Only where the description wants it so, and where there is no other.
fn attach(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    if court.desired.talos.config_delivery != ConfigDelivery::Cidata {
        court.violate(Rule::AskedFor, step, "configuration does not come by drive in this description");
    }
    if gets_or_has_drive(court, step, vm) {
        court.violate(Rule::OneDrive, step, "the VM has a drive with configuration already");
    }
    let withdrawn = court.before(step).iter().any(
        |before| matches!(&before.step, Step::WithdrawConfig { vm: other, .. } if other.vmid() == vm.vmid()),
    );
    if fetches(court, vm) && !withdrawn {
        court.violate(Rule::OneDrive, step, "the VM fetches its configuration: it would not read a drive");
    }
}

/// Only where the description wants it so, where no drive is in the way, and where the machine has an address to fetch it by.
fn publish(court: &mut Court<'_>, step: &Planned, vm: &Expected) {
    if court.desired.talos.config_delivery != ConfigDelivery::Url {
        court.violate(Rule::AskedFor, step, "configuration does not come by URL in this description");
    }
    if gets_or_has_drive(court, step, vm) {
        court.violate(Rule::OneDrive, step, "the VM has a drive with configuration already");
    }
    if court.node(&vm.mark.node).is_none_or(|node| node.vm.network_mode != NetworkMode::Dhcp) {
        let problem = "without DHCP its machine has no address to fetch its configuration by";
        court.violate(Rule::WellFormed, step, problem);
    }
}

/// Whether a VM has a drive with configuration when a step is taken.
fn gets_or_has_drive(court: &Court<'_>, step: &Planned, vm: &Expected) -> bool {
    let gets_another = court.before(step).iter().any(|before| {
        let (id, set) = if let Step::ConfigureVm { vm, set, .. } = &before.step {
            (vm.vmid(), set)
        } else if let Step::CreateVm { mark, set, .. } = &before.step {
            (mark.vmid, set)
        } else {
            return false;
        };
        id == vm.vmid() && set.values().any(|value| makes_cloud_init(value))
    });
    // What this plan takes away before is no longer there.
    let gone: BTreeSet<&str> = court
        .before(step)
        .into_iter()
        .filter_map(|before| {
            let Step::ConfigureVm { vm: other, delete, .. } = &before.step else { return None };
            (other.vmid() == vm.vmid()).then_some(delete)
        })
        .flatten()
        .map(String::as_str)
        .collect();
    let has_another = slots(court, vm)
        .iter()
        .any(|(slot, disk)| !gone.contains(slot.as_str()) && (disk.is_cloud_init() || is_seed(disk)));
    gets_another || has_another
}

fn eject(court: &mut Court<'_>, step: &Planned, vm: &Expected, volume: &VolumeId) {
    let held = drives(court, vm).iter().any(|disk| disk.source.volume() == Some(volume));
    if !held || !volume.file_name().starts_with(OUR_SEEDS) {
        court.violate(Rule::OursOnly, step, format!("{volume} is no drive of ours in this VM"));
    }
}

fn remove(court: &mut Court<'_>, step: &Planned, volume: &VolumeId) {
    let own = court.desired.uid.as_ref().map(|uid| format!("{OUR_SEEDS}{uid}-"));
    if !own.is_some_and(|own| volume.file_name().starts_with(&own)) {
        court.violate(Rule::OursOnly, step, format!("{volume} is not this cluster's"));
    }
    let before = court.before(step);
    let goes = |guest: &Guest| {
        let removes =
            |before: &&Planned| matches!(&before.step, Step::RemoveVm { vm, .. } if vm.vmid() == guest.vmid);
        before.iter().any(removes)
    };
    let uses = |guest: &Guest| match &guest.config {
        Seen::Read(_) if goes(guest) => false,
        Seen::Read(seen) => disks(&seen.live).any(|(_, disk)| disk.source.volume() == Some(volume)),
        Seen::NotAsked | Seen::Unreadable(_) => false,
    };
    if court.observed.guests.values().any(uses) {
        court.violate(Rule::OursOnly, step, format!("a VM has {volume}"));
    }
}

fn is_seed(disk: &Disk) -> bool {
    disk.source.volume().is_some_and(|volume| volume.file_name().starts_with(OUR_SEEDS))
}

fn makes_cloud_init(value: &str) -> bool {
    Disk::parse(value).is_ok_and(|disk| disk.is_cloud_init())
}

fn disks(config: &VmConfig) -> impl Iterator<Item = (String, Disk)> + '_ {
    let drives = config.slots().filter(|(slot, _)| slot.is_drive());
    drives.filter_map(|(slot, text)| Some((slot.to_string(), Disk::parse(text).ok()?)))
}

/// Whether a VM has, or after a restart will have, an address its machine fetches its configuration from.
fn fetches(court: &Court<'_>, vm: &Expected) -> bool {
    let Some(Seen::Read(seen)) = court.observed.guests.get(&vm.vmid()).map(|guest| &guest.config) else {
        return false;
    };
    let serial = seen.next.smbios().ok().flatten().and_then(|smbios| smbios.serial).unwrap_or_default();
    serial.split(';').any(|word| word == "ds=nocloud-net")
}

/// Drives of a VM that was looked at; one that this plan makes has none yet.
fn slots(court: &Court<'_>, vm: &Expected) -> Vec<(String, Disk)> {
    let guest = court.observed.guests.get(&vm.vmid());
    match guest.map(|guest| &guest.config) {
        Some(Seen::Read(seen)) => disks(&seen.live).collect(),
        Some(Seen::NotAsked | Seen::Unreadable(_)) | None => Vec::new(),
    }
}

fn drives(court: &Court<'_>, vm: &Expected) -> Vec<Disk> {
    slots(court, vm).into_iter().map(|(_, disk)| disk).collect()
}
