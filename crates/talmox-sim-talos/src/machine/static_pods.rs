//! The control plane's pods as a node's kubelet runs them.
//!
//! ```text
//!  another configuration ──(the kubelet looks at times)──▶ ending ──(grace)──▶ starting ──▶ ready
//!     versions of resources: at once     StaticPodStatus: pending    mirror: another pod     all of them
//! ```
//!
//! Until the kubelet looks, everything shows the old pod as ready; an API server that ends refuses its clients.

use serde::{Deserialize, Serialize};

use super::components::PODS;
use super::{Kubernetes, Run};
use crate::hardware::MachineId;
use crate::nodes::{Event, Nodes};

const API_SERVER: &str = PODS[0];

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pod {
    pub(crate) image: String,
    /// Of what it was made from.
    pub(crate) config_version: u64,
    pub(crate) secrets_version: u64,
    pub(crate) state: PodState,
    /// Counts changes of what it is made from: what was scheduled for an earlier one is void.
    turn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PodState {
    Starting,
    Ready,
    /// Makes room for another one.
    Ending,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PodStep {
    /// The kubelet sees that it should be another one.
    Noticed,
    Ended,
    Ready,
}

impl Kubernetes {
    /// Those that run, as far as the node itself knows of them.
    pub(crate) fn shown_pods(&self, now: u64) -> impl Iterator<Item = (&str, &Pod)> {
        let known = !self.withdrawn && now >= self.pods_known_from;
        self.pods.iter().filter(move |_| known).map(|(name, pod)| (name.as_str(), pod))
    }

    pub(crate) fn has_pods(&self) -> bool {
        !self.pods.is_empty() && !self.withdrawn
    }

    pub(crate) fn pods_are_ready(&self) -> bool {
        self.has_pods() && self.pods.values().all(|pod| pod.state == PodState::Ready)
    }
}

impl Run {
    /// Every pod it has is made from what it should be made from now, and ready.
    fn has_settled(&self) -> bool {
        let Some(active) = &self.active else { return true };
        self.kubernetes.pods.iter().all(|(name, pod)| {
            pod.state == PodState::Ready
                && pod.config_version == active.versions.pod(name)
                && pod.secrets_version == active.versions.secrets
        })
    }
}

impl Nodes {
    /// No kubelet has a change of its control plane's pods before it. From outside this looks the same until it looks.
    pub fn pods_have_settled(&self) -> bool {
        self.machines.values().filter_map(|machine| machine.run.as_ref()).all(Run::has_settled)
    }

    fn pod_of(run: &Run, name: &str, turn: u64) -> Option<Pod> {
        let active = run.active.as_ref()?;
        Some(Pod {
            image: active.settings.components.pod(name).image.clone(),
            config_version: active.versions.pod(name),
            secrets_version: active.versions.secrets,
            state: PodState::Starting,
            turn,
        })
    }

    /// All of them start, for the first time since the machine booted.
    pub(crate) fn start_pods(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.withdrawn = false;
        }
        let (half, all) = (self.timing.api_server / 2, self.timing.static_pods);
        for name in PODS {
            let Some(run) = self.run_mut(id) else { return };
            if let Some(pod) = Self::pod_of(run, name, 0) {
                run.kubernetes.pods.insert(name.to_owned(), pod);
            }
            self.schedule_pod(id, name, half + all, PodStep::Ready);
        }
        self.schedule_about(id, half, Event::ApiServer);
    }

    fn schedule_pod(&mut self, id: MachineId, name: &str, after: u64, step: PodStep) {
        let Some(turn) = self.run(id).and_then(|run| run.kubernetes.pods.get(name)).map(|pod| pod.turn)
        else {
            return;
        };
        self.schedule_about(id, after, Event::Pod { name: name.to_owned(), turn, step });
    }

    /// A pod should be another one; its kubelet finds out by itself.
    pub(crate) fn renew_pod(&mut self, id: MachineId, name: &str) {
        let pod = self.run_mut(id).and_then(|run| run.kubernetes.pods.get_mut(name));
        if let Some(pod) = pod {
            pod.turn += 1;
            let after = if name == API_SERVER { self.timing.pod_look } else { self.timing.pod_look / 2 };
            self.schedule_pod(id, name, after, PodStep::Noticed);
        }
    }

    pub(crate) fn pod_step(&mut self, id: MachineId, name: &str, turn: u64, step: PodStep) {
        let Some(run) = self.run(id) else { return };
        if run.kubernetes.pods.get(name).is_none_or(|pod| pod.turn != turn) {
            return;
        }
        match step {
            PodStep::Noticed if !run.is_service_up("kubelet") => {
                let retry = self.timing.retry;
                self.schedule_pod(id, name, retry, PodStep::Noticed);
            }
            PodStep::Noticed => {
                self.set_pod(id, name, |pod| pod.state = PodState::Ending);
                if name == API_SERVER {
                    self.stop_api_server(id);
                }
                let grace = if name == API_SERVER { self.timing.pod_end } else { self.timing.pod_end / 2 };
                self.schedule_pod(id, name, grace, PodStep::Ended);
            }
            PodStep::Ended => {
                if let Some(pod) = Self::pod_of(run, name, turn) {
                    self.set_pod(id, name, |old| *old = pod);
                }
                let start = self.timing.pod_start;
                self.schedule_pod(id, name, start, PodStep::Ready);
            }
            PodStep::Ready => {
                self.set_pod(id, name, |pod| pod.state = PodState::Ready);
                self.lose_etcd_as_told();
                if name == API_SERVER {
                    self.start_api_server(id);
                }
            }
        }
    }

    fn set_pod(&mut self, id: MachineId, name: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.run_mut(id).and_then(|run| run.kubernetes.pods.get_mut(name)) {
            change(pod);
        }
    }

    /// Of another version than before, or with other certificates.
    pub(crate) fn start_api_server(&mut self, id: MachineId) {
        let ends = |run: &Run| {
            run.kubernetes.pods.get(API_SERVER).is_none_or(|pod| pod.state == PodState::Ending)
                || run.kubernetes.withdrawn
        };
        if self.run(id).is_none_or(ends) {
            return;
        }
        let pair = self.api_server_pair(id);
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.api_server = pair;
        }
        self.serve_kubernetes(id);
        self.wake_all();
    }

    fn stop_api_server(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.api_server = None;
        }
    }

    /// A node that left etcd takes its static pods away. Kubernetes is not told.
    pub(crate) fn withdraw_pods(&mut self, id: MachineId) {
        if self.etcd_data(id).is_some() {
            return;
        }
        self.stop_api_server(id);
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.withdrawn = true;
            run.kubernetes.pods_due = false;
        }
    }
}
