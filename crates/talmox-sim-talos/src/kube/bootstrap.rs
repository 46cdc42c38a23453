//! What Talos itself puts into a new cluster.

use serde_json::{Value, json};

use super::Store;

/// Which of its manifests Talos applies, as the machine configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapManifests {
    pub proxy: bool,
    pub flannel: bool,
    pub core_dns: bool,
    /// Of Kubernetes: `1.36.3`.
    pub version: String,
}

const SYSTEM: &str = "kube-system";

impl Store {
    /// Applies Talos' manifests; what is there is left as it is.
    pub fn bootstrap(&mut self, manifests: &BootstrapManifests, now: u64) {
        let BootstrapManifests { proxy, flannel, core_dns, version } = manifests;
        let version = version.trim_start_matches('v');
        if *proxy {
            let image = format!("registry.k8s.io/kube-proxy:v{version}");
            self.ensure(
                "apps",
                "daemonsets",
                SYSTEM,
                "kube-proxy",
                daemon_set("kube-proxy", &image, json!([])),
                now,
            );
        }
        if *flannel {
            let volumes = json!([{ "name": "cni", "hostPath": { "path": "/etc/cni/net.d" } }]);
            let body = daemon_set("flannel", "ghcr.io/siderolabs/flannel:v0.27.4", volumes);
            self.ensure("apps", "daemonsets", SYSTEM, "kube-flannel", body, now);
        }
        if *core_dns {
            self.ensure("apps", "deployments", SYSTEM, "coredns", core_dns_deployment(), now);
            let service = json!({
                "metadata": { "labels": { "k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS" } },
                "spec": { "selector": { "k8s-app": "kube-dns" }, "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }] },
            });
            self.ensure("", "services", SYSTEM, "kube-dns", service, now);
        }
        self.settle(now);
    }
}

fn daemon_set(app: &str, image: &str, volumes: Value) -> Value {
    let labels = json!({ "k8s-app": app, "tier": "node" });
    let mut spec = json!({
        "hostNetwork": true, "priorityClassName": "system-node-critical", "serviceAccountName": app,
        "tolerations": [{ "effect": "NoSchedule", "operator": "Exists" }, { "effect": "NoExecute", "operator": "Exists" }],
        "containers": [{ "name": app, "image": image }],
    });
    spec["volumes"] = volumes;
    json!({
        "metadata": { "labels": labels },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels }, "spec": spec } },
    })
}

fn core_dns_deployment() -> Value {
    let labels = json!({ "k8s-app": "kube-dns" });
    json!({
        "metadata": { "labels": { "k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS" } },
        "spec": {
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "priorityClassName": "system-cluster-critical",
                    "tolerations": [
                        { "key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule" },
                        { "key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists", "effect": "NoSchedule" },
                    ],
                    "containers": [{ "name": "coredns", "image": "registry.k8s.io/coredns/coredns:v1.13.1" }],
                },
            },
        },
    })
}
