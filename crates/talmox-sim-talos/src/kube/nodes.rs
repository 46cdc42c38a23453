//! The Kubernetes API of simulated nodes: where it answers, and what it hears of them.

use std::net::IpAddr;

use bytes::Bytes;

use super::{Answer, BootstrapManifests, Caller, Health, KubeletFacts, NodeRole, StaticPod, Store};
use crate::api::go_wrong_with_kubernetes;
use crate::faults::CallFault;
use crate::hardware::MachineId;
use crate::machine::Run;
use crate::machine::certificates::pem_to_der;
use crate::machine::components::Component;
use crate::machine::settings::{Cni, Role, Settings};
use crate::machine::static_pods::PodState;
use crate::nodes::Nodes;
use crate::wire::{KubeCall, KubeReply, KubeWatch, Listener};

/// How long an API server waits for an etcd that cannot decide.
const ETCD_TIMEOUT: u64 = 7000;

impl Nodes {
    /// What the API server at an address shows: a control plane's, or one they share.
    pub fn kube_listener(&self, address: IpAddr) -> Listener {
        let serving = self.at(address).and_then(|id| self.run(id)).filter(|run| run.has_api_server());
        if self.faults.is_flapping(self.clock, address) {
            return Listener::Closed;
        }
        let pair = serving.and_then(|run| run.kubernetes.api_server.as_ref().zip(run.settings()));
        pair.map_or(Listener::Closed, |(pair, settings)| Listener::Secure {
            certificate: pair.certificate.clone(),
            key: pair.key.clone(),
            authorities: settings.kubernetes_authorities().concat(),
        })
    }

    /// One request to a Kubernetes API server.
    pub fn kube(&mut self, call: &KubeCall, now: u64) -> KubeReply {
        self.kube_with(call, None, now)
    }

    /// The same with a mishap, whatever [`Nodes::faults`] say.
    pub fn kube_with(&mut self, call: &KubeCall, fault: Option<CallFault>, now: u64) -> KubeReply {
        self.advance_to(now);
        self.changing_calls += u64::from(call.method != "GET");
        let planned = self.faults.due(call.to, &format!("{} {}", call.method, call.path));
        match fault.or(planned) {
            None => self.kube_served(call),
            Some(fault) => go_wrong_with_kubernetes(self, call, fault),
        }
    }

    pub(crate) fn kube_served(&mut self, call: &KubeCall) -> KubeReply {
        if self.kube_listener(call.to) == Listener::Closed {
            return KubeReply::Refused;
        }
        let Some(id) = self.at(call.to) else { return KubeReply::Refused };
        let Some((authorities, cluster)) = self.kubernetes_behind(id) else { return KubeReply::Refused };
        let version = self.api_server_version(id);
        let decides = self.running_member(id).is_some() && self.has_quorum(cluster);
        let health = match (decides, self.is_full(cluster)) {
            (false, _) => Health::NoQuorum,
            (true, true) => Health::NoSpace,
            (true, false) => Health::Serving,
        };
        let (time, quick) = (self.epoch + self.clock, self.timing.call);
        let Some(store) = self.kube.get_mut(&cluster) else { return KubeReply::Refused };
        store.set_version(&version);
        let had_network = store.has_network_plugin();
        let caller = Caller::of(&call.peer, &authorities);
        let Answer { status, body } = match store.handle_or_watch(call, caller, health, time) {
            Ok((watch, told)) => return KubeReply::Watch(Box::new(KubeWatch { cluster, watch, told })),
            Err(answer) => answer,
        };
        if store.has_network_plugin() && !had_network {
            self.wake_all();
        }
        let after = if health == Health::NoQuorum && status == 500 { ETCD_TIMEOUT } else { quick };
        KubeReply::Answer { after, status, body }
    }

    /// What a watch has not been told yet, and when there may be more if nothing happens until then.
    pub fn follow_kube(&mut self, watch: &mut KubeWatch, now: u64) -> (Vec<Bytes>, Option<u64>) {
        self.advance_to(now);
        let time = self.epoch + self.clock;
        let told = std::mem::take(&mut watch.told);
        let Some(store) = self.kube.get_mut(&watch.cluster) else { return (told, None) };
        let (news, wakes) = store.follow(&mut watch.watch, time);
        let next = (wakes != u64::MAX).then(|| wakes.saturating_sub(self.epoch).max(self.clock + 1));
        ([told, news].concat(), next)
    }

    /// Whose clients a machine's API server believes (DER), and the etcd it stands on.
    fn kubernetes_behind(&self, id: MachineId) -> Option<(Vec<Vec<u8>>, u64)> {
        let known = self.run(id)?.settings()?.kubernetes_authorities();
        Some((known.into_iter().filter_map(pem_to_der).collect(), self.etcd_data(id)?.cluster))
    }

