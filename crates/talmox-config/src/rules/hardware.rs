//! Virtual hardware that can exist.

use std::collections::{HashMap, HashSet};

use talmox_types::PciAddress;
use talmox_types::desired::{Bios, DiskEncryption, MachineType, Role};

use super::Subject;
use super::identity::{first_owner, missing};
use crate::file::PciBlock;
use crate::layers::Member;
use crate::problem::{Code, Problem};
use crate::read::{At, Value};
use crate::source::{Location, SourceId};

/// Talos recommends this much memory for a control plane.
const CONTROL_PLANE_MEMORY: u32 = 2048;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    // Many nodes share one block: a problem of the block is reported once.
    let mut reported: HashSet<(Option<Location>, Code)> = HashSet::new();
    for member in &subject.members {
        let mut found = Vec::new();
        passthrough(member, &mut found);
        firmware(member, &mut found);
        memory(member, &mut found);
        slots(member, &mut found);
        taints(member, &mut found);
        networks(member, &mut found);
        problems
            .extend(found.into_iter().filter(|problem| reported.insert((problem.location(), problem.code))));
    }
}

fn passthrough(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let machine = member.pick(|s| s.advanced.machine.as_ref());
    let q35 = machine.is_some_and(|at| at.value == MachineType::Q35);
    let gpu = member.pick(|s| s.gpu_pci_bdf.as_ref());
    let pcie = member.pick(|s| s.gpu_pcie_mode.as_ref());
    if let Some(gpu) = gpu
        && pcie.is_some_and(|at| at.value)
        && !q35
    {
        problems.push(no_pcie(gpu.location, machine.map(|at| at.location), &member.name.to_string()));
    }
    if gpu.is_none() {
        lonely_gpu_options(member, problems);
    }
    let devices = member.pick(|s| s.vm_pci.as_ref());
    same_device(gpu, devices, problems);
    for device in devices.map(|at| at.value.as_slice()).unwrap_or_default() {
        one_source(device, problems);
        if !q35 && device.pcie.as_ref().is_none_or(|at| at.value) {
            problems.push(no_pcie(device.location, machine.map(|at| at.location), &member.name.to_string()));
        }
    }
}

/// Proxmox has this many slots for PCI devices.
const MAX_PCI: usize = 16;

/// One device in two places, or more devices than slots. A mapping may be named twice: it can hold several devices.
fn same_device(
    gpu: Option<&At<PciAddress>>,
    devices: Option<&At<Vec<At<PciBlock>>>>,
    problems: &mut Vec<Problem>,
) {
    let listed = devices.iter().flat_map(|at| &at.value).filter_map(|device| device.bdf.as_ref());
    let mut seen: HashMap<PciAddress, Location> = HashMap::new();
    for device in gpu.into_iter().chain(listed) {
        if let Some(first) = first_owner(&mut seen, device.value, device.location) {
            problems.push(
                Problem::error(Code::DuplicateSlot, format!("{} is passed through twice", device.value))
                    .at(device.location, "again")
                    .related(first, "first here"),
            );
        }
    }
    if let Some(devices) = devices
        && devices.value.len() + usize::from(gpu.is_some()) > MAX_PCI
    {
        problems.push(
            Problem::error(Code::Hardware, format!("a VM has room for {MAX_PCI} PCI devices"))
                .at(devices.location, format!("{} of them", devices.value.len())),
        );
    }
}

fn taints(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<(String, String), Location> = HashMap::new();
    for taint in member.pick(|s| s.taints.as_ref()).iter().flat_map(|at| &at.value) {
        let key = (taint.value.key.clone(), format!("{:?}", taint.value.effect));
        if let Some(first) = first_owner(&mut seen, key, taint.location) {
            problems.push(
                Problem::error(Code::DuplicateSlot, "a taint of this key and effect is there already")
                    .at(taint.location, "again")
                    .related(first, "first here"),
            );
        }
    }
}

