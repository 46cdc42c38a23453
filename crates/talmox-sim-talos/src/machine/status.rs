//! Stage and readiness: what `MachineStatus` says.

use serde::{Deserialize, Serialize};

use super::journal::Happened;
use super::static_pods::PodState;
use super::{Run, Stage};
use crate::hardware::MachineId;
use crate::nodes::Nodes;
use crate::services::{Health, Service};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) stage: Stage,
    pub(crate) ready: bool,
    pub(crate) unmet: Vec<Unmet>,
    /// Counts changes.
    pub(crate) version: u64,
    pub(crate) changed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unmet {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Default for Status {
    fn default() -> Self {
        Self { stage: Stage::Booting, ready: true, unmet: Vec::new(), version: 0, changed: 0 }
    }
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Booting => "booting",
            Self::Installing => "installing",
            Self::Maintenance => "maintenance",
            Self::Running => "running",
            Self::Rebooting => "rebooting",
            Self::ShuttingDown => "shutting down",
            Self::Resetting => "resetting",
            Self::Upgrading => "upgrading",
        }
    }
}

impl Run {
    /// Conditions are looked at only while booting and running; other stages count as ready.
    pub(crate) fn unmet(&self, now: u64) -> Vec<Unmet> {
        if !matches!(self.stage, Stage::Booting | Stage::Running) {
            return Vec::new();
        }
        let unmet = |name: &str, reason: String| Unmet { name: name.to_owned(), reason };
        let time = (!self.time_synced).then(|| unmet("time", "time is not synced".to_owned()));
        let network = (!self.network.is_ready())
            .then(|| unmet("network", "waiting on: address, connectivity".to_owned()));
        let services = self.services_unmet().map(|reason| unmet("services", reason));
        let pods = self.pods_unmet(now).map(|reason| unmet("staticPods", reason));
        let node = self.node_unmet().map(|reason| unmet("nodeReady", reason));
        [time, network, services, pods, node].into_iter().flatten().collect()
    }

    /// A health check that has not come yet is not held against a service.
    fn services_unmet(&self) -> Option<String> {
        let mut wanted = vec!["apid", "machined", "kubelet"];
        if self.is_control_plane() {
            wanted.extend(["etcd", "trustd"]);
        }
        let running = |id: &&str| self.services.get(*id).is_some_and(Service::is_running);
        let (running, missing): (Vec<&str>, Vec<&str>) = wanted.into_iter().partition(running);
        let sick = |id: &&str| self.services.get(*id).is_some_and(|one| one.health == Health::Failed);
        let sick = running.into_iter().filter(sick).map(|id| format!("{id} not healthy"));
        let missing = missing.into_iter().map(|id| format!("{id} not running"));
        let words: Vec<String> = sick.chain(missing).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    fn pods_unmet(&self, now: u64) -> Option<String> {
        let pending: Vec<String> = self
            .kubernetes
            .shown_pods(now)
            .filter(|(_, pod)| pod.state != PodState::Ready)
            .map(|(pod, _)| format!("kube-system/{pod}-{} pending", self.network.hostname))
            .collect();
        (!pending.is_empty()).then(|| pending.join(", "))
    }

    fn node_unmet(&self) -> Option<String> {
        self.active.as_ref()?;
        let name = &self.network.hostname;
        if !self.kubernetes.registered {
            Some(format!("node \"{name}\" status is not available yet"))
        } else if self.kubernetes.ready {
            None
        } else {
            Some(format!("node \"{name}\" is not ready"))
        }
    }
}

impl Nodes {
    /// Tells of the status if it is another than before.
    pub(crate) fn note_status(&mut self, machine: MachineId) {
        let now = self.clock;
        let Some(run) = self.run_mut(machine) else { return };
        let unmet = run.unmet(now);
        let (stage, ready) = (run.stage, unmet.is_empty());
        if (run.status.stage, run.status.ready, &run.status.unmet) == (stage, ready, &unmet)
            && run.status.version > 0
        {
            return;
        }
        run.status = Status { stage, ready, unmet, version: run.status.version + 1, changed: now };
        let status = run.status.clone();
        self.note(machine, Happened::Status { status, unknown: false });
        if stage == Stage::Running && ready {
            self.pass_trial(machine);
        }
    }
}
