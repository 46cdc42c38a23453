//! What was asked for beside the description.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use talmox_types::{ClusterUid, HostName, NodeName};

/// What a run shall do and may do. Whatever destroys must be asked for here, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for a flag that a person typed")]
pub struct Request {
    pub goal: Goal,
    /// How far the cluster is brought.
    #[serde(default)]
    pub until: Until,
    /// Only these nodes; empty for all.
    pub targets: BTreeSet<NodeName>,
    /// Undeclared nodes to be removed.
    pub remove: BTreeSet<NodeName>,
    /// Whether every undeclared node is to be removed; of templates, whether those that are described go too.
    pub prune: bool,
    /// Declared nodes whose VM is to be built anew.
    pub replace: BTreeSet<NodeName>,
    /// Declared nodes whose machine is given its configuration in maintenance mode though it had one before, each with the
    /// fingerprint its certificate must have, if the person said which.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reconfigure: BTreeMap<NodeName, Option<String>>,
    /// Whether nodes that stand on a template that is not described any more are built anew too.
    #[serde(default)]
    pub roll_templates: bool,
    /// Declared nodes whose VM is to be moved, and where to.
    pub moves: BTreeMap<NodeName, HostName>,
    /// Whether running VMs may be restarted for changes that need it.
    pub allow_reboot: bool,
    /// Whether a VM that is to be restarted and does not shut down in time is stopped hard.
    #[serde(default)]
    pub force_stop: bool,
    /// Fields whose difference is shown and not corrected this time.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub ignore_drift: BTreeSet<String>,
    #[serde(default)]
    pub upkeep: UpkeepRequest,
    /// Hosts of Proxmox that somebody knows more about than Proxmox does.
    #[serde(default)]
    pub hosts: HostsRequest,
}

/// What was said about hosts of Proxmox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostsRequest {
    /// Hosts that are gone for good: what Proxmox still lists there does not run, and never will again.
    pub gone: BTreeSet<HostName>,
    /// With [`Goal::Hosts`]: the host that nodes are taken off.
    pub drain: Option<HostName>,
    /// With [`Goal::Hosts`]: the host that takes up again what it carried before it was drained.
    pub back: Option<HostName>,
    /// Whether what was moved away from it is moved back.
    pub move_back: bool,
}

/// What was asked for about a cluster that lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpkeepRequest {
    /// How many workers may be away at a time; none: one.
    pub max_unavailable: Option<std::num::NonZeroUsize>,
    /// Whether upgrades are installed now, and their restart is left for later.
    pub stage: bool,
    /// Whether risky steps may go without a snapshot of etcd.
    pub no_snapshot: bool,
    /// The snapshot a cluster without data begins with.
    pub restore: Option<crate::Snapshot>,
    /// Whether somebody has given their word that etcd will never have a majority again: what members are left with is given
    /// up for the snapshot.
    pub quorum_lost: bool,
    /// When what runs may be interrupted.
    pub window: crate::Window,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The cluster as described.
    #[default]
    Converge,
    /// No VM of the cluster, or none of the targets.
    Destroy,
    /// The templates of the description on every host that may carry its VMs, and nothing else.
    Templates,
    /// No template and no image of ours that is not described any more.
    PruneTemplates,
    /// A host of Proxmox without nodes of the cluster, or with those again that it had.
    Hosts,
}

/// How far a cluster is brought. Each includes those before it, and nobody asks a machine unless it goes beyond the VMs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Until {
    /// The VMs are there and run.
    #[default]
    Vms,
    /// Every machine answers at its address.
    Reachable,
    /// Every machine has its configuration.
    Configured,
    /// etcd runs.
    Bootstrapped,
    /// Every check of the cluster's health is met.
    Healthy,
}

impl Until {
    pub const ALL: [Self; 5] =
        [Self::Vms, Self::Reachable, Self::Configured, Self::Bootstrapped, Self::Healthy];

    /// The word of the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vms => "vms",
            Self::Reachable => "reachable",
            Self::Configured => "configured",
            Self::Bootstrapped => "bootstrapped",
            Self::Healthy => "healthy",
        }
    }
}

impl Request {
    /// Whether the machines themselves are part of it, and not only their VMs.
    pub fn looks_inside(&self) -> bool {
        matches!(self.goal, Goal::Converge | Goal::Hosts) && self.until > Until::Vms
    }

    /// Whether a VM may go in this run.
    pub fn removes(&self) -> bool {
        self.goal == Goal::Destroy
            || self.prune
            || !self.remove.is_empty()
            || !self.replace.is_empty()
            || self.roll_templates
    }

    /// Whether a node is within what this run looks at.
    pub fn covers(&self, node: &NodeName) -> bool {
        self.targets.is_empty() || self.targets.contains(node)
    }
}

/// What tells the VMs one run makes from those of another: eight hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

impl TryFrom<String> for Nonce {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let valid = text.len() == 8 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(text)) } else { Err(format!("{text} is not eight hexadecimal digits")) }
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.0
    }
}

impl Nonce {
    pub fn new(random: u32) -> Self {
        Self(format!("{random:08x}"))
    }

    /// What stands for the uid of a cluster that has none yet, so that it can be planned. Never applied.
    pub(crate) fn stand_in(&self) -> ClusterUid {
        ClusterUid::parse(&format!("{0}{0}", self.0)).expect("twice eight hexadecimal digits are a uid")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