fn no_pcie(device: Location, machine: Option<Location>, node: &str) -> Problem {
    let problem =
        Problem::error(Code::Hardware, format!("{node}: machine type i440fx has no PCIe for this device"))
            .at(device, "passed through as PCIe");
    let problem = match machine {
        Some(machine) if machine != device => problem.related(machine, "the machine type"),
        _ => problem,
    };
    problem.hint("use machine: q35, or pcie: false (gpu_pcie_mode: false for gpu_pci_bdf)")
}

fn lonely_gpu_options(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let options = [member.pick(|s| s.gpu_pcie_mode.as_ref()), member.pick(|s| s.gpu_rombar.as_ref())];
    for option in options.into_iter().flatten() {
        if option.location.source != SourceId::BUILT_IN {
            problems.push(
                Problem::warning(Code::Hardware, format!("{} does nothing without gpu_pci_bdf", option.key))
                    .at(option.location, "no GPU to apply it to"),
            );
        }
    }
}

fn one_source(device: &At<PciBlock>, problems: &mut Vec<Problem>) {
    match (&device.mapping, &device.bdf) {
        (Some(mapping), Some(bdf)) => problems.push(
            Problem::error(Code::Hardware, "a PCI device comes from a mapping or an address, not both")
                .at(bdf.location, "an address")
                .related(mapping.location, "a mapping")
                .hint("keep the mapping: a token may use it"),
        ),
        (None, None) if device.broken.is_empty() => {
            problems.push(missing("a PCI device", "mapping or bdf", device));
        }
        (Some(_), None) | (None, Some(_) | None) => {}
    }
}

fn firmware(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let bios = member.pick(|s| s.advanced.bios.as_ref());
    let secure_boot = member.pick(|s| s.secure_boot.as_ref());
    if let (Some(bios), Some(secure_boot)) = (bios, secure_boot)
        && bios.value == Bios::SeaBios
        && secure_boot.value
    {
        problems.push(
            Problem::error(Code::Hardware, format!("{}: Secure Boot needs UEFI", member.name))
                .at(secure_boot.location, "Secure Boot")
                .related(bios.location, "not UEFI")
                .hint("use bios: ovmf"),
        );
    }
    let encryption = member.pick(|s| s.disk_encryption.as_ref());
    if let (Some(bios), Some(encryption)) = (bios, encryption)
        && bios.value == Bios::SeaBios
        && encryption.value == DiskEncryption::Tpm
    {
        problems.push(
            Problem::error(Code::Hardware, format!("{}: keys in a TPM need UEFI", member.name))
                .at(encryption.location, "sealed to what UEFI measured")
                .related(bios.location, "not UEFI")
                .hint("use bios: ovmf"),
        );
    }
    let tpm = member.pick(|s| s.tpm.as_ref());
    if let (Some(encryption), Some(tpm)) = (encryption, tpm)
        && encryption.value == DiskEncryption::Tpm
        && !tpm.value
        && tpm.location.source != SourceId::BUILT_IN
    {
        problems.push(
            Problem::error(Code::Hardware, format!("{}: disk encryption needs the TPM", member.name))
                .at(encryption.location, "keys are kept in a TPM")
                .related(tpm.location, "and there is to be none")
                .hint("leave tpm out: disk_encryption brings it along"),
        );
    }
}

fn memory(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let Some(memory) = member.pick(|s| s.memory.as_ref()) else { return };
    let amount: u32 = memory.value.to();
    if let Some(balloon) = member.pick(|s| s.advanced.balloon.as_ref())
        && balloon.value.to::<u32>() > amount
    {
        problems.push(
            Problem::error(Code::Hardware, format!("{}: the balloon is larger than the memory", member.name))
                .at(balloon.location, format!("{} MiB", balloon.value.to::<u32>()))
                .related(memory.location, format!("{amount} MiB"))
                .hint("Proxmox refuses this; 0 leaves the balloon device out"),
        );
    }
    if member.role == Role::Controller && amount < CONTROL_PLANE_MEMORY {
        problems.push(
            Problem::warning(
                Code::Resources,
                format!("{}: {amount} MiB is little for a control plane", member.name),
            )
            .at(memory.location, format!("Talos recommends {CONTROL_PLANE_MEMORY} MiB or more")),
        );
    }
}

