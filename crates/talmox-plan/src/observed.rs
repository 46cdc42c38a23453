//! What is there: Proxmox as it was seen at one moment.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use talmox_pve::property::{VmConfig, VolumeId};
use talmox_types::{HostName, MappingName, NodeName, PoolName, Realm, StorageId, VmId};

use crate::{HaRule, Rights, SeenKubernetes, SeenMachine};

/// Everything a plan is made from. Secrets are not in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// `9.2.11`.
    pub version: String,
    pub hosts: BTreeMap<HostName, Host>,
    /// A shared storage is in here once for each host that sees it.
    pub storages: Vec<Storage>,
    /// Every guest of the Proxmox cluster that the credentials may see, containers included.
    pub guests: BTreeMap<VmId, Guest>,
    /// The pool the description names, if it exists.
    pub pool: Option<SeenPool>,
    /// How many devices of each PCI mapping a host has; empty unless a node wants one.
    pub mappings: BTreeMap<MappingName, BTreeMap<HostName, usize>>,
    /// Every pool the credentials may see.
    pub pools: BTreeSet<PoolName>,
    /// Files that images may be, by storage as each host sees it. Only storages that were asked are in it.
    pub files: BTreeMap<(HostName, StorageId), Vec<SeenFile>>,
    /// What HA looks after; none unless a node wants it or a VM of ours has it.
    pub ha: Option<SeenHa>,
    /// Jobs that name guests; nobody asks for them unless something is to be removed.
    pub jobs: Option<SeenJobs>,
    pub rights: Rights,
    /// Zones of virtual networks, by the name VMs use like a bridge. Read only if a bridge is not where plain ones are.
    pub zones: BTreeMap<String, String>,
    /// Whether a majority of the Proxmox cluster is there, so that it can be written to; none: unknown.
    pub quorate: Option<bool>,
    pub depth: Depth,
    /// What the machines themselves say, by node. Those that were not asked are not in it.
    pub talos: BTreeMap<NodeName, SeenMachine>,
    /// The same of nodes that the description does not name and that are to go.
    pub leaving: BTreeMap<NodeName, SeenMachine>,
    pub kubernetes: SeenKubernetes,
    /// Whose authorities are being replaced, in the order that is done.
    pub rotating: Vec<Realm>,
    /// VMs of control planes whose disks are older than they were when it last ran, and how that came: stopped ones, and those
    /// whose member of etcd is not well.
    pub rewound: BTreeMap<VmId, Rewound>,
}

/// How a VM came by disks of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewound {
    RolledBack,
    Restored,
}

/// Jobs of the cluster that name guests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenJobs {
    /// The guests each backup job lists; none if the credentials may not look.
    pub backups: Option<BTreeMap<String, BTreeSet<VmId>>>,
    /// The guest of each replication job.
    pub replications: BTreeMap<String, VmId>,
}

/// What HA looks after, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeenHa {
    pub resources: BTreeSet<VmId>,
    /// Rules of Proxmox 9 about VMs, by name.
    pub rules: BTreeMap<String, HaRule>,
    /// Groups of Proxmox 8, by name.
    pub groups: BTreeMap<String, HaGroup>,
}

/// A group of Proxmox 8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaGroup {
    pub hosts: BTreeSet<HostName>,
    /// Whose it is, if it is ours.
    pub comment: String,
}

/// A file on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenFile {
    pub volume: VolumeId,
    /// Bytes.
    pub size: u64,
}

/// Whose configuration was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Of guests that look like ours: enough if every declared node is among them.
    #[default]
    Candidates,
    /// Of every VM: only then is a node that was not found really missing.
    Everything,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub online: bool,
    /// Bytes; without `Sys.Audit` unknown.
    pub memory: Option<u64>,
    pub memory_used: Option<u64>,
    pub cpus: Option<u32>,
}

/// A storage as one host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub id: StorageId,
    pub host: HostName,
    /// `zfspool`, `dir`, `rbd`.
    pub kind: String,
    pub shared: bool,
    pub available: bool,
    pub content: BTreeSet<String>,
    /// Bytes.
    pub total: u64,
    pub used: u64,
}

/// A VM or container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub vmid: VmId,
    pub host: HostName,
    pub kind: GuestKind,
    /// None for a guest that is just being made: Proxmox tells only its lock.
    pub name: Option<String>,
    pub power: Power,
    /// Bytes it may take while it runs.
    pub memory: u64,
    pub cpus: u32,
    pub template: bool,
    pub lock: Option<String>,
    pub tags: BTreeSet<String>,
    pub pool: Option<PoolName>,
    /// What HA says of it, if HA looks after it.
    pub ha: Option<String>,
    pub config: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestKind {
    Vm,
    Container,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Power {
    Running,
    Stopped,
    #[default]
    Unknown,
}

/// How much of a guest's configuration is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Nothing made it look like ours.
    #[default]
    NotAsked,
    Read(GuestConfig),
    /// It was asked for and did not come, with the reason: its host is down.
    Unreadable(String),
}

/// A VM's configuration at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestConfig {
    /// What holds now.
    pub live: VmConfig,
    /// What holds after the next restart through Proxmox. Where it differs from `live`, the difference is pending.
    pub next: VmConfig,
    /// Names this state, so that a change can insist on it.
    pub digest: String,
}

/// The pool of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPool {
    pub name: PoolName,
    pub comment: Option<String>,
    /// Everything in it: `qemu/2000`, `storage/pve1/local`.
    pub members: BTreeSet<String>,
}

impl SeenPool {
    /// Whether a VM is in it.
    pub fn holds(&self, vmid: VmId) -> bool {
        self.members.contains(&format!("qemu/{vmid}"))
    }
}

impl Guest {
    /// The configuration, if it was read.
    pub fn seen(&self) -> Option<&GuestConfig> {
        match &self.config {
            Seen::Read(config) => Some(config),
            Seen::NotAsked | Seen::Unreadable(_) => None,
        }
    }
}

impl GuestConfig {
    /// Keys whose value waits for a restart.
    pub fn pending(&self) -> BTreeSet<&str> {
        let keys = self.live.iter().chain(self.next.iter()).map(|(key, _)| key);
        keys.filter(|key| self.live.get(key) != self.next.get(key)).collect()
    }
}

impl Observed {
    /// A storage as a host sees it.
    pub fn storage(&self, host: &HostName, id: &StorageId) -> Option<&Storage> {
        self.storages.iter().find(|storage| storage.host == *host && storage.id == *id)
    }
}
