//! A node of the model as the configuration its VM has in Proxmox.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::desired::{
    Bios, Boot, Desired, DiskBus, MachineType, NetworkMode, Nic, Node, PciDevice, PciSource, ScsiController,
    Vm,
};
use talmox_types::{Cidr, FamilyPair, Mark, StorageId, VmId};

use crate::property::{
    Agent, CpuModel, Discard, Disk, DiskSize, DriveSource, EfiDisk, EfiType, HostPci, IpConfig, Ipv4Setting,
    Ipv6Setting, Machine, Media, NetDevice, NicModel, PropertyError, Smbios, Startup, Tags, TpmState,
    TpmVersion, VmConfig, VolumeId,
};

/// What the description alone does not decide.
#[derive(Clone, Debug)]
pub struct Circumstances {
    pub vmid: VmId,
    /// The node's address, which for a member of a pool is known only once it was taken.
    pub address: FamilyPair<IpAddr>,
    /// None for a cluster without a uid: its VMs can be shown, not made.
    pub mark: Option<Mark>,
    /// The file a VM that boots from an ISO boots from.
    pub iso: String,
}

/// The configuration as `qm config` prints it once the VM stands. What Proxmox makes up by itself (`vmgenid`, `meta`,
/// the uuid in `smbios1`, sizes of EFI disk and ISO) is not in it.
pub fn vm_config(desired: &Desired, node: &Node, on: &Circumstances) -> Result<VmConfig, PropertyError> {
    let vm = &node.vm;
    let mut config = VmConfig::default();
    config.set("name", node.name.as_str());
    hardware(&mut config, vm);
    identity(&mut config, vm, on);
    drives(&mut config, desired, node, on)?;
    for nic in &vm.nics {
        config.set(format!("net{}", nic.slot), &net_device(nic));
    }
    for (index, device) in vm.pci.iter().enumerate() {
        config.set(format!("hostpci{index}"), &host_pci(device));
    }
    if vm.cloud_init {
        cloud_init(&mut config, desired, vm, on);
    }
    Ok(config)
}

fn hardware(config: &mut VmConfig, vm: &Vm) {
    let flag = |on: bool| if on { "1" } else { "0" };
    config.set("cores", &vm.cores);
    config.set("sockets", &vm.sockets);
    config.set("memory", &vm.memory);
    config.set("balloon", &vm.balloon);
    config.set("numa", flag(vm.numa));
    config.set("cpu", &CpuModel::named(&vm.cpu_type));
    config.set(
        "machine",
        &Machine::named(match vm.machine {
            MachineType::Q35 => "q35",
            MachineType::I440fx => "pc",
        }),
    );
    config.set(
        "bios",
        match vm.bios {
            Bios::Ovmf => "ovmf",
            Bios::SeaBios => "seabios",
        },
    );
    config.set(
        "scsihw",
        match vm.scsi_hw {
            ScsiController::VirtioScsiPci => "virtio-scsi-pci",
            ScsiController::VirtioScsiSingle => "virtio-scsi-single",
            ScsiController::Lsi => "lsi",
        },
    );
    config.set("ostype", vm.os_type.as_str());
    config.set("serial0", "socket");
    config.set(
        "startup",
        &Startup {
            order: Some(u32::from(vm.startup.order)),
            up: Some(u32::from(vm.startup.up)),
            down: Some(u32::from(vm.startup.down)),
            ..Startup::default()
        },
    );
    if vm.agent {
        config.set("agent", &Agent::new(true));
    }
    if let Some(on_boot) = vm.on_boot {
        config.set("onboot", flag(on_boot));
    }
    if vm.protection {
        config.set("protection", flag(true));
    }
}

fn identity(config: &mut VmConfig, vm: &Vm, on: &Circumstances) {
    if !vm.tags.is_empty() {
        config.set("tags", &vm.tags.iter().cloned().collect::<Tags>());
    }
    if let Some(mark) = &on.mark {
        config.set("description", mark);
        config.set(
            "smbios1",
            &Smbios {
                serial: Some(mark.witness_serial()),
                family: Some(mark.witness_family()),
                ..Smbios::default()
            },
        );
    }
}

/// Volumes get their numbers as Proxmox gives them: in the order of their keys, counted for each storage.
#[derive(Default)]
struct Volumes(BTreeMap<StorageId, u32>);

impl Volumes {
    fn next(&mut self, storage: &StorageId, vmid: VmId) -> Result<VolumeId, PropertyError> {
        let number = self.0.entry(storage.clone()).or_default();
        let volume = VolumeId::new(storage.clone(), &format!("vm-{vmid}-disk-{number}"))?;
        *number += 1;
        Ok(volume)
    }
}

