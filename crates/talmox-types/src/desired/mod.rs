//! `Desired`: what a description means once every default, role and pool has been applied.
//!
//! It knows nothing of files: whoever reads a dialect fills it in, and everything after that works on this alone.

mod cluster;
mod drift;
mod network;
mod proxmox;
mod template;
mod vm;

pub use cluster::{
    Cni, ConfigDelivery, EtcdBackup, ExtensionService, Kubernetes, MachineFile, Patch, ProviderId, Schematic,
    Talos,
};
pub use drift::DriftPolicy;
pub use network::{Network, NetworkMode, Route};
pub use proxmox::{PlacementPolicy, Proxmox, Spread, VmIdRange};
pub use template::{Compression, FactorySchematic, Image, OUR_FILES, OUR_SEEDS, Template, templates_pool};
pub use vm::{
    Bios, Boot, DiskBus, DiskOptions, ExtraDisk, MachineType, Nic, PciDevice, PciSource, Power,
    ScsiController, Startup, TemplateRef, Vm,
};

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{AddressRange, ClusterName, ClusterUid, FamilyPair, NodeName, SchematicId, Taint};

/// A whole cluster as its description wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Desired {
    pub name: ClusterName,
    /// What tells this cluster from another of the same name; a description without one can be planned, not applied.
    pub uid: Option<ClusterUid>,
    pub proxmox: Proxmox,
    pub network: Network,
    pub talos: Talos,
    pub kubernetes: Kubernetes,
    /// In the order of the description, pools last.
    pub nodes: Vec<Node>,
    /// Templates described for themselves; those the nodes need follow from the rest.
    pub templates: Vec<Template>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    pub name: NodeName,
    pub role: Role,
    /// Counted from 1 in the order of the description.
    pub position: u32,
    /// The node pool it is a member of.
    pub pool: Option<String>,
    pub address: NodeAddress,
    pub vm: Vm,
    /// The disk Talos installs to: a path, or a serial number where it does not begin with `/`.
    pub install_disk: String,
    /// An image of this node's own, in place of the cluster's schematic.
    pub schematic_id: Option<SchematicId>,
    pub disk_encryption: DiskEncryption,
    pub kernel_modules: Vec<String>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    /// Patches in the order they apply: the cluster's, the role's, the pool's, the node's.
    pub patches: Vec<Patch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Controller,
    Worker,
}

impl Role {
    /// The word of the description files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Worker => "worker",
        }
    }
}

/// What the key is that Talos' own volumes are encrypted with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskEncryption {
    #[default]
    None,
    /// Sealed to the TPM.
    Tpm,
    /// Derived from the machine's uuid: it keeps a disk from being read elsewhere, and nothing more.
    NodeId,
}

/// The address of a node. It is always known before the machine boots: nothing ever waits for a guest agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeAddress {
    Declared(FamilyPair<std::net::IpAddr>),
    /// The next free address of its pool; which one it took is read back from the VM.
    FromPool(Vec<AddressRange>),
}
