//! Resources about Kubernetes on a node.

use std::collections::BTreeMap;

use talmox_machine::{Map, Value};
use talmox_proto::definitions::{
    ApiServerConfig, BootstrapManifestsConfig, ComponentConfig, NodeStatus, Nodename,
};

use super::View;
use super::resource::{Resource, texts};
use crate::machine::components::{PODS, Versions};
use crate::machine::settings::{Cni, Role, Settings};
use crate::machine::static_pods::PodState;

/// Manifests Talos brings along whatever the configuration says.
const MANIFESTS: [&str; 6] = [
    "00-kubelet-bootstrapping-token",
    "01-csr-approver-role-binding",
    "01-csr-node-bootstrap",
    "01-csr-renewal-role-binding",
    "11-kube-config-in-cluster",
    "11-talos-node-rbac-template",
];

impl View<'_> {
    pub(super) fn kubernetes_resources(&self, kind: &str) -> Vec<Resource> {
        let Some(settings) = self.run.settings() else { return Vec::new() };
        let control_plane = settings.role == Role::ControlPlane;
        match kind {
            "Nodenames.kubernetes.talos.dev" => vec![self.nodename()],
            "NodeIPs.kubernetes.talos.dev" => vec![self.node_ips()],
            "NodeStatuses.kubernetes.talos.dev" => self.node_status(settings).into_iter().collect(),
            "KubeletSpecs.kubernetes.talos.dev" => vec![self.kubelet_spec(settings)],
            "KubePrismStatuses.kubernetes.talos.dev" => vec![self.kube_prism()],
            "Endpoints.kubernetes.talos.dev" => self.endpoints(),
            _ if !control_plane => Vec::new(),
            "StaticPods.kubernetes.talos.dev" => self.static_pods(settings),
            "StaticPodStatuses.kubernetes.talos.dev" => self.static_pod_statuses(),
            "APIServerConfigs.kubernetes.talos.dev" => vec![self.component(settings, PODS[0])],
            "ControllerManagerConfigs.kubernetes.talos.dev" => vec![self.component(settings, PODS[1])],
            "SchedulerConfigs.kubernetes.talos.dev" => vec![self.component(settings, PODS[2])],
            "BootstrapManifestsConfigs.kubernetes.talos.dev" => vec![self.manifests_config(settings)],
            "Manifests.kubernetes.talos.dev" => self.manifests(settings),
            "ManifestStatuses.kubernetes.talos.dev" => self.manifest_status(settings),
            _ => Vec::new(),
        }
    }

    pub(super) fn resource(
        &self,
        place: (&'static str, &'static str),
        id: impl Into<String>,
        owner: &'static str,
    ) -> Resource {
        Resource::new(place, id, owner, self.run.configured.unwrap_or(self.run.started))
    }

    /// Of what the configuration in force makes.
    pub(super) fn versions(&self) -> Versions {
        self.run.active.as_ref().map(|active| active.versions).unwrap_or_default()
    }

    pub(super) fn since(&self) -> u64 {
        self.run.active.as_ref().map_or(self.run.started, |active| active.since)
    }

    fn nodename(&self) -> Resource {
        let name = self.run.network.hostname.clone();
        let proto = Nodename {
            nodename: name.clone(),
            hostname_version: "1".to_owned(),
            skip_node_registration: false,
        };
        let map = Map::new()
            .with("nodename", name)
            .with("hostnameVersion", "1")
            .with("skipNodeRegistration", false);
        self.resource(("k8s", "Nodenames.kubernetes.talos.dev"), "nodename", "k8s.NodenameController")
            .proto(&proto)
            .yaml(map)
    }

    fn node_ips(&self) -> Resource {
        let main = self.run.network.main();
        self.resource(("k8s", "NodeIPs.kubernetes.talos.dev"), "kubelet", "k8s.NodeIPController")
            .yaml(Map::new().with("addresses", texts(main)))
    }

    fn node_status(&self, settings: &Settings) -> Option<Resource> {
        let kubernetes = &self.run.kubernetes;
        if !kubernetes.registered {
            return None;
        }
        let name = self.run.network.hostname.clone();
        let labels: BTreeMap<String, String> = settings.labels.iter().cloned().collect();
        let shown =
            labels.iter().map(|(key, value)| (key.clone(), Value::text(value.clone()))).collect::<Map>();
        let proto = NodeStatus {
            nodename: name.clone(),
            node_ready: kubernetes.ready,
            unschedulable: false,
            labels,
            annotations: BTreeMap::new(),
        };
        let map = Map::new()
            .with("nodename", name.clone())
            .with("nodeReady", kubernetes.ready)
            .with("unschedulable", false)
            .with("labels", shown);
        let resource =
            self.resource(("k8s", "NodeStatuses.kubernetes.talos.dev"), name, "k8s.NodeStatusController");
        Some(resource.changed(1 + u64::from(kubernetes.ready), self.nodes.clock()).proto(&proto).yaml(map))
    }

    fn kube_prism(&self) -> Resource {
        let map = Map::new().with("host", "127.0.0.1:7445").with("healthy", self.run.kubernetes.registered);
        let place = ("k8s", "KubePrismStatuses.kubernetes.talos.dev");
        self.resource(place, "k8s-loadbalancer", "k8s.KubePrismController").yaml(map)
    }

    fn endpoints(&self) -> Vec<Resource> {
        let ids = ["controlplane", "discovery", "kube-apiserver"];
        let there = if self.run.kubernetes.registered { 3 } else { 2 };
        ids[..there]
            .iter()
            .map(|id| {
                let place = ("controlplane", "Endpoints.kubernetes.talos.dev");
                self.resource(place, *id, "k8s.EndpointController")
                    .yaml(Map::new().with("addresses", texts(self.run.network.main())))
            })
            .collect()
    }

    /// There from the moment etcd is up.
    fn static_pods(&self, settings: &Settings) -> Vec<Resource> {
        if !self.run.is_service_up("etcd") {
            return Vec::new();
        }
        let versions = self.versions();
        PODS.iter()
            .map(|name| {
                let annotations = Map::new()
                    .with("talos.dev/config-version", versions.pod(name).to_string())
                    .with("talos.dev/secrets-version", versions.secrets.to_string());
                let metadata = Map::new()
                    .with("annotations", annotations)
                    .with("name", *name)
                    .with("namespace", "kube-system");
                let container =
                    Map::new().with("name", *name).with("image", settings.components.pod(name).image.clone());
                let pod = Map::new()
                    .with("apiVersion", "v1")
                    .with("kind", "Pod")
                    .with("metadata", metadata)
                    .with("spec", Map::new().with("containers", Value::List(vec![container.into()])));
                let place = ("k8s", "StaticPods.kubernetes.talos.dev");
                let version = versions.pod(name) + versions.secrets - 1;
                self.resource(place, *name, "k8s.ControlPlaneStaticPodController")
                    .changed(version, self.since())
                    .yaml(pod)
            })
            .collect()
    }

    fn static_pod_statuses(&self) -> Vec<Resource> {
        let host = &self.run.network.hostname;
        self.run
            .kubernetes
            .shown_pods(self.nodes.clock())
            .map(|(name, pod)| {
                let (phase, ready) = match pod.state {
                    PodState::Ready => ("Running", "True"),
                    PodState::Starting | PodState::Ending => ("Pending", "False"),
                };
                let condition = Map::new().with("type", "Ready").with("status", ready);
                let status =
                    Map::new().with("phase", phase).with("conditions", Value::List(vec![condition.into()]));
                let place = ("k8s", "StaticPodStatuses.kubernetes.talos.dev");
                let id = format!("kube-system/{name}-{host}");
                self.resource(place, id, "k8s.KubeletStaticPodController").yaml(status)
            })
            .collect()
    }

    fn component(&self, settings: &Settings, name: &'static str) -> Resource {
        let image = settings.components.pod(name).image.clone();
        let (version, since) = (self.versions().pod(name), self.since());
        let (kind, owner) = match name {
            "kube-apiserver" => {
                ("APIServerConfigs.kubernetes.talos.dev", "k8s.ControlPlaneAPIServerController")
            }
            "kube-scheduler" => {
                ("SchedulerConfigs.kubernetes.talos.dev", "k8s.ControlPlaneSchedulerController")
            }
            _ => (
                "ControllerManagerConfigs.kubernetes.talos.dev",
                "k8s.ControlPlaneControllerManagerController",
            ),
        };
        let resource = self.resource(("controlplane", kind), name, owner).changed(version, since);
        if name == "kube-apiserver" {
            resource.proto(&ApiServerConfig { image: image.clone() }).yaml(Map::new().with("image", image))
        } else {
            let map = Map::new().with("enabled", true).with("image", image.clone());
            resource.proto(&ComponentConfig { enabled: true, image }).yaml(map)
        }
    }

    fn manifests_config(&self, settings: &Settings) -> Resource {
        let name = match settings.cni {
            Cni::Flannel => "flannel",
            Cni::Custom => "custom",
            Cni::None => "none",
        };
        let map = Map::new()
            .with("proxyEnabled", settings.proxy)
            .with("coreDNSEnabled", settings.core_dns)
            .with("flannelEnabled", settings.cni == Cni::Flannel)
            .with("cniName", name);
        let place = ("controlplane", "BootstrapManifestsConfigs.kubernetes.talos.dev");
        self.resource(place, "manifests", "k8s.ControlPlaneBootstrapManifestsController")
            .proto(&BootstrapManifestsConfig { cni_name: name.to_owned() })
            .yaml(map)
    }

    fn manifest_names(settings: &Settings) -> Vec<&'static str> {
        let mut names = MANIFESTS.to_vec();
        if settings.cni == Cni::Flannel {
            names.push("05-flannel");
        }
        if settings.proxy {
            names.push("10-kube-proxy");
        }
        if settings.core_dns {
            names.extend(["11-core-dns", "11-core-dns-svc"]);
        }
        names.sort_unstable();
        names
    }

    fn manifests(&self, settings: &Settings) -> Vec<Resource> {
        let place = ("controlplane", "Manifests.kubernetes.talos.dev");
        let names = Self::manifest_names(settings).into_iter();
        let manifests = settings.bootstrap_manifests();
        let made = |name: &'static str| {
            self.resource(place, name, "k8s.ManifestController").objects(&manifests.objects(name))
        };
        names.map(made).collect()
    }

    fn manifest_status(&self, settings: &Settings) -> Vec<Resource> {
        if self.run.kubernetes.api_server.is_none() {
            return Vec::new();
        }
        let map = Map::new().with("manifestsApplied", texts(Self::manifest_names(settings)));
        let place = ("controlplane", "ManifestStatuses.kubernetes.talos.dev");
        vec![self.resource(place, "manifests", "k8s.ManifestApplyController").yaml(map)]
    }
}
