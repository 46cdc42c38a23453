//! What is inside the machines, for `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::Serialize;
use talmox_exec::etcd::Etcd;
use talmox_plan::{Observed, SeenEtcd, SeenKubernetes, SeenMachine, SeenNode, SeenStage, rotation_standing};
use talmox_types::{NodeName, Realm};

use super::ends::Ending;
use super::etcd::{Trouble, advice, troubles};
use super::plan_text::{RED, YELLOW};
use super::text::{listed, safe};
use crate::printer::GREEN;

/// Talos, etcd and Kubernetes at one moment.
#[derive(Serialize)]
pub(crate) struct InsideView {
    pub(crate) health: SeenHealth,
    /// The version of Talos the description wants.
    pub(crate) described: String,
    pub(crate) talos: BTreeMap<NodeName, SeenMachine>,
    pub(crate) kubernetes: SeenKubernetes,
    pub(crate) etcd: Option<EtcdView>,
    /// When the first of the cluster's authorities ends: `2036-11-02`.
    pub(crate) certificates_end: Option<String>,
    /// Certificates and tokens that end soon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ending: Vec<Ending>,
    /// Authorities that are being replaced, and how far that is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rotation: Vec<String>,
}

#[derive(Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum SeenHealth {
    Healthy,
    /// Something is missing, or some machine is not there yet.
    Unhealthy {
        why: String,
    },
}

#[derive(Serialize)]
pub(crate) struct EtcdView {
    /// Members that are well, of how many.
    pub(crate) healthy: usize,
    pub(crate) members: usize,
    pub(crate) leader: Option<NodeName>,
    pub(crate) database_bytes: Option<u64>,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) troubles: Vec<Trouble>,
}

impl EtcdView {
    /// From what machines and members said; none if there is no etcd yet. `declared` are the control planes with an address.
    pub(crate) fn of(
        observed: &Observed,
        etcd: &Etcd,
        declared: &BTreeMap<NodeName, IpAddr>,
    ) -> Option<Self> {
        let (mut healthy, mut members) = (0, 0);
        for seen in observed.talos.values().filter_map(SeenMachine::configured) {
            if let Some(SeenEtcd::Member { healthy: well, members: known, .. }) = &seen.etcd {
                healthy += usize::from(*well);
                members = members.max(known.as_ref().map_or(0, Vec::len));
            }
        }
        let sizes = etcd.nodes.values().flatten().map(|health| health.database_bytes);
        (members > 0 || healthy > 0 || etcd.is_there()).then(|| Self {
            healthy,
            members: members.max(healthy),
            leader: etcd.leader().cloned(),
            database_bytes: sizes.max(),
            troubles: troubles(etcd, &declared.keys()),
        })
    }
}

/// How far each rotation is, for people.
pub(crate) fn rotation_words(observed: &Observed) -> Vec<String> {
    let phases = |realm: Realm| {
        let seen = observed.talos.values().filter_map(SeenMachine::configured);
        seen.map(|seen| seen.phases.of(realm)).collect::<Vec<_>>()
    };
    let silent = observed.talos.values().filter(|machine| machine.configured().is_none()).count();
    observed.rotating.iter().map(|realm| rotation_standing(*realm, &phases(*realm), silent)).collect()
}

/// The cells of a node, and what else there is to say of it.
pub(super) struct Inside {
    pub(super) talos: (String, anstyle::Style),
    pub(super) kubernetes: (String, anstyle::Style),
    pub(super) remarks: Vec<String>,
}

impl InsideView {
    /// The line below the sum.
    pub(super) fn sum(&self) -> String {
        let mut parts = vec![match &self.health {
            SeenHealth::Healthy => format!("{GREEN}healthy{GREEN:#}"),
            SeenHealth::Unhealthy { why } => format!("{YELLOW}not healthy{YELLOW:#}: {}", safe(why)),
        }];
        let configured = self.talos.values().filter_map(SeenMachine::configured);
        let talos: BTreeSet<String> = configured.map(|node| bare(&node.version)).collect();
        let kubelets: BTreeSet<String> = match &self.kubernetes {
            SeenKubernetes::Answers(cluster) => {
                cluster.nodes.values().map(|node| bare(&node.version)).collect()
            }
            SeenKubernetes::NotAsked | SeenKubernetes::Unreachable { .. } => BTreeSet::new(),
        };
        for (name, versions) in [("Talos", talos), ("Kubernetes", kubelets)] {
            let versions: Vec<String> = versions.into_iter().filter(|version| !version.is_empty()).collect();
            if !versions.is_empty() {
                parts.push(format!("{name} {}", listed(&versions)));
            }
        }
        parts.extend(self.etcd.as_ref().map(etcd));
        parts.extend(self.certificates_end.as_ref().map(|end| {
            let over = self.ending.iter().any(|ending| ending.ended_on(end));
            format!("certificates {} {end}", if over { "ended" } else { "end" })
        }));
        parts.join(" · ")
    }

    /// Whether machines run with something else than is described for them.
    pub(super) fn differs(&self) -> bool {
        let mut seen = self.talos.values().filter_map(SeenMachine::configured);
        let differs = |seen: &SeenNode| seen.config.as_ref().is_some_and(|changes| !changes.is_empty());
        seen.any(|seen| differs(seen) || self.is_behind(seen)) || self.is_unfinished()
    }

    /// Whether a machine runs another Talos than is described.
    fn is_behind(&self, seen: &SeenNode) -> bool {
        !seen.version.is_empty() && bare(&seen.version) != self.described
    }

