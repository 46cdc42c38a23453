//! What Talos itself puts into a new cluster.

use serde_json::{Map, Value, json};

use super::{Store, kinds};

/// Which of its manifests Talos applies, as the machine configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapManifests {
    /// The image of kube-proxy, unless it is switched off.
    pub proxy: Option<String>,
    pub flannel: bool,
    pub core_dns: bool,
}

const SYSTEM: &str = "kube-system";
/// The list of what Talos brought, and what says in each object that it is on it.
const INVENTORY: &str = "talos-bootstrap-manifests-inventory";
const OWNER: &str = "config.k8s.io/owning-inventory";

/// An object of a manifest: where it lies, and what it says.
struct Part {
    manifest: &'static str,
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    name: &'static str,
    body: Value,
}

impl BootstrapManifests {
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut add = |manifest, (group, plural, kind), name, body| {
            parts.push(Part { manifest, group, plural, kind, name, body });
        };
        let set = ("apps", "daemonsets", "DaemonSet");
        if let Some(image) = &self.proxy {
            add("10-kube-proxy", set, "kube-proxy", daemon_set("kube-proxy", image, json!([])));
        }
        if self.flannel {
            let volumes = json!([{ "name": "cni", "hostPath": { "path": "/etc/cni/net.d" } }]);
            let body = daemon_set("flannel", "ghcr.io/siderolabs/flannel:v0.27.4", volumes);
            add("05-flannel", set, "kube-flannel", body);
        }
        if self.core_dns {
            add("11-core-dns", ("apps", "deployments", "Deployment"), "coredns", core_dns_deployment());
            let service = json!({
                "metadata": { "labels": { "k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS" } },
                "spec": { "selector": { "k8s-app": "kube-dns" }, "ports": [{ "name": "dns", "port": 53, "protocol": "UDP" }] },
            });
            add("11-core-dns-svc", ("", "services", "Service"), "kube-dns", service);
        }
        parts
    }

    /// The objects of one manifest, as they are applied.
    pub fn objects(&self, manifest: &str) -> Vec<Value> {
        let of = self.parts().into_iter().filter(|part| part.manifest == manifest);
        of.map(|Part { group, kind, name, mut body, .. }| {
            let api_version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
            body["apiVersion"] = api_version.into();
            body["kind"] = kind.into();
            body["metadata"]["name"] = name.into();
            body["metadata"]["namespace"] = SYSTEM.into();
            body
        })
        .collect()
    }
}

impl Store {
    /// Applies Talos' manifests; what is there is left as it is.
    pub fn bootstrap(&mut self, manifests: &BootstrapManifests, now: u64) {
        for Part { group, plural, name, body, .. } in manifests.parts() {
            self.ensure(group, plural, SYSTEM, name, body, now);
        }
        self.settle(now);
    }

    /// Lists what Talos brought, and marks it as listed, once.
    pub(crate) fn keep_inventory(&mut self, manifests: &BootstrapManifests, now: u64) {
        if self.get(&kinds::table("", "configmaps"), SYSTEM, INVENTORY).is_some() {
            return;
        }
        let mut listed = Map::new();
        for Part { group, plural, kind, name, .. } in manifests.parts() {
            let Some(object) = self.get(&kinds::table(group, plural), SYSTEM, name) else { continue };
            let mut body = object.body.clone();
            body["metadata"]["annotations"][OWNER] = INVENTORY.into();
            self.update(group, plural, body);
            listed.insert(format!("{SYSTEM}_{name}_{group}_{kind}"), "".into());
        }
        self.ensure("", "configmaps", SYSTEM, INVENTORY, json!({ "data": listed }), now);
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