    /// Of the pod that runs, which may be older than the configuration.
    fn api_server_version(&self, id: MachineId) -> String {
        let pod = self.run(id).and_then(|run| run.kubernetes.pods.get("kube-apiserver"));
        pod.map(|pod| Component::version_of(&pod.image).to_owned()).unwrap_or_default()
    }

    /// An API server starts: on a new etcd it begins with nothing but what Talos brings.
    pub(crate) fn serve_kubernetes(&mut self, id: MachineId) {
        let Some(cluster) = self.etcd_data(id).map(|data| data.cluster) else { return };
        let Some(settings) = self.run(id).and_then(Run::settings) else { return };
        let manifests = settings.bootstrap_manifests();
        let version = settings.kubernetes_version.clone();
        let lists = self.run(id).is_some_and(|run| run.minor() >= 13);
        let now = self.epoch + self.clock;
        let store = self.kube.entry(cluster).or_insert_with(|| Store::new(cluster, &version, now));
        store.bootstrap(&manifests, now);
        if lists {
            store.keep_inventory(&manifests, now);
        }
    }

    /// What a machine's kubelet has to say, if it reaches an API server.
    pub(crate) fn report_kubelet(&mut self, id: MachineId) {
        let Some(facts) = self.run(id).filter(|run| run.kubernetes.registered).and_then(|run| {
            let uuid = &self.machines.get(&id)?.hardware.uuid;
            run.is_service_up("kubelet").then(|| kubelet_facts(run, uuid))?
        }) else {
            return;
        };
        let Some(cluster) = self.kubernetes_of(id) else { return };
        let now = self.epoch + self.clock;
        if let Some(store) = self.kube.get_mut(&cluster) {
            store.report(&facts, now);
        }
    }

    /// A machine goes down, and its kubelet with it.
    pub(crate) fn silence_kubelet(&mut self, id: MachineId) {
        let Some(name) = self.run(id).map(|run| run.network.hostname.clone()) else { return };
        let now = self.epoch + self.clock;
        let Some(cluster) = self.kubernetes_of(id).or_else(|| Some(self.etcd_data(id)?.cluster)) else {
            return;
        };
        if let Some(store) = self.kube.get_mut(&cluster) {
            store.kubelet_stopped(&name, now);
        }
    }

    /// Whether somebody applied a network plugin.
    pub(crate) fn was_given_network(&self, cluster: u64) -> bool {
        self.kube.get(&cluster).is_some_and(Store::has_network_plugin)
    }
}

impl Settings {
    /// What Talos puts into a cluster by itself.
    pub(crate) fn bootstrap_manifests(&self) -> BootstrapManifests {
        BootstrapManifests {
            proxy: self.proxy.then(|| self.proxy_image.clone()),
            flannel: self.cni == Cni::Flannel,
            core_dns: self.core_dns,
        }
    }
}

fn kubelet_facts(run: &Run, uuid: &str) -> Option<KubeletFacts> {
    let active = run.active.as_ref()?;
    let settings = &active.settings;
    let role = match settings.role {
        Role::ControlPlane => NodeRole::ControlPlane,
        Role::Worker => NodeRole::Worker,
    };
    let mirror = |(name, pod): (&String, &crate::machine::static_pods::Pod)| StaticPod {
        name: name.clone(),
        image: pod.image.clone(),
        config_version: pod.config_version,
        secrets_version: pod.secrets_version,
        ready: pod.state == PodState::Ready,
    };
    let static_pods = run.kubernetes.pods.iter().map(mirror).collect();
    Some(KubeletFacts {
        name: run.network.hostname.clone(),
        addresses: node_addresses(run, settings),
        role,
        version: settings.kubernetes_version.clone(),
        talos: run.image.version.clone(),
        uuid: uuid.to_owned(),
        boot_id: run.boot_id.clone(),
        labels: settings.labels.iter().cloned().collect(),
        taints: settings.taints.iter().cloned().collect(),
        schedules_everywhere: settings.scheduling_on_control_planes,
        provider_id: settings.provider_id.clone(),
        ready: run.kubernetes.ready,
        static_pods,
    })
}

/// One address of each family pods have, the first of the machine.
fn node_addresses(run: &Run, settings: &Settings) -> Vec<IpAddr> {
    let all = run.network.ips();
    let wanted = |six: bool| settings.pod_subnets.iter().any(|subnet| subnet.contains(':') == six);
    let of = |six: bool| all.iter().copied().find(|ip| ip.is_ipv6() == six).filter(|_| wanted(six));
    let found: Vec<IpAddr> = [of(false), of(true)].into_iter().flatten().collect();
    if found.is_empty() { all.first().copied().into_iter().collect() } else { found }
}
