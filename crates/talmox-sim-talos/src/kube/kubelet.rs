//! What kubelets say of their nodes and of the pods they run by themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Store;
use super::clock::rfc3339;
use super::object::{items, text};

/// A node as its kubelet, and Talos beside it, report it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletFacts {
    pub name: String,
    /// Internal ones, the first first.
    pub addresses: Vec<IpAddr>,
    pub role: NodeRole,
    /// Of the kubelet: `1.36.3`.
    pub version: String,
    /// Of Talos: `1.13.9`.
    pub talos: String,
    /// SMBIOS.
    pub uuid: String,
    /// What tells one boot from another.
    pub boot_id: String,
    /// Of the machine configuration. Talos takes away those it set and is no longer told of.
    pub labels: BTreeMap<String, String>,
    /// Of the machine configuration: `KEY` and `VALUE:EFFECT`.
    pub taints: BTreeMap<String, String>,
    /// Whether control planes take any pod.
    pub schedules_everywhere: bool,
    pub provider_id: Option<String>,
    /// The kubelet works, and its containers have a network.
    pub ready: bool,
    pub static_pods: Vec<StaticPod>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeRole {
    ControlPlane,
    Worker,
}

/// A pod of the control plane that a kubelet runs from a file, seen as its mirror.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticPod {
    /// `kube-apiserver`.
    pub name: String,
    pub image: String,
    /// Counts the configurations it was made from.
    pub config_version: u64,
    pub secrets_version: u64,
    pub ready: bool,
}

pub(super) const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
pub(super) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Where Talos keeps in mind which labels and taints are its own.
const OWNED_LABELS: &str = "talos.dev/owned-labels";
const OWNED_TAINTS: &str = "talos.dev/owned-taints";

/// How long a kubelet may be silent before its node counts as gone.
pub(super) const GRACE: u64 = 50_000;

impl Store {
    /// What a kubelet that runs says now. It makes the node's object only when it starts: one that is deleted under a running
    /// kubelet stays away.
    pub fn report(&mut self, facts: &KubeletFacts, now: u64) {
        let starts = !self.kubelets.contains_key(&facts.name);
        if self.kubelets.get(&facts.name) == Some(facts) {
            return;
        }
        self.silent.remove(&facts.name);
        self.kubelets.insert(facts.name.clone(), facts.clone());
        if starts {
            self.ensure("", "nodes", "", &facts.name, registered(facts), now);
        }
        let node = self.get("/nodes", "", &facts.name).map(|object| object.body.clone());
        if let Some(mut body) = node {
            describe(&mut body, facts, now);
            self.update("", "nodes", body);
            self.mirror_pods(facts, now);
        }
        self.wake = 0;
    }

    /// A kubelet stopped: its machine went down, or left.
    pub fn kubelet_stopped(&mut self, node: &str, now: u64) {
        if self.kubelets.contains_key(node) {
            // What it did until now was done.
            self.settle(now);
            self.kubelets.remove(node);
            self.silent.insert(node.to_owned(), now);
            self.wake = 0;
        }
    }

    /// These objects came out of a snapshot: nobody who was there then has said anything since.
    #[must_use]
    pub fn recovered(mut self, now: u64) -> Self {
        let known = std::mem::take(&mut self.kubelets);
        self.silent.extend(known.into_keys().map(|name| (name, now)));
        self.wake = 0;
        self
    }

    /// Talos cordons a node before it reboots, and lifts that when it is back.
    pub fn set_cordoned(&mut self, node: &str, cordoned: bool, now: u64) {
        let Some(object) = self.get("/nodes", "", node) else { return };
        let mut body = object.body.clone();
        let ours = text(&body, "/metadata/annotations/talos.dev~1cordoned") == "true";
        if cordoned && body["spec"]["unschedulable"] != true {
            body["spec"]["unschedulable"] = true.into();
            body["metadata"]["annotations"]["talos.dev/cordoned"] = "true".into();
        } else if !cordoned && ours {
            for (section, key) in [("spec", "unschedulable"), ("metadata", "annotations")] {
                if let Value::Object(map) = &mut body[section] {
                    match map.get_mut(key) {
                        Some(Value::Object(annotations)) => drop(annotations.remove("talos.dev/cordoned")),
                        _ => drop(map.remove(key)),
                    }
                }
            }
        } else {
            return;
        }
        self.update("", "nodes", body);
        self.settle(now);
    }

