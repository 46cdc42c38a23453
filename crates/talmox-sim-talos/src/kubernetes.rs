//! Kubernetes as the nodes make it: one store of objects for each cluster of etcd, reached through API servers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::api::go_wrong_with_kubernetes;
use crate::hardware::MachineId;
use crate::kube::{BootstrapManifests, Caller, Health, KubeletFacts, NodeRole, StaticPod, Store};
use crate::machine::certificates::pem_to_der;
use crate::machine::settings::{Cni, Role, Settings};
use crate::machine::{Pods, Run};
use crate::nodes::Nodes;
use crate::wire::{KubeCall, KubeReply, Listener};

/// How long an API server waits for etcd before it gives up.
const WITHOUT_ETCD: u64 = 5000;

impl Nodes {
    /// What a TLS server of Kubernetes at an address shows: of a control plane, or one that they share.
    pub fn kube_listener(&self, address: IpAddr) -> Listener {
        let Some(run) = self.at(address).and_then(|id| self.run(id)).filter(|run| run.has_api_server())
        else {
            return Listener::Closed;
        };
        let authority = run.settings().and_then(|settings| settings.kubernetes.as_ref());
        match (&run.kubernetes.api_server, authority) {
            (Some(pair), Some(authority)) => Listener::Secure {
                certificate: pair.certificate.clone(),
                key: pair.key.clone(),
                authorities: authority.certificate.clone(),
            },
            _ => Listener::Closed,
        }
    }

    /// One request to an API server.
    pub fn kube(&mut self, call: &KubeCall, now: u64) -> KubeReply {
        self.advance_to(now);
        let words = format!("{} {}", call.method, call.path);
        match self.faults.due(call.to, &words) {
            None => self.serve_kubernetes(call),
            Some(fault) => go_wrong_with_kubernetes(self, call, fault),
        }
    }

    pub(crate) fn serve_kubernetes(&mut self, call: &KubeCall) -> KubeReply {
        let Some(id) = self.at(call.to) else { return KubeReply::Refused };
        let Some(run) = self.run(id).filter(|run| run.has_api_server()) else { return KubeReply::Refused };
        let authority =
            run.settings().and_then(|settings| pem_to_der(&settings.kubernetes.as_ref()?.certificate));
        let caller = Caller::of(&call.peer, &authority.unwrap_or_default());
        let Some(data) = self.etcd_data(id) else { return KubeReply::Refused };
        let serving = self.running_member(id).is_some() && self.has_quorum(data.cluster);
        let (health, after) =
            if serving { (Health::Serving, self.timing.call) } else { (Health::NoQuorum, WITHOUT_ETCD) };
        let today = self.unix();
        let Some(cluster) = self.clusters.get_mut(&data.cluster) else { return KubeReply::Refused };
        let plugin = cluster.kubernetes.has_network_plugin();
        let answer = cluster.kubernetes.handle(call, caller, health, today);
        if cluster.kubernetes.has_network_plugin() != plugin {
            self.wake_all();
        }
        KubeReply::Answer { after, status: answer.status, body: answer.body }
    }

    /// The time of day, in Unix milliseconds.
    pub(crate) fn unix(&self) -> u64 {
        self.epoch + self.clock
    }

    /// The first API server of a cluster applies what Talos brings along.
    pub(crate) fn apply_manifests(&mut self, id: MachineId) {
        let today = self.unix();
        let Some(settings) = self.run(id).and_then(Run::settings) else { return };
        let manifests = BootstrapManifests {
            proxy: settings.proxy,
            flannel: settings.cni == Cni::Flannel,
            core_dns: settings.core_dns,
            version: settings.kubernetes_version.clone(),
        };
        let version = settings.images.version();
        let Some(data) = self.running_member(id) else { return };
        if let Some(cluster) = self.clusters.get_mut(&data.cluster) {
            cluster.kubernetes.set_version(&version);
            cluster.kubernetes.bootstrap(&manifests, today);
        }
    }

    /// What a kubelet that reaches an API server says of its node.
    pub(crate) fn report_kubelet(&mut self, id: MachineId) {
        let Some(run) = self.run(id).filter(|run| run.kubernetes.registered && run.is_service_up("kubelet"))
        else {
            return;
        };
        let Some(settings) = run.settings() else { return };
        let Some(cluster) = self.kubernetes_of(id) else { return };
        let uuid = self.machines.get(&id).map(|machine| machine.hardware.uuid.clone()).unwrap_or_default();
        let facts = facts(run, settings, uuid);
        let today = self.unix();
        if let Some(cluster) = self.clusters.get_mut(&cluster) {
            cluster.kubernetes.report(&facts, today);
        }
    }

    /// The kubelet of a machine is gone, or its machine is.
    pub(crate) fn silence_kubelet(&mut self, id: MachineId) {
        let Some(run) = self.run(id).filter(|run| run.kubernetes.registered) else { return };
        let name = run.network.hostname.clone();
        let today = self.unix();
        for cluster in self.clusters.values_mut() {
            cluster.kubernetes.kubelet_stopped(&name, today);
        }
    }

    /// Talos cordons a node before it takes it down, and lifts that when it is back.
    pub(crate) fn cordon(&mut self, id: MachineId, cordoned: bool) {
        let Some(cluster) = self.kubernetes_of(id) else { return };
        let Some(name) = self.run(id).map(|run| run.network.hostname.clone()) else { return };
        let today = self.unix();
        if let Some(cluster) = self.clusters.get_mut(&cluster) {
            cluster.kubernetes.set_cordoned(&name, cordoned, today);
        }
    }

    pub(crate) fn new_store(&mut self, id: MachineId) -> Store {
        let version = self.run(id).and_then(Run::settings).map(|settings| settings.images.version());
        Store::new(self.random.next(), &version.unwrap_or_default(), self.epoch + self.clock)
    }
}

fn facts(run: &Run, settings: &Settings, uuid: String) -> KubeletFacts {
    KubeletFacts {
        name: run.network.hostname.clone(),
        addresses: run.network.ips(),
        role: match settings.role {
            Role::ControlPlane => NodeRole::ControlPlane,
            Role::Worker => NodeRole::Worker,
        },
        version: settings.kubernetes_version.trim_start_matches('v').to_owned(),
        talos: run.image.version.clone(),
        uuid,
        labels: settings.labels.iter().cloned().collect(),
        taints: settings.taints.iter().cloned().collect::<BTreeMap<_, _>>(),
        schedules_everywhere: settings.scheduling_on_control_planes,
        provider_id: settings.provider_id.clone(),
        ready: run.kubernetes.ready,
        static_pods: static_pods(run, settings),
    }
}

fn static_pods(run: &Run, settings: &Settings) -> Vec<StaticPod> {
    if settings.role != Role::ControlPlane || run.kubernetes.pods == Pods::None {
        return Vec::new();
    }
    let ready = run.kubernetes.pods == Pods::Ready;
    let pod = |(name, image): (&str, &String)| StaticPod {
        name: name.to_owned(),
        image: image.clone(),
        config_version: run.active.as_ref().map_or(1, |active| active.pods_version),
        secrets_version: 1,
        ready,
    };
    settings.images.all().into_iter().map(pod).collect()
}
