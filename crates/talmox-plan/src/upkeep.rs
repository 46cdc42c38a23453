//! What is done to a cluster that lives: change, upgrade, drain, retire, recover.
//!
//! ```text
//!  snapshot ─▶ drain ─▶ upgrade, restart, change … ─▶ return (well again, pods welcome) ─▶ the next node
//!              └── the gate: quorum without it, one at a time ──┘
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_pve::property::{Slot, VolumeId};
use talmox_types::{AwayWord, FamilyPair, HostName, Mark, NodeName, Phase, PoolName, Realm, StorageId};

use crate::Expected;

/// Values of a VM that take effect when Proxmox starts it anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedRestart {
    /// `memory`, and others.
    pub keys: Vec<String>,
    /// Seconds the guest gets to shut down.
    pub timeout: u32,
}

/// A step of upkeep. Like every step it looks before it acts, is done when its result is seen, and may run twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "upkeep", rename_all = "snake_case")]
pub enum Upkeep {
    /// Writes a snapshot of etcd to where the description keeps them, and proves that it can be read.
    SnapshotEtcd {
        /// Control planes that can be asked, in the order they are tried.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
    /// Keeps new pods off a node and moves those on it elsewhere, within the budgets they have.
    DrainNode { node: NodeName },
    /// Waits until a node is well again, and lets pods back if it was us who kept them off.
    ReturnNode { node: NodeName, address: IpAddr },
    /// Gives a machine the configuration that is described now, and reads it back.
    ChangeNode { vm: Expected, address: FamilyPair<IpAddr>, mode: ChangeMode },
    /// Installs another Talos, or other extensions, beside the one that runs, and restarts into it.
    UpgradeNode {
        vm: Expected,
        address: IpAddr,
        /// `1.13.6`.
        from: String,
        to: String,
        /// The installer's image.
        installer: String,
        /// What the image must say it was made from.
        schematic: Option<String>,
        /// Installed now; the restart is left to whoever comes next.
        stage: bool,
        /// What of its VM waits for a restart too. Proxmox then restarts it instead of Talos, so that one restart does for both.
        #[serde(default)]
        carries: Option<CarriedRestart>,
        /// Where Kubernetes is asked, by name.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
    /// Moves every component of Kubernetes to another version, one after the other.
    UpgradeKubernetes {
        from: String,
        to: String,
        control_planes: BTreeMap<NodeName, IpAddr>,
        workers: BTreeMap<NodeName, IpAddr>,
    },
    /// Takes a node out of etcd in good order and wipes it, before its VM goes.
    RetireNode {
        vm: Expected,
        address: IpAddr,
        /// Other control planes, who say whether it is still a member.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
    /// Removes what is left of a node that is gone: a member of etcd that will not come back, and its object in Kubernetes.
    ForgetNode {
        node: NodeName,
        /// Where it was: nothing of this cluster may answer there any more.
        address: Option<IpAddr>,
        /// Other control planes, who are asked to forget it.
        control_planes: BTreeMap<NodeName, IpAddr>,
    },
    /// Brings every machine one phase on with an authority that takes the place of another.
    RotateAuthority {
        realm: Realm,
        /// The phase all of them have afterwards. All of them have the one before.
        phase: Phase,
        control_planes: BTreeMap<NodeName, IpAddr>,
        workers: BTreeMap<NodeName, IpAddr>,
    },
    /// Puts the new authority in the place of the old one where the secrets are kept: no machine knows the old one any more.
    SettleAuthority {
        realm: Realm,
        control_planes: BTreeMap<NodeName, IpAddr>,
        workers: BTreeMap<NodeName, IpAddr>,
    },
    /// Writes into a VM's mark why it is away, or that it is back, so that whoever comes next knows.
    NoteAway { vm: Expected, away: Option<AwayWord> },
    /// Makes a VM that holds disks of a node while the node's own VM is built anew. It never runs. The id is the one to try
    /// first.
    MakeShelf { host: HostName, mark: Mark, pool: Option<PoolName> },
    /// Gives a disk of one VM of a node to the other, at the same slot: to the shelf before a VM goes, from it to the one
    /// that takes its place.
    MoveDisk {
        from: Expected,
        to: Box<Expected>,
        slot: Slot,
        storage: StorageId,
        /// The volume, where its name is known already: it gets another one each time it is given away.
        volume: Option<VolumeId>,
    },
    /// Moves a shelf to another host, which sees the storages of all that is on it.
    MoveShelf { vm: Expected, to: HostName },
    /// Removes a shelf that holds nothing any more.
    RemoveShelf { vm: Expected },
    /// Makes the first member of etcd from a snapshot. Guarded like the bootstrap.
    RecoverEtcd {
        /// With the intent in its mark.
        vm: Expected,
        address: IpAddr,
        control_planes: BTreeMap<NodeName, IpAddr>,
        snapshot: Snapshot,
    },
}

/// How a machine takes another configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeMode {
    /// At once, and nothing restarts but services.
    NoReboot,
    /// At once, and taken back by the machine itself unless it is confirmed: for what could cut it off.
    Try,
    /// The same with all of a change but what needs a restart, which comes after it.
    TryFirst,
    /// Written down, then a restart.
    Reboot,
    /// A restart with what is written down already; nothing is sent.
    Restart,
    /// Written down; in effect after the next restart, which is somebody else's.
    Staged,
}

/// A snapshot of etcd: a file, and what its bytes must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub path: String,
    /// SHA-256 of what is in the file, in hexadecimal digits.
    pub digest: String,
}

impl Upkeep {
    /// The VM the step acts on.
    pub fn vm(&self) -> Option<&Expected> {
        match self {
            Self::ChangeNode { vm, .. }
            | Self::UpgradeNode { vm, .. }
            | Self::RetireNode { vm, .. }
            | Self::NoteAway { vm, .. }
            | Self::MoveDisk { from: vm, .. }
            | Self::MoveShelf { vm, .. }
            | Self::RemoveShelf { vm }
            | Self::RecoverEtcd { vm, .. } => Some(vm),
            Self::SnapshotEtcd { .. }
            | Self::MakeShelf { .. }
            | Self::DrainNode { .. }
            | Self::ReturnNode { .. }
            | Self::UpgradeKubernetes { .. }
            | Self::RotateAuthority { .. }
            | Self::SettleAuthority { .. }
            | Self::ForgetNode { .. } => None,
        }
    }

