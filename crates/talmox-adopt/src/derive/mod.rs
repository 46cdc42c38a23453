//! What the description would have to say of a node for its VM to be as described.
//!
//! Only what differs is written. What the description has no word for is left to the caller, who sees it in the plan.

mod devices;
mod drives;
mod options;

pub(crate) use options::written as options_written;

use talmox_config::edit::{Setting, Yaml};
use talmox_plan::Guest;
use talmox_pve::property::{Boot, Disk, Slot, VmConfig};
use talmox_types::desired::{Desired, DiskBus, DriftPolicy, Node};

/// A VM and the node it shall be.
pub(crate) struct Subject<'a> {
    pub(crate) desired: &'a Desired,
    pub(crate) node: &'a Node,
    pub(crate) guest: &'a Guest,
    /// As it will be after its next restart.
    pub(crate) config: &'a VmConfig,
    /// Keys of the first network device that a list decides.
    pub(crate) first_device: Vec<&'static str>,
    pub(crate) system: System,
}

/// The disk the VM boots from.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) bus: DiskBus,
    pub(crate) disk: Disk,
}

/// What is to be written.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) settings: Vec<Setting>,
    /// Fields that cannot be said and are to be left alone.
    left: Vec<&'static str>,
}

impl Wanted {
    fn value(&mut self, key: &'static str, value: Yaml) {
        self.settings.push(Setting::Value { key, value });
    }

    fn number(&mut self, key: &'static str, number: u64) {
        self.value(key, Yaml::Integer(i64::try_from(number).unwrap_or(i64::MAX)));
    }

    fn leave(&mut self, field: &'static str) {
        self.left.push(field);
    }
}

/// What to write so that this VM is as described.
pub(crate) fn derive(subject: &Subject<'_>) -> Vec<Setting> {
    let mut wanted = Wanted::default();
    options::derive(subject, &mut wanted);
    drives::derive(subject, &mut wanted);
    devices::derive(subject, &mut wanted);
    let Wanted { mut settings, left } = wanted;
    settings.extend(leaving(subject.desired, subject.node, left.into_iter().map(str::to_owned)));
    settings
}

/// The setting that has fields left alone; none if they are already.
pub(crate) fn leaving(
    desired: &Desired,
    node: &Node,
    fields: impl IntoIterator<Item = String>,
) -> Option<Setting> {
    let mut fields: Vec<String> = fields.into_iter().filter(|field| !is_left(desired, node, field)).collect();
    fields.sort();
    fields.dedup();
    let entries: Vec<(String, Yaml)> =
        fields.into_iter().map(|field| (field, Yaml::text("ignore"))).collect();
    (!entries.is_empty()).then_some(Setting::Entries { key: "drift", entries })
}

fn is_left(desired: &Desired, node: &Node, field: &str) -> bool {
    match node.vm.drift.get(field) {
        Some(policy) => *policy != DriftPolicy::Correct,
        None => desired.proxmox.ignore_drift.iter().any(|ignored| ignored == field),
    }
}

/// The disk a VM boots from: the first in its boot order, or the first there is.
pub(crate) fn system_disk(config: &VmConfig) -> Result<System, String> {
    let disks = config.disks().unwrap_or_default();
    let is_disk =
        |slot: &Slot| disks.get(slot).is_some_and(|disk| !disk.is_cdrom() && disk.source.volume().is_some());
    let ordered = match config.boot() {
        Ok(Some(Boot::Order(order))) => order.into_iter().find(is_disk),
        _ => config.get("bootdisk").and_then(|key| Slot::parse(key).ok()).filter(is_disk),
    };
    let slot = ordered.or_else(|| disks.keys().copied().find(is_disk)).ok_or("it has no disk")?;
    let buses = [DiskBus::Virtio, DiskBus::Sata, DiskBus::Ide];
    let of_kind = |bus: &DiskBus| bus.first_slot().starts_with(slot.kind().prefix());
    let bus = buses.into_iter().find(of_kind).unwrap_or(DiskBus::Scsi);
    if slot.index() != 0 {
        return Err(format!(
            "it boots from {slot}, and a description has the system disk at {}",
            bus.first_slot()
        ));
    }
    Ok(System { bus, disk: disks[&slot].clone() })
}