fn drives(
    config: &mut VmConfig,
    desired: &Desired,
    node: &Node,
    on: &Circumstances,
) -> Result<(), PropertyError> {
    let vm = &node.vm;
    let mut volumes = Volumes::default();
    if vm.bios == Bios::Ovmf {
        let volume = volumes.next(&vm.storage, on.vmid)?;
        config.set(
            "efidisk0",
            &EfiDisk { efitype: Some(EfiType::FourMeg), ..EfiDisk::new(DriveSource::Volume(volume)) },
        );
    }
    let first = vm.disk_bus.first_slot();
    let extra = vm.extra_disks.iter().map(|disk| (format!("scsi{}", disk.slot), disk.size, &disk.storage));
    let mut disks: Vec<(String, u32, &StorageId)> =
        std::iter::once((first.to_owned(), vm.disk_size, &vm.storage)).chain(extra).collect();
    disks.sort();
    for (key, size, storage) in disks {
        let volume = volumes.next(storage, on.vmid)?;
        // A virtio disk has no such option.
        let ssd = vm.disk_options.ssd && !key.starts_with("virtio");
        config.set(key, &disk(vm, volume, size, ssd));
    }
    if vm.tpm {
        let volume = volumes.next(&vm.storage, on.vmid)?;
        config.set(
            "tpmstate0",
            &TpmState { version: Some(TpmVersion::TwoZero), ..TpmState::new(DriveSource::Volume(volume)) },
        );
    }
    let iso = vm.boot == Boot::Iso;
    if iso {
        let volume = VolumeId::new(desired.proxmox.iso_storage.clone(), &format!("iso/{}", on.iso))?;
        config.set("ide2", &cdrom(volume));
    }
    if vm.cloud_init {
        let volume = VolumeId::new(vm.storage.clone(), &format!("vm-{}-cloudinit", on.vmid))?;
        // On q35 only the first unit of each IDE bus exists: ide0 and ide2.
        let slot = match (iso, vm.disk_bus) {
            (false, _) => "ide2",
            (true, DiskBus::Ide) => "sata0",
            (true, DiskBus::Scsi | DiskBus::Virtio | DiskBus::Sata) => "ide0",
        };
        config.set(slot, &cdrom(volume));
    }
    let order = if iso { format!("order={first};ide2;net0") } else { format!("order={first}") };
    config.set("boot", &order);
    Ok(())
}

fn disk(vm: &Vm, volume: VolumeId, size: u32, ssd: bool) -> Disk {
    let options = vm.disk_options;
    Disk {
        discard: options.discard.then_some(Discard::On),
        ssd: ssd.then_some(true),
        backup: (!options.backup).then_some(false),
        replicate: (!options.replicate).then_some(false),
        size: Some(DiskSize::from_gib(u64::from(size))),
        ..Disk::new(DriveSource::Volume(volume))
    }
}

fn cdrom(volume: VolumeId) -> Disk {
    Disk { media: Some(Media::Cdrom), ..Disk::new(DriveSource::Volume(volume)) }
}

fn net_device(nic: &Nic) -> NetDevice {
    NetDevice {
        mac: Some(nic.mac),
        bridge: Some(nic.bridge.clone()),
        firewall: nic.firewall.then_some(true),
        mtu: nic.mtu.map(u32::from),
        queues: (nic.queues > 0).then(|| u16::from(nic.queues)),
        tag: nic.vlan,
        ..NetDevice::new(NicModel::Virtio)
    }
}

fn host_pci(device: &PciDevice) -> HostPci {
    let base = match &device.source {
        PciSource::Mapping(mapping) => HostPci::mapped(mapping.clone()),
        PciSource::Address(address) => HostPci::at(*address),
    };
    HostPci { pcie: device.pcie.then_some(true), rombar: (!device.rombar).then_some(false), ..base }
}

/// Address, gateway and name servers for the first boot; the machine configuration repeats them.
fn cloud_init(config: &mut VmConfig, desired: &Desired, vm: &Vm, on: &Circumstances) {
    let first = match vm.network_mode {
        // The declared address is the reservation; its families say which ones are asked for.
        NetworkMode::Dhcp => IpConfig {
            ip: on.address.ipv4().map(|_| Ipv4Setting::Dhcp),
            ip6: on.address.ipv6().map(|_| Ipv6Setting::Dhcp),
            ..IpConfig::default()
        },
        NetworkMode::Static => {
            let network = &desired.network;
            let with_prefix =
                |ip: IpAddr| network.node_cidr.of_family(&ip).and_then(|net| Cidr::new(ip, net.prefix()));
            ip_config(on.address.iter().filter_map(with_prefix), Some(&network.gateway))
        }
    };
    config.set("ipconfig0", &first);
    for nic in vm.nics.iter().filter(|nic| nic.slot != 0 && !nic.addresses.is_empty()) {
        config.set(format!("ipconfig{}", nic.slot), &ip_config(nic.addresses.iter().copied(), None));
    }
    let servers: Vec<String> = desired.network.dns_servers.iter().map(ToString::to_string).collect();
    if !servers.is_empty() {
        config.set("nameserver", &servers.join(" "));
    }
}

/// Proxmox takes one address of each family, and a gateway only beside an address.
fn ip_config(addresses: impl Iterator<Item = Cidr>, gateway: Option<&FamilyPair<IpAddr>>) -> IpConfig {
    let mut config = IpConfig::default();
    for cidr in addresses {
        if cidr.is_ipv4() && config.ip.is_none() {
            config.ip = Some(Ipv4Setting::Static(cidr));
            config.gateway = gateway.and_then(FamilyPair::ipv4).and_then(|ip| match ip {
                IpAddr::V4(v4) => Some(v4),
                IpAddr::V6(_) => None,
            });
        } else if !cidr.is_ipv4() && config.ip6.is_none() {
            config.ip6 = Some(Ipv6Setting::Static(cidr));
            config.gateway6 = gateway.and_then(FamilyPair::ipv6).and_then(|ip| match ip {
                IpAddr::V6(v6) => Some(v6),
                IpAddr::V4(_) => None,
            });
        }
    }
    config
}
