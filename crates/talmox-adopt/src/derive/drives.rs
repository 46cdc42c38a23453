//! Disks, EFI variables and TPM.

use talmox_config::edit::{Item, Setting, Yaml};
use talmox_plan::DriveOptions;
use talmox_pve::property::{Disk, DiskSize, EfiType, SlotKind, TpmVersion};
use talmox_types::StorageId;
use talmox_types::desired::{DiskBus, ExtraDisk};

use super::{Subject, System, Wanted};

/// What a description takes for the size of the system disk.
const SYSTEM_GIB: std::ops::RangeInclusive<u64> = 10..=65_536;
/// And for that of others.
const EXTRA_GIB: std::ops::RangeInclusive<u64> = 1..=65_536;

pub(super) fn derive(subject: &Subject<'_>, wanted: &mut Wanted) {
    system(subject, wanted);
    options(subject, wanted);
    extra(subject, wanted);
    made_once(subject, wanted);
}

fn system(subject: &Subject<'_>, wanted: &mut Wanted) {
    let System { bus, disk } = &subject.system;
    let vm = &subject.node.vm;
    if *bus != vm.disk_bus {
        let word = bus.first_slot().trim_end_matches('0');
        wanted.value("disk_bus", Yaml::text(word));
    }
    if let Some(storage) = storage_of(disk).filter(|storage| **storage != vm.storage) {
        wanted.value("proxmox_storage", Yaml::text(storage));
    }
    let Some(size) = disk.size else { return };
    match whole_gib(size).filter(|gib| SYSTEM_GIB.contains(gib)) {
        Some(gib) if gib == u64::from(vm.disk_size) => {}
        Some(gib) => wanted.number("vm_disk_size", gib),
        // A size between two numbers, or too small to be said.
        None => wanted.leave("vm_disk_size"),
    }
}

fn storage_of(disk: &Disk) -> Option<&StorageId> {
    disk.source.volume().map(talmox_pve::property::VolumeId::storage)
}

fn whole_gib(size: DiskSize) -> Option<u64> {
    let gib = size.gib_rounded_up();
    (DiskSize::from_gib(gib) == size).then_some(gib)
}

/// Options of the system disk are those of all of the node's.
fn options(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (described, have) = (subject.node.vm.disk_options, DriveOptions::of(&subject.system.disk));
    // A virtio disk cannot say whether it is an SSD.
    let says_ssd = subject.system.bus != DiskBus::Virtio;
    let mut others = Vec::new();
    for disk in &subject.node.vm.extra_disks {
        let held = subject.config.get(&format!("scsi{}", disk.slot)).and_then(|text| Disk::parse(text).ok());
        others.extend(held.map(|held| DriveOptions::of(&held)));
    }
    for (field, have, described, get, counts) in [
        ("disk_discard", have.discard, described.discard, discard as fn(DriveOptions) -> bool, true),
        ("disk_ssd", have.ssd, described.ssd, ssd, says_ssd),
        ("disk_backup", have.backup, described.backup, backup, true),
        ("disk_replicate", have.replicate, described.replicate, replicate, true),
    ] {
        if counts && have != described {
            wanted.value(field, Yaml::Bool(have));
        }
        let settled = if counts { have } else { described };
        if others.iter().any(|other| get(*other) != settled) {
            wanted.leave(field);
        }
    }
}

fn discard(options: DriveOptions) -> bool {
    options.discard
}

fn ssd(options: DriveOptions) -> bool {
    options.ssd
}

fn backup(options: DriveOptions) -> bool {
    options.backup
}

fn replicate(options: DriveOptions) -> bool {
    options.replicate
}

/// Disks beside the system disk. Those that are new to the description are to survive the VM: they are somebody's data.
fn extra(subject: &Subject<'_>, wanted: &mut Wanted) {
    let declared = &subject.node.vm.extra_disks;
    let mut items: Vec<Item> = Vec::new();
    for disk in declared {
        let key = format!("scsi{}", disk.slot);
        let held = subject.config.get(&key).and_then(|text| Disk::parse(text).ok());
        items.push(declared_disk(disk, held.as_ref(), wanted));
    }
    let disks = subject.config.disks().unwrap_or_default();
    for (slot, disk) in &disks {
        let is_new = slot.kind() == SlotKind::Scsi
            && slot.index() > 0
            && declared.iter().all(|declared| declared.slot != slot.index());
        let own =
            disk.source.volume().and_then(talmox_pve::property::VolumeId::owner) == Some(subject.guest.vmid);
        if is_new && own && !disk.is_cdrom() && same_options(subject, disk) {
            items.extend(new_disk(slot.index(), disk));
        }
    }
    if items.iter().any(|item| !item.changed.is_empty()) {
        items.sort_by_key(|item| item.slot);
        wanted.settings.push(Setting::Items { key: "vm_disks", items });
    }
}

/// What a node's disks have in common is said once: a disk that differs is left undeclared, and left alone.
fn same_options(subject: &Subject<'_>, disk: &Disk) -> bool {
    let (system, own) = (DriveOptions::of(&subject.system.disk), DriveOptions::of(disk));
    let ssd =
        if subject.system.bus == DiskBus::Virtio { subject.node.vm.disk_options.ssd } else { system.ssd };
    own == DriveOptions { ssd, ..system }
}

fn declared_disk(described: &ExtraDisk, held: Option<&Disk>, wanted: &mut Wanted) -> Item {
    let mut changed = Vec::new();
    let (mut size, mut storage) = (u64::from(described.size), described.storage.clone());
    if let Some(held) = held {
        match held.size.and_then(whole_gib).filter(|gib| EXTRA_GIB.contains(gib)) {
            Some(gib) if gib != size => {
                size = gib;
                changed.push("size");
            }
            Some(_) => {}
            None => wanted.leave("vm_disks"),
        }
        if let Some(have) = storage_of(held).filter(|have| **have != storage) {
            storage = have.clone();
            changed.push("storage");
        }
    }
    let mut entries = vec![("size", integer(size)), ("storage", Yaml::text(&storage))];
    if described.keep {
        entries.push(("keep", Yaml::Bool(true)));
    }
    entries.extend(described.mount.as_ref().map(|mount| ("mount", Yaml::text(mount))));
    Item { slot: described.slot, entries, changed }
}

fn new_disk(slot: u8, disk: &Disk) -> Option<Item> {
    let gib = disk.size.and_then(whole_gib).filter(|gib| EXTRA_GIB.contains(gib))?;
    let entries =
        vec![("size", integer(gib)), ("storage", Yaml::text(storage_of(disk)?)), ("keep", Yaml::Bool(true))];
    Some(Item { slot, entries, changed: vec!["size", "storage", "keep"] })
}

fn integer(number: u64) -> Yaml {
    Yaml::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What a VM gets when it is made and not later.
fn made_once(subject: &Subject<'_>, wanted: &mut Wanted) {
    let (vm, config) = (&subject.node.vm, subject.config);
    let efi = config.efi_disk().ok().flatten();
    if config.get("bios") == Some("ovmf") && efi.is_none_or(|disk| disk.efitype != Some(EfiType::FourMeg)) {
        wanted.leave("efi_disk");
    }
    let tpm = config.tpm_state().ok().flatten();
    let is_two = tpm.as_ref().is_some_and(|tpm| tpm.version == Some(TpmVersion::TwoZero));
    if is_two != vm.tpm {
        if tpm.is_some() && !is_two {
            wanted.leave("tpm");
        } else {
            wanted.value("tpm", Yaml::Bool(is_two));
        }
    }
}
