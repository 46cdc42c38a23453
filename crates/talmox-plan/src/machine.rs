//! What the machines themselves and their Kubernetes said at one moment.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::Serialize;
use talmox_types::Phases;
use talmox_types::sabotage::{Defect, sabotaged};

use crate::{Change, Component};

/// The machine at the address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SeenMachine {
    /// Nothing answers, or nothing that makes sense: what runs there is not known.
    Unreachable { address: IpAddr, reason: String },
    /// Talos without a configuration.
    Maintenance {
        address: IpAddr,
        /// The SMBIOS uuid it says it has; only if it is the VM's own does it get anything.
        uuid: String,
        /// `v1.13.9`; Talos before 1.13 does not tell.
        version: Option<String>,
        /// Of its certificate, as it prints it on its console.
        #[serde(skip_serializing_if = "Option::is_none")]
        fingerprint: Option<String>,
    },
    /// Another machine than the node's VM.
    Foreign { address: IpAddr, why: String },
    /// Talos with a configuration of this cluster.
    Configured(Box<SeenNode>),
}

/// A configured machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenNode {
    pub address: IpAddr,
    /// `v1.13.9`.
    pub version: String,
    /// The schematic its image was made from, if the image says so.
    pub schematic: Option<String>,
    /// Extensions it has, by name.
    pub extensions: Vec<String>,
    pub stage: SeenStage,
    pub ready: bool,
    /// What it still waits for, as `services: etcd not running`.
    pub unmet: Vec<String>,
    /// What of its configuration is not as described, secrets masked. None: it could not be compared.
    pub config: Option<Vec<Change>>,
    /// Why it could not, if somebody tried.
    pub incomparable: Option<Incomparable>,
    /// What its Talos has against the described configuration, in its own words, other than that it needs a restart.
    pub refuses: Option<String>,
    /// Since when another configuration than the one on its disk is in force, on trial: seconds since 1970.
    pub on_trial: Option<u64>,
    /// Images its configuration names, by the place they are named at: `machine.kubelet.image`, `KubeletConfig image`.
    pub images: BTreeMap<String, String>,
    /// How far it is with authorities that are being replaced.
    pub phases: Phases,
    /// Of a control plane; none for a worker.
    pub etcd: Option<SeenEtcd>,
    /// Parts of Kubernetes a control plane is told to run and has no static pod of. None: it could not be told, or has no
    /// etcd to run them on.
    pub absent_pods: Option<Vec<String>>,
    /// By name.
    pub services: BTreeMap<String, SeenService>,
}

/// Why a configuration could not be compared with what is described.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Incomparable {
    /// What is described cannot be told, or what there is cannot be read: it stays so.
    Wanted(String),
    /// The machine does not say what it has.
    Has(String),
}

impl std::fmt::Display for Incomparable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Wanted(reason) | Self::Has(reason)) = self;
        f.write_str(reason)
    }
}

/// What a machine is doing, in Talos' words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenStage {
    Unknown,
    Booting,
    Installing,
    Maintenance,
    Running,
    Rebooting,
    ShuttingDown,
    Resetting,
    Upgrading,
}

impl SeenStage {
    /// Whether a machine that has a configuration has it on its disk. Until it has installed itself it is in maintenance mode
    /// again after a power cut.
    pub fn keeps_configuration(self) -> bool {
        match self {
            Self::Unknown | Self::Installing | Self::Maintenance => false,
            Self::Booting
            | Self::Running
            | Self::Rebooting
            | Self::ShuttingDown
            | Self::Resetting
            | Self::Upgrading => true,
        }
    }
}

