//! Disks, the EFI disk, the TPM state and the cloud-init drive.

use talmox_pve::property::{Disk, DiskSize, DriveSource, EfiType, Media, Slot, SlotKind};
use talmox_types::{Mark, StorageId, VmId};

use super::{Difference, Differences, Growth, How, Impossible, NewDisk, State, Subject, size_field};
use crate::{Applies, DriveOptions};

pub(super) fn compare(subject: &Subject<'_>, found: &mut Differences) {
    for (slot, wanted) in subject.wanted.disks().unwrap_or_default() {
        if !wanted.is_cdrom() {
            disk(subject, found, slot, &wanted);
        }
    }
    cloud_init(subject, found);
    efi_disk(subject, found);
    tpm_state(subject, found);
    foreign(subject, found);
}

fn disk(subject: &Subject<'_>, found: &mut Differences, slot: Slot, wanted: &Disk) {
    let key = slot.to_string();
    let Some(have) = subject.have.get(&key).and_then(|text| Disk::parse(text).ok()) else {
        return missing_disk(subject, found, slot, wanted);
    };
    if let Some(owner) = another_owner(subject, &have) {
        found.impossible.push(anothers(subject, slot, &have, owner));
        return;
    }
    let (storage, size) = (wanted_storage(wanted), wanted.size.unwrap_or_default());
    if let (Some(wanted), Some(volume)) = (&storage, have.source.volume())
        && volume.storage() != wanted
    {
        found.impossible.push(other_storage(subject, slot, volume.storage(), wanted));
    }
    match have.size {
        Some(from) if from < size => found.growths.push(Growth { slot, from: Some(from), to: size }),
        // How large a disk is that is yet to be copied from an image, only the image knows.
        None if subject.state == State::Fresh => found.growths.push(Growth { slot, from: None, to: size }),
        Some(from) if from > size => found.impossible.push(shrinking(subject, slot, from, size)),
        _ => {}
    }
    let decided = decided_options(subject, slot, &have);
    let new = decided.on(&have);
    if !new.same_options(&have) {
        let old = subject.have.get(&key).map(str::to_owned);
        let applies = disk_applies(subject, &have, &new);
        let mut difference = Difference::new(&key, "disk_discard", old, How::Drive(slot, decided), applies);
        difference.change.new = Some(new.to_string());
        found.values.push(difference);
    }
}

/// Whose the volume is, if it is not the VM's own: a storage driver hangs those in any free slot. What is yet to be cloned
/// still shows the template's.
fn another_owner(subject: &Subject<'_>, have: &Disk) -> Option<VmId> {
    let own = subject.wanted.description().and_then(Mark::of_description)?.vmid;
    let owner = have.source.volume()?.owner()?;
    (subject.state != State::Fresh && owner != own).then_some(owner)
}

fn anothers(subject: &Subject<'_>, slot: Slot, have: &Disk, owner: VmId) -> Impossible {
    let volume = have.source.volume().map(ToString::to_string).unwrap_or_default();
    let vmid = vmid(subject);
    let first = if slot.index() == 0 {
        format!("attach its own system disk: qm set {vmid} --{slot} VOLUME")
    } else {
        "name another slot for the disk in vm_disks".to_owned()
    };
    Impossible {
        key: slot.to_string(),
        // No policy can leave this alone: it is somebody else's data.
        field: "",
        problem: format!("{slot} holds {volume}, which belongs to {owner} and not to VM {vmid}"),
        choices: vec![first, format!("if nobody needs it there: qm set {vmid} --delete {slot}")],
    }
}

fn wanted_storage(wanted: &Disk) -> Option<StorageId> {
    wanted.source.volume().map(|volume| volume.storage().clone())
}

fn decided_options(subject: &Subject<'_>, slot: Slot, have: &Disk) -> DriveOptions {
    let options = subject.node.vm.disk_options;
    let wanted = DriveOptions {
        discard: options.discard,
        // A virtio disk has no such option.
        ssd: options.ssd && slot.kind() != SlotKind::Virtio,
        backup: options.backup,
        replicate: options.replicate,
    };
    subject.policies.drive(wanted, have)
}