    /// Whether a run of ours keeps pods off a node.
    fn is_unfinished(&self) -> bool {
        let SeenKubernetes::Answers(cluster) = &self.kubernetes else { return false };
        cluster.nodes.values().any(|node| node.cordoned_for.is_some())
    }

    /// Whether nodes run different versions of Talos.
    fn is_mixed(&self) -> bool {
        let configured = self.talos.values().filter_map(SeenMachine::configured);
        configured.map(|seen| seen.version.as_str()).collect::<BTreeSet<_>>().len() > 1
    }

    /// What is wrong with etcd, and what to type. `flags` lead to the same description and world.
    pub(super) fn advice(&self, flags: &str) -> String {
        self.etcd.as_ref().map(|etcd| advice(&etcd.troubles, flags)).unwrap_or_default()
    }

    /// A line for everything that is being replaced or ends soon.
    pub(super) fn warnings(&self) -> String {
        let line = |words: &dyn std::fmt::Display| format!("{YELLOW}!{YELLOW:#} {words}\n");
        let rotation =
            self.rotation.iter().map(|words| line(&format!("{words}; talmox apply goes on with it")));
        rotation.chain(self.ending.iter().map(|ending| line(ending))).collect()
    }

    pub(super) fn of(&self, node: &NodeName) -> Inside {
        let mut remarks = Vec::new();
        let talos = match self.talos.get(node) {
            None => nothing(),
            Some(SeenMachine::Unreachable { reason, .. }) => {
                remarks.push(format!("does not answer: {}", safe(reason)));
                ("silent".to_owned(), RED)
            }
            Some(SeenMachine::Maintenance { .. }) => ("maintenance".to_owned(), YELLOW),
            Some(SeenMachine::Foreign { why, .. }) => {
                remarks.push(safe(why));
                ("foreign".to_owned(), RED)
            }
            Some(SeenMachine::Configured(seen)) => {
                let is_behind = self.is_behind(seen);
                let (word, style) = configured(node, seen, is_behind, &mut remarks);
                if is_behind {
                    remarks.push(format!("Talos {} is described", self.described));
                }
                // Who has which is what matters then.
                let which = if self.is_mixed() { format!(" {}", bare(&seen.version)) } else { String::new() };
                (format!("{word}{which}"), style)
            }
        };
        if let SeenKubernetes::Answers(cluster) = &self.kubernetes
            && let Some(image) = cluster.installed.get(node.as_str())
        {
            let version = image.rsplit_once(':').map_or(image.as_str(), |(_, version)| version);
            remarks.push(format!("Talos {} is installed and waits for a restart", bare(version)));
        }
        if let SeenKubernetes::Answers(cluster) = &self.kubernetes
            && let Some(reason) = cluster.nodes.get(node.as_str()).and_then(|node| node.cordoned_for.as_ref())
        {
            remarks.push(format!("a run of talmox keeps pods off it ({})", safe(reason)));
        }
        if self.etcd.as_ref().and_then(|etcd| etcd.leader.as_ref()) == Some(node) {
            remarks.push("leader".to_owned());
        }
        Inside { talos, kubernetes: self.kubernetes(node), remarks }
    }

    fn kubernetes(&self, node: &NodeName) -> (String, anstyle::Style) {
        let SeenKubernetes::Answers(cluster) = &self.kubernetes else { return nothing() };
        match cluster.nodes.get(node.as_str()) {
            None => nothing(),
            Some(seen) if !seen.ready => ("NotReady".to_owned(), RED),
            Some(seen) if !seen.schedulable => ("Ready, cordoned".to_owned(), YELLOW),
            Some(_) => ("Ready".to_owned(), GREEN),
        }
    }
}

fn nothing() -> (String, anstyle::Style) {
    ("–".to_owned(), anstyle::Style::new())
}

/// `v1.13.9` is `1.13.9`.
fn bare(version: &str) -> String {
    safe(version.strip_prefix('v').unwrap_or(version))
}

fn etcd(view: &EtcdView) -> String {
    let mut text = format!("etcd {}/{}", view.healthy, view.members);
    if let Some(leader) = &view.leader {
        text.push_str(&format!(", leader {leader}"));
    }
    if let Some(bytes) = view.database_bytes {
        text.push_str(&format!(", {} MiB", bytes.div_ceil(1 << 20)));
    }
    text
}

fn configured(
    node: &NodeName,
    seen: &SeenNode,
    is_behind: bool,
    remarks: &mut Vec<String>,
) -> (String, anstyle::Style) {
    let word = match seen.stage {
        SeenStage::Unknown => "unknown",
        SeenStage::Booting => "booting",
        SeenStage::Installing => "installing",
        SeenStage::Maintenance => "maintenance",
        SeenStage::Running => "running",
        SeenStage::Rebooting => "rebooting",
        SeenStage::ShuttingDown => "shutting down",
        SeenStage::Resetting => "resetting",
        SeenStage::Upgrading => "upgrading",
    };
    remarks.extend(seen.unmet.iter().map(|unmet| format!("waits for {}", safe(unmet))));
    if let Some(SeenEtcd::Unknown { reason }) = &seen.etcd {
        remarks.push(format!("etcd: {}", safe(reason)));
    }
    // The image is in the configuration too: of one that runs another Talos that goes without saying.
    let mut changes = seen.config.iter().flatten();
    let differs = changes.any(|change| !(is_behind && change.key == "machine.install.image"));
    if differs && seen.on_trial.is_some() {
        remarks.push("another configuration is on trial, and goes back by itself".to_owned());
    } else if differs {
        remarks.push(format!("its configuration differs: talmox diff {node}"));
    }
    let style = if seen.stage == SeenStage::Running && seen.ready { GREEN } else { YELLOW };
    (word.to_owned(), style)
}
