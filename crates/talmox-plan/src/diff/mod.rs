//! What differs between a VM as it is wanted and as it is.
//!
//! Values compare by meaning and disks and NICs by slot. The description decides some options of a device and not
//! others: those it does not decide stay as they are, and whole devices it does not name are left alone. Nothing is a
//! difference because of spelling, order, or what Proxmox itself adds.

mod devices;
mod drives;
mod options;
mod policy;
mod sub;

pub(crate) use options::decided;
pub(crate) use policy::Policies;
pub(crate) use sub::sub_changes;

use talmox_pve::property::{DiskSize, Slot, VmConfig};
use talmox_types::StorageId;
use talmox_types::desired::{DriftPolicy, Node};

use crate::{Applies, Change, DriveOptions};

/// What a VM is compared with.
pub(crate) struct Subject<'a> {
    pub node: &'a Node,
    /// As the description wants it.
    pub wanted: &'a VmConfig,
    /// As it will be after its next restart.
    pub have: &'a VmConfig,
    pub state: State,
    /// What is left alone though it differs.
    pub policies: &'a Policies<'a>,
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

    /// Leaves out what is to be left alone as a whole; single options of devices were left alone before.
    pub(crate) fn leave_alone(&mut self, policies: &Policies<'_>) {
        let keep = |field: Option<&str>| !field.is_some_and(|field| policies.leaves(field));
        self.values.retain(|Difference { change, .. }| {
            let options = change.sub.iter().map(|sub| sub.field.as_deref());
            if change.sub.is_empty() { keep(change.field.as_deref()) } else { options.into_iter().any(keep) }
        });
        self.growths.retain(|growth| keep(Some(size_field(growth.slot))));
        self.new_disks.retain(|_| keep(Some("vm_disks")));
        self.impossible.retain(|problem| keep(Some(problem.field)));
    }

    /// What differs and is only to be shown, in words.
    pub(crate) fn shown(&self, policies: &Policies<'_>) -> Vec<String> {
        let shows = |field: Option<&str>| field.is_some_and(|field| policies.of(field) == DriftPolicy::Show);
        let mut told = Vec::new();
        for Difference { change, .. } in &self.values {
            let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
            if change.sub.is_empty() && shows(change.field.as_deref()) {
                told.push(format!("{} {}, described {}", change.key, word(&change.old), word(&change.new)));
            }
            for sub in change.sub.iter().filter(|sub| shows(sub.field.as_deref())) {
                let (option, old, new) = (&sub.option, word(&sub.old), word(&sub.new));
                told.push(format!("{} {option} {old}, described {new}", change.key));
            }
        }
        let growths = self.growths.iter().filter(|growth| shows(Some(size_field(growth.slot))));
        told.extend(growths.map(|growth| {
            let now = growth.from.map(|from| format!(" {from},")).unwrap_or_default();
            format!("{}{now} described {}", growth.slot, growth.to)
        }));
        let disks = self.new_disks.iter().filter(|_| shows(Some("vm_disks")));
        told.extend(disks.map(|disk| format!("{} not there, described {}", disk.slot, disk.size)));
        let problems = self.impossible.iter().filter(|problem| shows(Some(problem.field)));
        told.extend(problems.map(|problem| problem.problem.clone()));
        told
    }
}

/// Compares a VM with what is wanted.
pub(crate) fn differences(subject: &Subject<'_>) -> Differences {
    let mut found = Differences::default();
    let masked = subject.policies.masked(subject.wanted, subject.have);
    let subject = &Subject { wanted: &masked, ..*subject };
    options::compare(subject, &mut found);
    devices::compare(subject, &mut found);
    drives::compare(subject, &mut found);
    for difference in &mut found.values {
        difference.explain();
    }
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
        let change = Change { key: key.to_owned(), old, new, applies, field, sub: Vec::new() };
        Self { change, how, replugs: false }
    }

    /// Says which options differ, and which field decides them.
    fn explain(&mut self) {
        let Change { key, old, new, field, sub, .. } = &mut self.change;
        *sub = sub_changes(key, old.as_deref(), new.as_deref());
        for option in sub.iter_mut().filter(|option| option.field.is_none()) {
            option.field.clone_from(field);
        }
        if let Some(first) = sub.first() {
            field.clone_from(&first.field);
        }
    }
}
