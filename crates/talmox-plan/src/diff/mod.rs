//! What differs between a VM as it is wanted and as it is.
//!
//! Values compare by meaning and disks and NICs by slot. The description decides some options of a device and not
//! others: those it does not decide stay as they are, and whole devices it does not name are left alone. Nothing is a
//! difference because of spelling, order, or what Proxmox itself adds.

mod devices;
mod drives;
mod options;

pub(crate) use options::decided;

use std::collections::BTreeSet;

use talmox_pve::property::{DiskSize, Slot, VmConfig};
use talmox_types::StorageId;
use talmox_types::desired::Node;

use crate::{Applies, Change, DriveOptions};

/// What a VM is compared with.
pub(crate) struct Subject<'a> {
    pub node: &'a Node,
    /// As the description wants it.
    pub wanted: &'a VmConfig,
    /// As it will be after its next restart.
    pub have: &'a VmConfig,
    pub state: State,
}

/// Whether anything notices a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has just been cloned: nothing on it is anybody's but the template's.
    Fresh,
    Stopped,
    Running,
}

/// A value to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub change: Change,
    pub how: How,
    /// Proxmox would do it at once by taking the device away and putting it back.
    pub replugs: bool,
}

/// What a change of the configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Set(String),
    Delete,
    Drive(Slot, DriveOptions),
    Witness,
}

/// A disk that is larger in the description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Growth {
    pub slot: Slot,
    /// None: not known before it is made.
    pub from: Option<DiskSize>,
    pub to: DiskSize,
}

/// A disk that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewDisk {
    pub slot: Slot,
    pub storage: StorageId,
    pub size: DiskSize,
    pub value: String,
}

/// What cannot be changed, and what can be done instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impossible {
    pub key: String,
    pub field: &'static str,
    pub problem: String,
    pub choices: Vec<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    pub values: Vec<Difference>,
    pub growths: Vec<Growth>,
    pub new_disks: Vec<NewDisk>,
    pub impossible: Vec<Impossible>,
    /// Devices nobody declared, as `scsi3: local-zfs:vm-9999-pvc-1,size=8G`.
    pub foreign: Vec<String>,
}

impl Differences {
    /// Whether this key is among the values that differ.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.values.iter().any(|difference| difference.change.key == key)
    }

    /// Leaves out what the description tells to leave alone; gives the keys left out.
    pub(crate) fn ignore(&mut self, fields: &[String]) -> BTreeSet<String> {
        let mut ignored = BTreeSet::new();
        let mut keep = |key: &str, field: Option<&str>| {
            let named = field.is_some_and(|field| fields.iter().any(|ignored| ignored == field));
            if named {
                ignored.insert(key.to_owned());
            }
            !named
        };
        self.values.retain(|value| keep(&value.change.key, value.change.field.as_deref()));
        self.growths.retain(|growth| keep(&growth.slot.to_string(), Some(size_field(growth.slot))));
        self.new_disks.retain(|disk| keep(&disk.slot.to_string(), Some("vm_disks")));
        self.impossible.retain(|problem| keep(&problem.key, Some(problem.field)));
        ignored
    }
}

/// Compares a VM with what is wanted.
pub(crate) fn differences(subject: &Subject<'_>) -> Differences {
    let mut found = Differences::default();
    options::compare(subject, &mut found);
    devices::compare(subject, &mut found);
    drives::compare(subject, &mut found);
    found
}

/// The field that gives a disk its size.
pub(crate) fn size_field(slot: Slot) -> &'static str {
    if slot.index() == 0 { "vm_disk_size" } else { "vm_disks" }
}

impl Subject<'_> {
    /// When a change takes effect that needs a restart.
    fn restart(&self) -> Applies {
        if self.state == State::Running { Applies::AfterReboot } else { Applies::Now }
    }

    /// When a change takes effect that Proxmox makes while the VM runs if it may plug such devices.
    fn plug(&self, devices: &str) -> Applies {
        let hotplug = self.have.get("hotplug").unwrap_or("1");
        let plugs = match hotplug {
            "0" => false,
            "1" => matches!(devices, "network" | "disk" | "usb"),
            list => list.split([',', ';', ' ']).any(|word| word == devices),
        };
        if plugs { Applies::Now } else { self.restart() }
    }
}

impl Difference {
    /// The second witness, written where it is missing.
    pub(crate) fn witness(applies: Applies) -> Self {
        Self::new("smbios1", "cluster_uid", None, How::Witness, applies)
    }

    fn new(key: &str, field: &str, old: Option<String>, how: How, applies: Applies) -> Self {
        let new = match &how {
            How::Set(text) => Some(text.clone()),
            How::Delete | How::Drive(..) | How::Witness => None,
        };
        let field = Some(field.to_owned());
        let change = Change { key: key.to_owned(), old, new, applies, field };
        Self { change, how, replugs: false }
    }
}