    /// Nodes whose kubelets have been silent for too long are unknown; gives when the next is.
    pub(super) fn miss_kubelets(&mut self, now: u64) -> Option<u64> {
        let silent = self.silent.clone();
        let (gone, later): (Vec<_>, Vec<_>) = silent.into_iter().partition(|(_, since)| since + GRACE <= now);
        for (name, since) in gone {
            let Some(object) = self.get("/nodes", "", &name) else { continue };
            let mut body = object.body.clone();
            set_ready(
                &mut body,
                "Unknown",
                "NodeStatusUnknown",
                "Kubelet stopped posting node status.",
                since + GRACE,
            );
            untaint(&mut body, NOT_READY);
            for effect in ["NoSchedule", "NoExecute"] {
                taint(&mut body, UNREACHABLE, effect);
            }
            self.update("", "nodes", body);
        }
        later.iter().map(|(_, since)| since + GRACE).min()
    }

    fn mirror_pods(&mut self, facts: &KubeletFacts, now: u64) {
        let named: Vec<String> =
            facts.static_pods.iter().map(|pod| format!("{}-{}", pod.name, facts.name)).collect();
        let of_node =
            |body: &&Value| text(body, "/spec/nodeName") == facts.name && super::pods::is_mirror(body);
        let gone: Vec<String> = self
            .bodies("", "pods")
            .filter(of_node)
            .map(|body| text(body, "/metadata/name").to_owned())
            .filter(|name| !named.contains(name))
            .collect();
        for name in gone {
            self.remove("", "pods", "kube-system", &name);
        }
        for pod in &facts.static_pods {
            let name = format!("{}-{}", pod.name, facts.name);
            let wanted = mirror(pod, facts, now);
            // Another configuration is another pod, with a uid of its own.
            let hash = "/metadata/annotations/kubernetes.io~1config.hash";
            let stale = self
                .get("/pods", "kube-system", &name)
                .is_some_and(|old| text(&old.body, hash) != text(&wanted, hash));
            if stale {
                self.remove("", "pods", "kube-system", &name);
            }
            self.ensure("", "pods", "kube-system", &name, wanted, now);
            let found = self.get("/pods", "kube-system", &name).map(|object| object.body.clone());
            if let Some(mut body) = found {
                // One that was never ready is still on its way.
                if pod.ready || text(&body, "/status/phase") == "Running" {
                    super::pods::set_ready(&mut body, pod.ready, now);
                    self.update("", "pods", body);
                }
            }
        }
    }
}

/// A node's object as its kubelet makes it.
fn registered(facts: &KubeletFacts) -> Value {
    let mut body = json!({
        "metadata": {
            "labels": {
                "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux", "kubernetes.io/hostname": facts.name,
            },
            "annotations": { "volumes.kubernetes.io/controller-managed-attach-detach": "true" },
        },
        "spec": {},
    });
    taint(&mut body, NOT_READY, "NoSchedule");
    body
}

/// What kubelet and Talos keep up to date.
fn describe(body: &mut Value, facts: &KubeletFacts, now: u64) {
    let mut labels = facts.labels.clone();
    let mut taints = facts.taints.clone();
    if facts.role == NodeRole::ControlPlane {
        labels.insert(CONTROL_PLANE.to_owned(), String::new());
        if !facts.schedules_everywhere {
            taints.insert(CONTROL_PLANE.to_owned(), ":NoSchedule".to_owned());
        }
    }
    own_labels(body, &labels);
    own_taints(body, &taints);
    if let Some(id) = &facts.provider_id
        && text(body, "/spec/providerID").is_empty()
    {
        body["spec"]["providerID"] = id.as_str().into();
    }
    status(body, facts);
    if facts.ready {
        set_ready(body, "True", "KubeletReady", "kubelet is posting ready status", now);
        untaint(body, NOT_READY);
    } else {
        let message = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady \
                       message:Network plugin returns error: cni plugin not initialized";
        set_ready(body, "False", "KubeletNotReady", message, now);
        taint(body, NOT_READY, "NoSchedule");
    }
    untaint(body, UNREACHABLE);
}

fn owned(body: &Value, annotation: &str) -> Vec<String> {
    let pointer = format!("/metadata/annotations/{}", annotation.replace('/', "~1"));
    serde_json::from_str(text(body, &pointer)).unwrap_or_default()
}