/// A control plane's part of etcd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SeenEtcd {
    /// It could not be told.
    Unknown { reason: String },
    /// No data: the service waits to be told, or has not come so far that it wrote any.
    Empty,
    /// There is data.
    Member {
        healthy: bool,
        /// Names of all members it knows of, voting or not; none if it could not be asked.
        members: Option<Vec<String>>,
        /// How many of them do not vote yet.
        learners: usize,
        /// It runs and had no leader for longer than an election takes: too few of those that vote are there.
        leaderless: bool,
        /// It is the leader.
        leads: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenService {
    /// `Running`, `Preparing`, `Finished`.
    pub state: String,
    /// None until its health is known.
    pub healthy: Option<bool>,
    /// The last thing that was said about it.
    pub message: String,
}

/// What Kubernetes says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SeenKubernetes {
    /// Nobody asked: there is none yet, or nothing needs to know.
    #[default]
    NotAsked,
    Unreachable {
        reason: String,
    },
    Answers(SeenCluster),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SeenCluster {
    /// By name, as Kubernetes calls them.
    pub nodes: BTreeMap<String, SeenKubernetesNode>,
    /// What of the bootstrap has been done, by the digest of what was to be done.
    pub manifests: Option<String>,
    pub post_bootstrap: Option<String>,
    /// Images of the control planes' pods, as the pods themselves say: by component and node.
    pub pods: BTreeMap<Component, BTreeMap<String, String>>,
    /// The image of kube-proxy, if there is one and it is to be.
    pub proxy: Option<String>,
    /// Installers that were run beside what runs and wait for a restart, by the name of the node.
    pub installed: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenKubernetesNode {
    pub ready: bool,
    pub schedulable: bool,
    /// Of its kubelet: `v1.36.3`.
    pub version: String,
    /// What we keep pods off it for, if it was us.
    pub cordoned_for: Option<String>,
    /// The SMBIOS uuid of the machine its kubelet runs on.
    pub uuid: Option<String>,
}

impl SeenMachine {
    /// The machine, if it has a configuration of ours.
    pub fn configured(&self) -> Option<&SeenNode> {
        match self {
            Self::Configured(node) => Some(node),
            Self::Unreachable { .. } | Self::Maintenance { .. } | Self::Foreign { .. } => None,
        }
    }

    /// The same, if a power cut does not take the configuration from it.
    pub fn configured_for_good(&self) -> Option<&SeenNode> {
        self.configured().filter(|node| node.stage.keeps_configuration())
    }

    pub fn address(&self) -> IpAddr {
        match self {
            Self::Unreachable { address, .. }
            | Self::Maintenance { address, .. }
            | Self::Foreign { address, .. } => *address,
            Self::Configured(node) => node.address,
        }
    }
}

impl SeenNode {
    /// Whether it has finished booting and everything on it works.
    ///
    /// A control plane that joins says that it is running and ready once its etcd is, and half a minute later that it is not: its
    /// static pods are there then, and pending. So the ones it is to have must be there before its word counts.
    pub fn is_well(&self) -> bool {
        let etcd_is_well = match &self.etcd {
            None => true,
            Some(SeenEtcd::Member { healthy, learners, .. }) => *healthy && *learners == 0,
            Some(SeenEtcd::Unknown { .. } | SeenEtcd::Empty) => false,
        };
        let has_pods =
            self.absent_pods.as_ref().is_some_and(Vec::is_empty) || sabotaged(Defect::ReadinessBelieved);
        self.stage == SeenStage::Running && self.ready && etcd_is_well && has_pods
    }

    /// Why it is not well, as those beside it see it.
    pub(crate) fn complaint_beside<'a>(&self, name: &str, well: impl Iterator<Item = &'a Self>) -> String {
        if self.has_left_etcd(name, well) {
            return format!(
                "{name} left etcd, and does not come back by itself: talmox apply --replace {name} builds it anew"
            );
        }
        format!("{name} is not well: {}", self.complaint())
    }

    /// Whether it was a member of etcd and is none any more: it has booted, its etcd does not run, and no member that is well
    /// knows of it. One that joins is still booting.
    pub(crate) fn has_left_etcd<'a>(&self, name: &str, mut well: impl Iterator<Item = &'a Self>) -> bool {
        let stands_still = self.unmet.iter().any(|unmet| unmet.contains("etcd not running"));
        let unknown_to = |other: &Self| match &other.etcd {
            Some(SeenEtcd::Member { members: Some(members), .. }) => {
                !members.iter().any(|member| member == name)
            }
            Some(_) | None => false,
        };
        self.etcd.is_some() && self.stage == SeenStage::Running && stands_still && well.any(unknown_to)
    }

    /// Why it is not well, in a few words.
    pub fn complaint(&self) -> String {
        let mut words = vec![format!("{:?}", self.stage).to_lowercase()];
        if !self.ready && self.unmet.is_empty() {
            words.push("not ready".to_owned());
        }
        words.extend(self.unmet.iter().cloned());
        if let Some(SeenEtcd::Unknown { reason }) = &self.etcd {
            words.push(format!("etcd: {reason}"));
        }
        match &self.absent_pods {
            Some(absent) if !absent.is_empty() => {
                words.push(format!("no static pod of {}", absent.join(", ")));
            }
            None if self.ready => words.push("its static pods are not known".to_owned()),
            Some(_) | None => {}
        }
        words.join(", ")
    }
}
