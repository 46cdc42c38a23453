//! A machine: what it is made of, and what runs on it.
//!
//! ```text
//!  off ── power ──▶ firmware, kernel ──▶ Run: booting ──▶ maintenance ──config──▶ booting ──▶ running
//!   ▲                     ▲                     └─ config found ─────────────────▶ │ (ISO: installing ─▶ rebooting)
//!   └─ shutdown           └──────────────────────────── rebooting, resetting, upgrading
//! ```
//!
//! Everything in memory is in [`Run`] and is gone with it; what lasts is on the disks.

pub(crate) mod boot;
pub(crate) mod certificates;
pub(crate) mod components;
pub(crate) mod configure;
pub(crate) mod fetch;
pub(crate) mod journal;
pub(crate) mod kubelet;
pub(crate) mod network;
pub(crate) mod run_services;
mod selector;
pub(crate) mod sequence;
pub(crate) mod settings;
pub(crate) mod static_pods;
pub(crate) mod status;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::disk::EtcdData;
use crate::hardware::{DiskId, Hardware, Image, Platform};
use crate::images::Stored;
use crate::nocloud::PlatformNetwork;
use crate::services::Service;
use certificates::Pair;
use components::Versions;
use journal::Entry;
use network::Network;
use settings::{Role, Settings};
use static_pods::Pod;
use status::Status;

/// A machine the hypervisor knows.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) hardware: Hardware,
    pub(crate) on: bool,
    /// Counts power-ons and restarts: what was scheduled before the last one is void.
    pub(crate) boot: u64,
    /// None while it is off, in its firmware, or has nothing to boot.
    pub(crate) run: Option<Run>,
}

/// What a machine is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Booting,
    Installing,
    Maintenance,
    Running,
    Rebooting,
    ShuttingDown,
    Resetting,
    Upgrading,
}

/// Who is let in on port 50000.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum Port {
    Closed,
    Maintenance(Pair),
    Secure(Pair),
}

/// The configuration in force. It holds secrets.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Active {
    pub(crate) text: String,
    pub(crate) settings: Settings,
    /// Of what the control plane's pods and the kubelet are made from.
    pub(crate) versions: Versions,
    /// Counts what was applied, for versions of resources.
    pub(crate) version: u64,
    pub(crate) since: u64,
}

/// A sequence that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sequence {
    pub(crate) name: String,
    /// Who asked for it; empty if nobody did.
    pub(crate) actor: String,
}

/// Talos, running.
#[derive(Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each says something else of one machine")]
pub(crate) struct Run {
    pub(crate) image: Image,
    /// The disk Talos is installed on.
    pub(crate) system: Option<DiskId>,
    pub(crate) boot_id: String,
    pub(crate) started: u64,
    pub(crate) stage: Stage,
    pub(crate) port: Port,
    /// Files it asked web servers for and waits for.
    #[serde(default)]
    pub(crate) wants: Vec<String>,
    /// Files it got, by URL; one that a server does not have is empty.
    #[serde(default)]
    pub(crate) fetched: BTreeMap<String, Vec<u8>>,
    /// What the platform says of the network and the node's name.
    pub(crate) platform: PlatformNetwork,
    pub(crate) network: Network,
    /// The configuration in force; none in maintenance.
    pub(crate) active: Option<Active>,
    /// What will be in force at the next boot.
    pub(crate) persistent: Option<String>,
    /// Counts how often it was written in this run.
    pub(crate) persisted: u64,
    /// When it was written last.
    #[serde(default)]
    pub(crate) persisted_at: u64,
    /// Documents without `machine` and `cluster` that were applied in maintenance.
    pub(crate) partial: Option<String>,
    /// What returns when a trial ends, and which trial that is.
    pub(crate) trial: Option<Trial>,
    /// Counts trials: the end of an earlier one is void.
    pub(crate) trials: u64,
    /// Until when a configuration is being applied: another one has to wait.
    pub(crate) applying: u64,
    pub(crate) time_synced: bool,
    /// Partitions are there and mounted.
    pub(crate) volumes: bool,
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) journal: Vec<Entry>,
    /// As it was last told.
    pub(crate) status: Status,
    /// What the kernel and Talos wrote to the console.
    pub(crate) console: Vec<(u64, String)>,
    /// When the configuration was applied that made the machine leave maintenance.
    pub(crate) configured: Option<u64>,
    /// Images pulled into memory.
    pub(crate) images: Vec<Stored>,
    /// Kubernetes, as far as it concerns this node.
    pub(crate) kubernetes: Kubernetes,
    /// The call that asked for etcd's first member was taken.
    pub(crate) bootstrap: Option<Bootstrap>,
    pub(crate) etcd: EtcdRun,
    /// The boot sequence does not wait for etcd: it was started anew meanwhile.
    pub(crate) etcd_excused: bool,
    /// An installer runs.
    pub(crate) upgrading: bool,
    /// A validation of an installer was left behind: no other can begin until the next boot.
    pub(crate) validation_stuck: bool,
    /// Counts ways down: what was scheduled for an earlier one is void.
    pub(crate) descent: u64,
}