fn own_labels(body: &mut Value, labels: &BTreeMap<String, String>) {
    for key in owned(body, OWNED_LABELS).iter().filter(|key| !labels.contains_key(*key)) {
        if let Some(Value::Object(map)) = body.pointer_mut("/metadata/labels") {
            map.remove(key);
        }
    }
    for (key, value) in labels {
        body["metadata"]["labels"][key] = value.as_str().into();
    }
    let keys: Vec<&String> = labels.keys().collect();
    body["metadata"]["annotations"][OWNED_LABELS] = json!(keys).to_string().into();
}

fn own_taints(body: &mut Value, taints: &BTreeMap<String, String>) {
    for key in owned(body, OWNED_TAINTS).iter().filter(|key| !taints.contains_key(*key)) {
        untaint(body, key);
    }
    for (key, value) in taints {
        let (value, effect) = value.rsplit_once(':').unwrap_or(("", value));
        untaint(body, key);
        taint(body, key, effect);
        if let Some(Value::Array(list)) = body.pointer_mut("/spec/taints")
            && let Some(last) = list.last_mut().filter(|_| !value.is_empty())
        {
            last["value"] = value.into();
        }
    }
    let keys: Vec<&String> = taints.keys().collect();
    body["metadata"]["annotations"][OWNED_TAINTS] = json!(keys).to_string().into();
}

fn status(body: &mut Value, facts: &KubeletFacts) {
    let mut addresses: Vec<Value> =
        facts.addresses.iter().map(|ip| json!({ "type": "InternalIP", "address": ip.to_string() })).collect();
    addresses.push(json!({ "type": "Hostname", "address": facts.name }));
    body["status"]["addresses"] = addresses.into();
    body["status"]["nodeInfo"] = json!({
        "machineID": facts.uuid.replace('-', ""), "systemUUID": facts.uuid, "bootID": facts.boot_id,
        "kernelVersion": "6.18.0-talos", "osImage": format!("Talos (v{})", facts.talos.trim_start_matches('v')),
        "containerRuntimeVersion": "containerd://2.2.0", "kubeletVersion": format!("v{}", facts.version.trim_start_matches('v')),
        "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
    });
}

fn set_ready(body: &mut Value, status: &str, reason: &str, message: &str, at: u64) {
    let same = items(body, "/status/conditions")
        .iter()
        .any(|one| text(one, "/type") == "Ready" && text(one, "/status") == status);
    if same {
        return;
    }
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({ "type": kind, "status": status, "lastTransitionTime": rfc3339(at), "reason": reason, "message": message });
    body["status"]["conditions"] = json!([
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available"
        ),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        condition("Ready", status, reason, message),
    ]);
}

/// Adds a taint, unless it is there.
pub(super) fn taint(body: &mut Value, key: &str, effect: &str) {
    let is = |one: &Value| text(one, "/key") == key && text(one, "/effect") == effect;
    if items(body, "/spec/taints").iter().any(is) {
        return;
    }
    let new = json!({ "key": key, "effect": effect });
    if let Value::Array(list) = &mut body["spec"]["taints"] {
        list.push(new);
    } else {
        body["spec"]["taints"] = json!([new]);
    }
}

/// Takes a taint away in all its effects; a node without any says nothing of them.
fn untaint(body: &mut Value, key: &str) {
    let Some(Value::Object(spec)) = body.get_mut("spec") else { return };
    let Some(Value::Array(list)) = spec.get_mut("taints") else { return };
    list.retain(|one| text(one, "/key") != key);
    if list.is_empty() {
        spec.remove("taints");
    }
}

fn mirror(pod: &StaticPod, facts: &KubeletFacts, now: u64) -> Value {
    let StaticPod { name, image, config_version, secrets_version, .. } = pod;
    let hash = super::workloads::hash(&json!([name, image, config_version, secrets_version]));
    let address = facts.addresses.first().map(ToString::to_string).unwrap_or_default();
    json!({
        "metadata": {
            "labels": { "k8s-app": name, "component": name, "tier": "control-plane" },
            "annotations": {
                "kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash, "kubernetes.io/config.source": "http",
                "kubernetes.io/config.seen": rfc3339(now), "talos.dev/config-version": config_version.to_string(),
                "talos.dev/secrets-version": secrets_version.to_string(),
            },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": facts.name, "uid": "", "controller": true }],
        },
        "spec": {
            "nodeName": facts.name, "hostNetwork": true, "priorityClassName": "system-cluster-critical", "restartPolicy": "Always",
            "containers": [{ "name": name, "image": image }],
            "tolerations": [{ "operator": "Exists", "effect": "NoExecute" }],
        },
        "status": { "phase": "Pending", "hostIP": address, "podIP": address },
    })
}
