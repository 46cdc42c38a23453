//! A machine as the hypervisor built it.

use std::collections::BTreeMap;
use std::net::IpAddr;

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

impl Hardware {
    /// A machine that is no VM of this hypervisor: Talos in maintenance mode at an address on the same network.
    pub fn stranger(id: MachineId, address: IpAddr) -> Self {
        let image = Image {
            version: "1.13.9".to_owned(),
            schematic: "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba".to_owned(),
            extensions: Vec::new(),
            platform: Platform::Nocloud,
            installed: true,
        };
        let mac = format!("02:00:00:00:ff:{:02x}", id.0 & 0xff);
        let (kind, bits) = if address.is_ipv4() { ("static", 24) } else { ("static6", 64) };
        let network = format!(
            "version: 1\nconfig:\n- type: physical\n  name: eth0\n  mac_address: {mac}\n  subnets:\n  \
             - type: {kind}\n    address: {address}/{bits}\n"
        );
        let files = [("meta-data", "instance-id: x\n".to_owned()), ("network-config", network)];
        let files = files.into_iter().map(|(name, text)| (name.to_owned(), text.into_bytes())).collect();
        let disk = Disk {
            id: DiskId(u64::MAX - u64::from(id.0)),
            copy_of: None,
            name: "sda".to_owned(),
            serial: String::new(),
            size: 20 << 30,
            content: Content::Talos(image),
        };
        Self {
            id,
            uuid: format!("00000000-1111-2222-3333-{:012x}", id.0),
            serial: String::new(),
            memory: 4 << 30,
            cpus: 2,
            nics: vec![Nic { mac, bridge: "vmbr0".to_owned(), vlan: None }],
            drives: vec![Drive::Disk(disk), Drive::Cd(Content::Cidata(files))],
        }
    }
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