fn slots(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let mut disks: HashMap<u8, Location> = HashMap::new();
    let mut mounts: HashMap<String, Location> = HashMap::new();
    for disk in member.pick(|s| s.vm_disks.as_ref()).map(|at| at.value.as_slice()).unwrap_or_default() {
        match &disk.slot {
            None if disk.broken.contains(&"slot") => {}
            None => problems.push(missing("a disk", "slot", disk)),
            Some(slot) => same_slot(&mut disks, "scsi", slot.value.to(), slot.location, problems),
        }
        if let Some(mount) = &disk.mount
            && let Some(first) = first_owner(&mut mounts, mount.value.0.clone(), mount.location)
        {
            problems.push(
                Problem::error(Code::DuplicateSlot, format!("the volume {} is on two disks", mount.value.0))
                    .at(mount.location, "again")
                    .related(first, "first here"),
            );
        }
        if disk.size.is_none() && !disk.broken.contains(&"size") {
            problems.push(missing("a disk", "size", disk));
        }
    }
    let mut networks: HashMap<u8, Location> = HashMap::new();
    for network in member.pick(|s| s.vm_networks.as_ref()).map(|at| at.value.as_slice()).unwrap_or_default() {
        match &network.slot {
            None if network.broken.contains(&"slot") => {}
            None => problems.push(missing("a network device", "slot", network)),
            Some(slot) => same_slot(&mut networks, "net", slot.value.to(), slot.location, problems),
        }
    }
}

fn same_slot(
    seen: &mut HashMap<u8, Location>,
    bus: &str,
    slot: u8,
    location: Location,
    problems: &mut Vec<Problem>,
) {
    if let Some(first) = first_owner(seen, slot, location) {
        problems.push(
            Problem::error(Code::DuplicateSlot, format!("{bus}{slot} is used twice"))
                .at(location, "again")
                .related(first, "first here"),
        );
    }
}

fn networks(member: &Member<'_>, problems: &mut Vec<Problem>) {
    let networks = member.pick(|s| s.vm_networks.as_ref()).map(|at| at.value.as_slice()).unwrap_or_default();
    for network in networks {
        let is_first = network.slot.as_ref().is_some_and(|slot| slot.value.to::<u8>() == 0);
        if let (true, Some(addresses)) = (is_first, &network.addresses) {
            problems.push(
                Problem::error(Code::AddressOutside, "slot 0 carries the node's own address")
                    .at(addresses.location, "an address beside it")
                    .hint("use address of the node; addresses belongs to further devices"),
            );
        }
        if is_first {
            let declared = member.node.and_then(|node| node.mac_addr.as_ref());
            disagree(network.mac.as_ref(), declared, problems);
            disagree(network.bridge.as_ref(), member.pick(|s| s.advanced.network_bridge.as_ref()), problems);
            disagree(network.vlan.as_ref(), member.pick(|s| s.node_vlan_tag.as_ref()), problems);
            if let (Some(mtu), Some(other)) = (&network.mtu, member.pick(|s| s.mtu.as_ref())) {
                let same = mtu.value.to::<i64>() == other.value.to::<i64>();
                report_disagreement(same, (mtu.location, mtu.value.show()), other, problems);
            }
        }
    }
}

/// Slot 0 and the keys of the node speak of one device: what both say must be the same.
fn disagree<T: Value + PartialEq>(slot: Option<&At<T>>, node: Option<&At<T>>, problems: &mut Vec<Problem>) {
    if let (Some(slot), Some(node)) = (slot, node) {
        report_disagreement(slot.value == node.value, (slot.location, slot.value.show()), node, problems);
    }
}

fn report_disagreement<T: Value>(
    same: bool,
    slot: (Location, String),
    node: &At<T>,
    problems: &mut Vec<Problem>,
) {
    if same || node.location.source == SourceId::BUILT_IN {
        return;
    }
    problems.push(
        Problem::error(
            Code::AliasConflict,
            format!("{} and slot 0 of vm_networks are one setting", node.key),
        )
        .at(slot.0, slot.1)
        .related(node.location, format!("{} says {}", node.key, node.value.show()))
        .hint("keep one of them"),
    );
}