    /// Whether the step is about machines, and not about VMs and what hangs on them.
    pub fn is_inside(&self) -> bool {
        !matches!(
            self,
            Self::MakeShelf { .. }
                | Self::MoveDisk { .. }
                | Self::MoveShelf { .. }
                | Self::RemoveShelf { .. }
        )
    }

    /// A short word for ids, progress and programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::SnapshotEtcd { .. } => "snapshot-etcd",
            Self::DrainNode { .. } => "drain",
            Self::ReturnNode { .. } => "return",
            Self::ChangeNode { .. } => "change-node",
            Self::UpgradeNode { .. } => "upgrade-node",
            Self::UpgradeKubernetes { .. } => "upgrade-kubernetes",
            Self::RetireNode { .. } => "retire",
            Self::ForgetNode { .. } => "forget",
            Self::NoteAway { .. } => "note-away",
            Self::MakeShelf { .. } => "make-shelf",
            Self::MoveDisk { .. } => "move-disk",
            Self::MoveShelf { .. } => "move-shelf",
            Self::RemoveShelf { .. } => "remove-shelf",
            Self::RecoverEtcd { .. } => "recover-etcd",
            Self::RotateAuthority { .. } => "rotate-authority",
            Self::SettleAuthority { .. } => "settle-authority",
        }
    }
}
