//! Templates somebody else made: which are meant, and whether they will do.

use std::collections::BTreeSet;

use talmox_pve::property::{Boot, Disk, Slot, SlotKind, VmConfig};
use talmox_types::desired::TemplateRef;
use talmox_types::{HostName, StorageId, VmId};

use crate::{Guest, GuestKind, Observed, Seen};

/// A VM that a description names as a template, usable or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTemplate {
    pub vmid: VmId,
    pub host: HostName,
    pub name: String,
    /// Where its disks are.
    pub storages: BTreeSet<StorageId>,
    pub boot_disk: Option<Slot>,
    /// Why nothing can be cloned from it.
    pub unusable: Option<Unusable>,
}

/// Why a VM will not do as a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is an ordinary VM of that name.
    NoTemplate,
    /// Nobody knows what is in it.
    Unreadable(String),
    /// Proxmox is busy with it.
    Locked(String),
    NoBootDisk,
    /// Its disk is where Talos does not look for one.
    Bus(Slot),
}

impl Unusable {
    /// `is no template`, and what to do about it.
    pub fn words(&self, template: &NamedTemplate) -> (String, String) {
        let NamedTemplate { vmid, host, .. } = template;
        match self {
            Self::NoTemplate => {
                ("is no template".to_owned(), format!("on {host}, if it may become one: qm template {vmid}"))
            }
            Self::Unreadable(reason) => (
                format!("cannot be read: {reason}"),
                "its host may be down, or the token may lack VM.Audit".to_owned(),
            ),
            Self::Locked(lock) => {
                (format!("is locked ({lock})"), "wait until Proxmox is done with it".to_owned())
            }
            Self::NoBootDisk => (
                "has no disk to boot from".to_owned(),
                format!(
                    "on {host}: qm config {vmid} shows what it has, qm set {vmid} --boot order=… what it boots from"
                ),
            ),
            Self::Bus(slot) => (
                format!("boots from {slot}"),
                "a template's disk is on a scsi, virtio or sata bus".to_owned(),
            ),
        }
    }
}

/// Every VM that is meant, templates first, by id. A VM that merely has the name is told too: it explains why there is no
/// template.
pub fn named_templates(observed: &Observed, wanted: &TemplateRef) -> Vec<NamedTemplate> {
    let vms = observed.guests.values().filter(|guest| guest.kind == GuestKind::Vm);
    let mut found: Vec<NamedTemplate> = vms.filter(|guest| is_meant(wanted, guest)).map(look).collect();
    found.sort_by_key(|template| (template.unusable == Some(Unusable::NoTemplate), template.vmid));
    found
}

/// In words: `talos`, `with VMID 9000`.
pub fn described_template(wanted: &TemplateRef) -> String {
    match wanted {
        TemplateRef::Name(name) => name.clone(),
        TemplateRef::Id(id) => format!("with VMID {id}"),
        TemplateRef::Tagged { name, tags } => {
            let tags = tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let name = name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            format!("{name}with the tags {tags}")
        }
    }
}

/// Whether a VM is a template that the reference names. One that is declared by its id counts even if it is no template:
/// that is worth a refusal of its own.
pub fn is_template_in_use(wanted: &TemplateRef, guest: &Guest) -> bool {
    match wanted {
        TemplateRef::Id(id) => *id == guest.vmid,
        TemplateRef::Name(name) => guest.template && guest.name.as_deref() == Some(name),
        TemplateRef::Tagged { name, tags } => {
            guest.template
                && name.as_ref().is_none_or(|name| guest.name.as_ref() == Some(name))
                && tags.iter().all(|tag| guest.tags.iter().any(|own| own.eq_ignore_ascii_case(tag.as_str())))
        }
    }
}

fn is_meant(wanted: &TemplateRef, guest: &Guest) -> bool {
    match wanted {
        TemplateRef::Id(id) => guest.vmid == *id,
        TemplateRef::Name(name) => guest.name.as_deref() == Some(name),
        TemplateRef::Tagged { name, tags } => {
            let named = name.as_deref().is_none_or(|name| guest.name.as_deref() == Some(name));
            // A tag alone is no name: VMs cloned from a template may well carry it.
            let counts = guest.template || name.is_some();
            counts && named && tags.iter().all(|tag| guest.tags.contains(&tag.as_str().to_ascii_lowercase()))
        }
    }
}

fn look(guest: &Guest) -> NamedTemplate {
    let config = guest.seen().map(|seen| &seen.next);
    let boot_disk = config.and_then(boot_disk);
    NamedTemplate {
        vmid: guest.vmid,
        host: guest.host.clone(),
        name: guest.name.clone().unwrap_or_else(|| guest.vmid.to_string()),
        storages: config.map(storages).unwrap_or_default(),
        boot_disk,
        unusable: unusable(guest, boot_disk),
    }
}

fn unusable(guest: &Guest, boot_disk: Option<Slot>) -> Option<Unusable> {
    if !guest.template {
        return Some(Unusable::NoTemplate);
    }
    if let Some(lock) = &guest.lock {
        return Some(Unusable::Locked(lock.clone()));
    }
    match (&guest.config, boot_disk) {
        (Seen::NotAsked, _) => Some(Unusable::Unreadable("it was not looked at".to_owned())),
        (Seen::Unreadable(reason), _) => Some(Unusable::Unreadable(reason.clone())),
        (Seen::Read(_), None) => Some(Unusable::NoBootDisk),
        (Seen::Read(_), Some(slot)) if slot.kind() == SlotKind::Ide => Some(Unusable::Bus(slot)),
        (Seen::Read(_), Some(_)) => None,
    }
}

/// The first disk of the boot order; without one, the first disk there is.
fn boot_disk(config: &VmConfig) -> Option<Slot> {
    let is_disk = |slot: &Slot| disks(config).any(|(known, _)| known == *slot);
    let listed = match config.boot() {
        Ok(Some(Boot::Order(slots))) => slots.into_iter().find(is_disk),
        Ok(Some(Boot::Legacy(_)) | None) | Err(_) => {
            config.get("bootdisk").and_then(|text| Slot::parse(text).ok()).filter(is_disk)
        }
    };
    let (fast, slow): (Vec<Slot>, Vec<Slot>) =
        disks(config).map(|(slot, _)| slot).partition(|slot| slot.kind() != SlotKind::Ide);
    listed.or_else(|| fast.into_iter().chain(slow).min_by_key(|slot| (slot.kind() == SlotKind::Ide, *slot)))
}

fn storages(config: &VmConfig) -> BTreeSet<StorageId> {
    disks(config).filter_map(|(_, disk)| Some(disk.source.volume()?.storage().clone())).collect()
}

/// Disks on a bus; CDs and cloud-init drives are none.
fn disks(config: &VmConfig) -> impl Iterator<Item = (Slot, Disk)> {
    let drives = config.slots().filter(|(slot, _)| slot.is_drive());
    let disks = drives.filter_map(|(slot, text)| Some((slot, Disk::parse(text).ok()?)));
    disks.filter(|(_, disk)| !disk.is_cdrom() && !disk.is_cloud_init())
}