/// Whether a disk is in backups is Proxmox's business; what the guest sees of it needs a restart.
fn disk_applies(subject: &Subject<'_>, have: &Disk, new: &Disk) -> Applies {
    let guest_sees = Disk { backup: have.backup, replicate: have.replicate, ..new.clone() };
    if guest_sees.same_options(have) { subject.plug("disk") } else { subject.restart() }
}

fn missing_disk(subject: &Subject<'_>, found: &mut Differences, slot: Slot, wanted: &Disk) {
    let node = &subject.node.name;
    let (Some(storage), Some(size)) = (wanted_storage(wanted), wanted.size) else { return };
    if slot.index() == 0 {
        let (problem, choices) = match subject.state {
            State::Fresh => (
                format!("its template has no disk at {slot}, which Talos boots from"),
                vec![format!("name a template whose system disk is {slot}")],
            ),
            State::Stopped | State::Running => (
                format!("its system disk is gone from {slot}"),
                vec![
                    format!(
                        "attach it again (an unused disk of the VM, or another slot): qm set {} --{slot} VOLUME",
                        vmid(subject)
                    ),
                    format!("talmox apply --replace {node} builds it anew"),
                ],
            ),
        };
        found.impossible.push(Impossible { key: slot.to_string(), field: "template", problem, choices });
        return;
    }
    let source = DriveSource::Allocate { storage: Some(storage.clone()), size };
    let value = Disk { source, size: None, ..wanted.clone() }.to_string();
    found.new_disks.push(NewDisk { slot, storage, size, value });
}

/// The VMID for a command to type.
fn vmid(subject: &Subject<'_>) -> String {
    let mark = subject.wanted.description().and_then(Mark::of_description);
    mark.map_or_else(|| "VMID".to_owned(), |mark| mark.vmid.to_string())
}

fn other_storage(subject: &Subject<'_>, slot: Slot, have: &StorageId, wanted: &StorageId) -> Impossible {
    let field = if slot.index() == 0 { "proxmox_storage" } else { "vm_disks" };
    Impossible {
        key: slot.to_string(),
        field,
        problem: format!("{slot} is on {have}, the description wants {wanted}"),
        choices: vec![
            format!("move it: qm disk move {} {slot} {wanted} --delete", vmid(subject)),
            format!("name {have} for this node"),
            format!("talmox apply --replace {} builds it anew", subject.node.name),
        ],
    }
}

fn shrinking(subject: &Subject<'_>, slot: Slot, have: DiskSize, wanted: DiskSize) -> Impossible {
    let node = &subject.node.name;
    let (problem, last) = if subject.state == State::Fresh {
        let problem =
            format!("its template has {have} at {slot}, more than the {wanted} the description wants");
        (problem, "name a template with a smaller disk".to_owned())
    } else {
        let problem = format!("{slot} is {have} and cannot shrink to {wanted}");
        (problem, format!("talmox apply --replace {node} builds it anew"))
    };
    let choices = vec![format!("{}: {} or more", size_field(slot), have.gib_rounded_up()), last];
    Impossible { key: slot.to_string(), field: size_field(slot), problem, choices }
}

/// The drive may hang anywhere; a VM never has two.
fn cloud_init(subject: &Subject<'_>, found: &mut Differences) {
    let disks = subject.have.disks().unwrap_or_default();
    let have = disks.iter().find(|(_, disk)| disk.is_cloud_init()).map(|(slot, _)| *slot);
    match (have, subject.node.vm.cloud_init) {
        (None, true) => {
            let is_free = |slot: &Slot| disks.get(slot).is_none_or(|disk| disk.source == DriveSource::Empty);
            // On q35 only the first unit of each IDE bus exists.
            let slots = [2, 0].into_iter().filter_map(|index| Slot::new(SlotKind::Ide, index));
            let Some(slot) = slots.into_iter().find(is_free) else {
                found.impossible.push(no_slot(subject));
                return;
            };
            let source = DriveSource::CloudInit { storage: Some(subject.node.vm.storage.clone()) };
            let value = Disk { media: Some(Media::Cdrom), ..Disk::new(source) }.to_string();
            let old = subject.have.get(&slot.to_string()).map(str::to_owned);
            let how = How::Set(value);
            let key = slot.to_string();
            found.values.push(Difference::new(&key, "cloud_init", old, how, subject.restart()));
        }
        (Some(slot), false) if subject.have.flag("protection") && subject.wanted.flag("protection") => {
            found.impossible.push(protected(slot));
        }
        (Some(slot), false) => {
            let key = slot.to_string();
            let old = subject.have.get(&key).map(str::to_owned);
            let difference = Difference::new(&key, "cloud_init", old, How::Delete, subject.restart());
            found.values.push(difference);
        }
        (None, false) | (Some(_), true) => {}
    }
}

