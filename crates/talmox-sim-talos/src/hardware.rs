//! A machine as the hypervisor built it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the hypervisor calls a machine: its VMID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(pub u32);

/// A disk for as long as it lives, whatever machine it hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskId(pub u64);

/// What is switched on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hardware {
    pub id: MachineId,
    /// SMBIOS: the system's UUID, in lower case.
    pub uuid: String,
    /// SMBIOS: the system's serial number, decoded: `h=cp-1;i=2000`, `ds=nocloud-net;s=https://…`.
    pub serial: String,
    /// Bytes.
    pub memory: u64,
    pub cpus: u32,
    pub nics: Vec<Nic>,
    /// Disks and CD drives in the order in which the firmware tries them, then the others.
    pub drives: Vec<Drive>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// Lower case, with colons.
    pub mac: String,
    pub bridge: String,
    pub vlan: Option<u16>,
}

/// Something that can be read, and a disk written too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Drive {
    Disk(Disk),
    /// A CD drive and what lies in it.
    Cd(Content),
}

impl Drive {
    pub(crate) fn disk(&self) -> Option<DiskId> {
        match self {
            Self::Disk(disk) => Some(disk.id),
            Self::Cd(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub id: DiskId,
    /// The disk this one is a copy of, made while neither was written: it begins with what that one held.
    pub copy_of: Option<DiskId>,
    /// The name the kernel gives it: `sda`, `vda`, `nvme0n1`.
    pub name: String,
    /// Empty if it was given none.
    #[serde(default)]
    pub serial: String,
    /// Bytes.
    pub size: u64,
    /// What was on it when the hypervisor made it. What a node wrote since is the node's knowledge.
    pub content: Content,
}

/// What a disk or CD holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    #[default]
    Empty,
    Talos(Image),
    /// Files under the volume label `cidata`, by name.
    Cidata(BTreeMap<String, Vec<u8>>),
    /// Something nobody can boot.
    Other,
}

/// An image of Talos.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `1.13.9`, without a `v`.
    pub version: String,
    /// The schematic's id.
    pub schematic: String,
    /// Names of the system extensions in it: `siderolabs/qemu-guest-agent`.
    pub extensions: Vec<String>,
    pub platform: Platform,
    /// Whether it only installs Talos from memory (an ISO), or is an installed disk already.
    pub installed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Platform {
    Nocloud,
    Metal,
    /// A container on some host: no disks, no reboots. Only recorded replies need it.
    Container,
}
