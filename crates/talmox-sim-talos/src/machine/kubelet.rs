//! A node as a part of Kubernetes: static pods, registration, readiness.

use super::Run;
use super::settings::Cni;
use crate::hardware::MachineId;
use crate::nodes::{Event, Nodes};

impl Nodes {
    /// Takes the next step towards a node that is ready.
    pub(crate) fn settle_kubernetes(&mut self, id: MachineId) {
        let Some(run) = self.run(id) else { return };
        if run.active.is_none() {
            return;
        }
        let kubelet = run.is_service_up("kubelet");
        if kubelet && run.is_control_plane() && run.is_service_up("etcd") && !run.kubernetes.pods_due {
            let half = self.timing.api_server / 2;
            self.schedule_about(id, half, Event::Pods);
            if let Some(run) = self.run_mut(id) {
                run.kubernetes.pods_due = true;
            }
        }
        let Some(run) = self.run(id) else { return };
        if kubelet && !run.kubernetes.pending && !run.kubernetes.ready {
            self.settle_node(id);
        }
    }

    /// The kubelet of another make: for a while it knows of no static pods, and later it is not ready for a moment.
    pub(crate) fn restart_kubelet(&mut self, id: MachineId) {
        self.stop_service(id, "kubelet");
        self.start_service(id, "kubelet");
        let known = self.timing.pod_look + self.timing.retry;
        let from = self.clock + known;
        let Some(run) = self.run_mut(id) else { return };
        run.kubernetes.pods_known_from = from;
        let ready = run.kubernetes.ready;
        self.schedule(id, known, Event::Look);
        if ready {
            let flap = self.timing.flap;
            self.schedule_about(id, flap, Event::NodeFlaps);
        }
    }

    /// A kubelet that started anew says once more that it is not ready, and corrects itself.
    pub(crate) fn node_flaps(&mut self, id: MachineId) {
        let back = self.timing.flap_back;
        let Some(run) = self.run_mut(id).filter(|run| run.kubernetes.ready) else { return };
        run.kubernetes.ready = false;
        run.kubernetes.pending = true;
        self.schedule_about(id, back, Event::NodeReady);
    }

    fn settle_node(&mut self, id: MachineId) {
        let Some(cluster) = self.kubernetes_of(id) else { return };
        let Some(run) = self.run(id) else { return };
        let (after, event) = if !run.kubernetes.registered {
            (self.timing.register, Event::Register)
        } else if self.has_network_plugin(cluster) {
            (self.timing.node_ready, Event::NodeReady)
        } else {
            return;
        };
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.pending = true;
        }
        self.schedule_about(id, after, event);
    }

    pub(crate) fn register(&mut self, id: MachineId) {
        let reachable = self.kubernetes_of(id).is_some();
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.pending = false;
            run.kubernetes.registered |= reachable;
        }
    }

    pub(crate) fn node_is_ready(&mut self, id: MachineId) {
        let reachable = self.kubernetes_of(id).is_some();
        if let Some(run) = self.run_mut(id) {
            run.kubernetes.pending = false;
            run.kubernetes.ready |= reachable;
        }
        self.cordon(id, false);
    }

    /// The cluster whose API a node's kubelet reaches: its own, or one its endpoint leads to.
    pub(crate) fn kubernetes_of(&self, id: MachineId) -> Option<u64> {
        if let Some(cluster) = self.served_cluster(id) {
            return Some(cluster);
        }
        let run = self.run(id)?;
        let settings = run.settings()?;
        let (host, _) = settings.endpoint_parts();
        let endpoint = host.parse().ok().and_then(|ip| self.at(ip)).and_then(|at| self.served_cluster(at));
        endpoint.or_else(|| {
            // Names, and nodes that are away, are found through the balancer every node runs.
            self.machines.keys().find_map(|other| {
                let theirs = self.run(*other)?.settings()?;
                settings.is_kin(theirs).then(|| self.served_cluster(*other))?
            })
        })
    }

    /// The cluster whose API server runs on a machine and has an etcd that can decide.
    pub(crate) fn served_cluster(&self, id: MachineId) -> Option<u64> {
        let serves = self.run(id).is_some_and(Run::has_api_server);
        let data = self.running_member(id).filter(|_| serves)?;
        self.has_quorum(data.cluster).then_some(data.cluster)
    }

    /// Talos cordons a node before it takes it down, and lifts that when it is back.
    pub(crate) fn cordon(&mut self, id: MachineId, cordoned: bool) {
        let Some(cluster) = self.kubernetes_of(id) else { return };
        let Some(name) = self.run(id).map(|run| run.network.hostname.clone()) else { return };
        let now = self.epoch + self.clock;
        if let Some(store) = self.kube.get_mut(&cluster) {
            store.set_cordoned(&name, cordoned, now);
        }
    }

    /// Talos brings one along, or fetches one, unless it is told not to; then nodes are ready once somebody applied one.
    fn has_network_plugin(&self, cluster: u64) -> bool {
        let fetched = |id: &MachineId| {
            self.run(*id).and_then(Run::settings).is_some_and(|settings| settings.cni == Cni::Custom)
        };
        self.was_given_network(cluster) || self.living(cluster).values().any(fetched)
    }
}

impl Run {
    pub(crate) fn has_api_server(&self) -> bool {
        self.kubernetes.api_server.is_some() && !self.is_going_down()
    }
}