/// How far etcd's service is in this run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EtcdRun {
    /// Its process is on the way.
    pub(crate) starting: bool,
    /// A cluster took it in as this member; its data is not written yet.
    pub(crate) joining: Option<EtcdData>,
    /// The first health check was made.
    pub(crate) checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bootstrap {
    pub(crate) recover: bool,
    pub(crate) skip_hash_check: bool,
}

/// What returns when the time of a trial is up: none is the state before any configuration.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Trial {
    pub(crate) number: u64,
    pub(crate) before: Option<String>,
}

/// How far this node is as a part of Kubernetes.
#[derive(Clone, Default, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "steps that are not taken in one order")]
pub(crate) struct Kubernetes {
    /// Static pods are on the way, or there.
    pub(crate) pods_due: bool,
    /// Static pods, by name.
    pub(crate) pods: BTreeMap<String, Pod>,
    /// From when on their state is known here: a kubelet that started anew tells of them after a while.
    pub(crate) pods_known_from: u64,
    /// The node left etcd and took its pods away.
    pub(crate) withdrawn: bool,
    /// The API server of this node answers, and shows this.
    pub(crate) api_server: Option<Pair>,
    /// The node object was made, or found.
    pub(crate) registered: bool,
    /// The kubelet says it is ready.
    pub(crate) ready: bool,
    /// A step is scheduled already.
    pub(crate) pending: bool,
}

impl Machine {
    pub(crate) fn new(hardware: Hardware) -> Self {
        Self { hardware, on: false, boot: 0, run: None }
    }
}

impl Run {
    pub(crate) fn new(image: Image, system: Option<DiskId>, boot_id: String, now: u64) -> Self {
        Self {
            image,
            system,
            boot_id,
            started: now,
            stage: Stage::Booting,
            port: Port::Closed,
            wants: Vec::new(),
            fetched: BTreeMap::new(),
            platform: PlatformNetwork::default(),
            network: Network::default(),
            active: None,
            persistent: None,
            persisted: 0,
            persisted_at: 0,
            partial: None,
            trial: None,
            trials: 0,
            applying: 0,
            time_synced: false,
            volumes: false,
            services: BTreeMap::new(),
            sequence: None,
            journal: Vec::new(),
            status: Status::default(),
            console: Vec::new(),
            configured: None,
            images: Vec::new(),
            kubernetes: Kubernetes::default(),
            bootstrap: None,
            etcd: EtcdRun::default(),
            etcd_excused: false,
            upgrading: false,
            validation_stuck: false,
            descent: 0,
        }
    }

    /// The second number of its version.
    pub(crate) fn minor(&self) -> u16 {
        minor(&self.image.version)
    }

    pub(crate) fn is_container(&self) -> bool {
        self.image.platform == Platform::Container
    }

    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.active.as_ref().map(|active| &active.settings)
    }

    pub(crate) fn is_control_plane(&self) -> bool {
        self.settings().is_some_and(|settings| settings.role == Role::ControlPlane)
    }

    pub(crate) fn is_service_up(&self, id: &str) -> bool {
        self.services.get(id).is_some_and(Service::is_up)
    }

    /// A machine that is on its way down takes nothing new.
    pub(crate) fn is_going_down(&self) -> bool {
        matches!(self.stage, Stage::Rebooting | Stage::ShuttingDown | Stage::Resetting | Stage::Upgrading)
    }
}

pub(crate) fn minor(version: &str) -> u16 {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_default()
}
