//! A virtual machine, in Proxmox's terms but not in its spelling.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    BridgeName, Cidr, HostName, MacAddress, MappingName, PciAddress, StorageId, Tag, VmId,
    desired::{DriftPolicy, NetworkMode},
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent switch of the VM, named as Proxmox names it"
)]
pub struct Vm {
    pub id: Option<VmId>,
    /// A fixed host; none: placed.
    pub host: Option<HostName>,
    pub cores: u32,
    pub sockets: u32,
    /// MiB.
    pub memory: u32,
    /// MiB the balloon may shrink to; 0: no balloon device.
    pub balloon: u32,
    pub numa: bool,
    pub cpu_type: String,
    pub machine: MachineType,
    pub bios: Bios,
    pub os_type: String,
    pub scsi_hw: ScsiController,
    pub agent: bool,
    pub tags: Vec<Tag>,
    pub boot: Boot,
    /// Clone this instead of a managed template.
    pub template: Option<TemplateRef>,
    pub secure_boot: bool,
    pub tpm: bool,
    /// Whether Proxmox's cloud-init drive gives address and name for the first boot.
    pub cloud_init: bool,
    pub network_mode: NetworkMode,
    pub storage: StorageId,
    /// Where the system disk hangs: slot 0 of this bus.
    pub disk_bus: DiskBus,
    /// GiB of the system disk.
    pub disk_size: u32,
    pub disk_options: DiskOptions,
    pub extra_disks: Vec<ExtraDisk>,
    /// The first one carries the node's address.
    pub nics: Vec<Nic>,
    pub pci: Vec<PciDevice>,
    pub startup: Startup,
    /// Start with the host; none: as Proxmox has it.
    pub on_boot: Option<bool>,
    pub protection: bool,
    pub ha_managed: bool,
    pub power: Power,
    /// What is done about differences, by field; what is not in here is corrected.
    pub drift: BTreeMap<String, DriftPolicy>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bios {
    Ovmf,
    SeaBios,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineType {
    Q35,
    I440fx,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScsiController {
    VirtioScsiPci,
    VirtioScsiSingle,
    Lsi,
}

/// The bus of the system disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskBus {
    #[default]
    Scsi,
    Virtio,
    Sata,
    Ide,
}

impl DiskBus {
    /// The key the system disk has in Proxmox.
    pub fn first_slot(self) -> &'static str {
        match self {
            Self::Scsi => "scsi0",
            Self::Virtio => "virtio0",
            Self::Sata => "sata0",
            Self::Ide => "ide0",
        }
    }
}

/// Where the first boot comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Boot {
    Template,
    Iso,
    Import,
}

/// A template somebody else made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TemplateRef {
    Name(String),
    Id(VmId),
    /// Whatever template has all of these tags, and the name if one is given.
    Tagged {
        name: Option<String>,
        tags: Vec<Tag>,
    },
}

/// Whether a VM shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    Running,
    Stopped,
}

/// Options every disk of a node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent option of a Proxmox disk")]
pub struct DiskOptions {
    pub discard: bool,
    pub ssd: bool,
    pub backup: bool,
    pub replicate: bool,
}

/// A disk beside the system disk, always on the SCSI bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExtraDisk {
    /// The number in `scsiN`; 0 is the system disk.
    pub slot: u8,
    /// GiB.
    pub size: u32,
    pub storage: StorageId,
    /// Survives the VM.
    pub keep: bool,
    /// The name of the Talos user volume on it.
    pub mount: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// The number in `netN`.
    pub slot: u8,
    pub mac: MacAddress,
    /// Whether the MAC was derived rather than declared.
    pub mac_derived: bool,
    pub bridge: BridgeName,
    pub vlan: Option<u16>,
    pub mtu: Option<u16>,
    pub queues: u8,
    pub firewall: bool,
    /// Static addresses of a NIC beside the first, each with its prefix length.
    pub addresses: Vec<Cidr>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    pub source: PciSource,
    pub pcie: bool,
    pub rombar: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PciSource {
    /// A mapping of the data centre: any login with `Mapping.Use` may use it.
    Mapping(MappingName),
    /// A raw address: only `root@pam` by password may.
    Address(PciAddress),
}

/// When the VM starts and stops with its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Startup {
    pub order: u16,
    /// Seconds to wait after its start.
    pub up: u16,
    /// Seconds to wait for its shutdown.
    pub down: u16,
}
