//! How a node's kubelet is started.

use talmox_machine::{Config, Map, Source, Value};
use talmox_proto::definitions::KubeletSpec;

use super::View;
use super::resource::{Resource, texts};
use crate::machine::settings::{Role, Settings};

/// Lengths nobody set: the kubelet's own values are used.
const UNSET: [&str; 10] = [
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "runtimeRequestTimeout",
    "syncFrequency",
];

impl View<'_> {
    pub(super) fn kubelet_spec(&self, settings: &Settings) -> Resource {
        let name = self.run.network.hostname.clone();
        let image = settings.components.kubelet.image.clone();
        let own = self
            .run
            .active
            .as_ref()
            .and_then(|active| Config::parse(Source { name: "active", text: &active.text }).ok());
        let section = own.as_ref().and_then(|config| config.document("")?.at(&["machine", "kubelet"]));
        let args = self.kubelet_arguments(&name, section);
        let proto = KubeletSpec { image: image.clone(), args: args.clone(), expected_nodename: name.clone() };
        let map = Map::new()
            .with("image", image)
            .with("args", texts(args))
            .with("expectedNodename", name)
            .with("config", configuration(settings, section));
        self.resource(("k8s", "KubeletSpecs.kubernetes.talos.dev"), "kubelet", "k8s.KubeletSpecController")
            .changed(self.versions().kubelet, self.since())
            .proto(&proto)
            .yaml(map)
    }

    fn kubelet_arguments(&self, name: &str, section: Option<&Value>) -> Vec<String> {
        let address = self.run.network.main().map(|ip| ip.to_string()).unwrap_or_default();
        let mut arguments = vec![
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig".to_owned(),
            "--cert-dir=/var/lib/kubelet/pki".to_owned(),
            "--config=/etc/kubernetes/kubelet.yaml".to_owned(),
            format!("--hostname-override={name}"),
            "--kubeconfig=/etc/kubernetes/kubeconfig-kubelet".to_owned(),
            format!("--node-ip={address}"),
        ];
        let more = section.and_then(|section| section.at(&["extraArgs"])).and_then(Value::as_map);
        for (key, value) in more.into_iter().flat_map(Map::iter) {
            arguments.push(format!("--{key}={}", value.as_text().unwrap_or_default()));
        }
        arguments.sort();
        arguments
    }
}

/// The configuration file, its keys in the order of the alphabet.
fn configuration(settings: &Settings, section: Option<&Value>) -> Map {
    let control_plane = settings.role == Role::ControlPlane;
    let mut map = usual(control_plane);
    for key in UNSET {
        map.set(key, "0s");
    }
    if control_plane && !settings.scheduling_on_control_planes {
        let taint =
            Map::new().with("effect", "NoSchedule").with("key", "node-role.kubernetes.io/control-plane");
        map.set("registerWithTaints", Value::List(vec![taint.into()]));
    }
    let more = section.and_then(|section| section.at(&["extraConfig"])).and_then(Value::as_map);
    // What is empty is the same as what is not there.
    for (key, value) in more.into_iter().flat_map(Map::iter).filter(|(_, value)| value.as_text() != Some(""))
    {
        map.set(key, value.clone());
    }
    let mut entries: Vec<(String, Value)> =
        map.iter().map(|(key, value)| (key.to_owned(), value.clone())).collect();
    entries.sort_by(|one, other| one.0.cmp(&other.0));
    entries.into_iter().collect()
}

/// What every node has in it.
fn usual(control_plane: bool) -> Map {
    let json = Map::new().with("infoBufferSize", "0");
    let logging = Map::new()
        .with("flushFrequency", 0_u16)
        .with("format", "json")
        .with("options", Map::new().with("json", json.clone()).with("text", json))
        .with("verbosity", 0_u16);
    let reserved = Map::new()
        .with("cpu", "50m")
        .with("ephemeral-storage", "256Mi")
        .with("memory", if control_plane { "512Mi" } else { "384Mi" })
        .with("pid", "100");
    Map::new()
        .with("address", "0.0.0.0")
        .with("apiVersion", "kubelet.config.k8s.io/v1beta1")
        .with("authentication", authentication())
        .with("authorization", authorization())
        .with("cgroupRoot", "/")
        .with("clusterDNS", texts(["10.96.0.10"]))
        .with("clusterDomain", "cluster.local")
        .with("containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock")
        .with("crashLoopBackOff", Map::new())
        .with("failSwapOn", false)
        .with("featureGates", Map::new().with("LocalStorageCapacityIsolationFSQuotaMonitoring", true))
        .with("kind", "KubeletConfiguration")
        .with("kubeletCgroups", "/podruntime/kubelet")
        .with("logging", logging)
        .with("memorySwap", Map::new())
        .with("oomScoreAdj", Value::Integer(-450))
        .with("port", 10_250_u16)
        .with("resolvConf", "/system/resolved/resolv.conf")
        .with("rotateCertificates", true)
        .with("seccompDefault", true)
        .with("serializeImagePulls", false)
        .with("shutdownGracePeriod", "30s")
        .with("shutdownGracePeriodCriticalPods", "10s")
        .with("staticPodURL", "http://127.0.0.1:40000")
        .with("streamingConnectionIdleTimeout", "5m0s")
        .with("systemCgroups", "/system")
        .with("systemReserved", reserved)
        .with("tlsMinVersion", "VersionTLS13")
        .with("volumeStatsAggPeriod", "0s")
}

fn authentication() -> Map {
    Map::new()
        .with("anonymous", Map::new().with("enabled", false))
        .with("webhook", Map::new().with("cacheTTL", "0s").with("enabled", true))
        .with("x509", Map::new().with("clientCAFile", "/etc/kubernetes/pki/ca.crt"))
}

fn authorization() -> Map {
    let webhook = Map::new().with("cacheAuthorizedTTL", "0s").with("cacheUnauthorizedTTL", "0s");
    Map::new().with("mode", "Webhook").with("webhook", webhook)
}