/// Proxmox takes no drive from a protected VM.
fn protected(slot: Slot) -> Impossible {
    Impossible {
        key: slot.to_string(),
        field: "cloud_init",
        problem: format!("the VM is protected, so its cloud-init drive at {slot} cannot be taken away"),
        choices: vec![
            "protection: false for this node; protect it again once the drive is gone".to_owned(),
            "cloud_init: on for this node".to_owned(),
        ],
    }
}

fn no_slot(subject: &Subject<'_>) -> Impossible {
    Impossible {
        key: "ide2".to_owned(),
        field: "cloud_init",
        problem: "ide0 and ide2 both hold something, so there is no place for a cloud-init drive".to_owned(),
        choices: vec![
            format!("take one of them away: qm set {} --delete ide2", vmid(subject)),
            "cloud_init: off for this node".to_owned(),
        ],
    }
}

fn efi_disk(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.efi_disk() else { return };
    if let Ok(Some(have)) = subject.have.efi_disk() {
        let kind = |kind: Option<EfiType>| kind.unwrap_or(EfiType::TwoMeg);
        if kind(have.efitype) != kind(wanted.efitype) {
            found.impossible.push(made_once(
                subject,
                "efidisk0",
                "efi_disk",
                "its EFI variables are of another kind",
            ));
        }
        return;
    }
    if subject.state == State::Fresh {
        let storage = &subject.node.vm.storage;
        // The number is ignored: the firmware says how large it is.
        let value = format!("{storage}:1,efitype=4m");
        found.values.push(Difference::new("efidisk0", "bios", None, How::Set(value), Applies::Now));
    } else if subject.have.get("bios") == Some("ovmf") {
        found.impossible.push(made_once(subject, "efidisk0", "efi_disk", "its EFI disk is gone"));
    }
}

fn tpm_state(subject: &Subject<'_>, found: &mut Differences) {
    let Ok(Some(wanted)) = subject.wanted.tpm_state() else { return };
    match subject.have.tpm_state() {
        Ok(Some(have)) if have.version == wanted.version => {}
        Ok(Some(_)) => {
            found.impossible.push(made_once(subject, "tpmstate0", "tpm", "its TPM is of another version"));
        }
        _ if subject.state == State::Fresh => {
            let value = format!("{}:1,version=v2.0", subject.node.vm.storage);
            found.values.push(Difference::new("tpmstate0", "tpm", None, How::Set(value), Applies::Now));
        }
        _ => found.impossible.push(made_once(subject, "tpmstate0", "tpm", "it has no TPM")),
    }
}

/// What a VM gets when it is made and not later.
fn made_once(subject: &Subject<'_>, key: &str, field: &'static str, problem: &str) -> Impossible {
    Impossible {
        key: key.to_owned(),
        field,
        problem: format!("{problem}, and that is decided when a VM is made"),
        choices: vec![format!("talmox apply --replace {} builds it anew", subject.node.name)],
    }
}

/// Disks in slots the description does not name: a storage driver's, or somebody's.
fn foreign(subject: &Subject<'_>, found: &mut Differences) {
    for (slot, text) in subject.have.slots() {
        let declared = subject.wanted.get(&slot.to_string()).is_some();
        let holds = slot.is_drive() || slot.kind() == SlotKind::Unused;
        let is_disk = Disk::parse(text).is_ok_and(|disk| !disk.is_cdrom() && disk.source.volume().is_some());
        if holds && !declared && is_disk {
            found.foreign.push(format!("{slot}: {text}"));
        }
    }
}
