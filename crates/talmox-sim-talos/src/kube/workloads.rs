//! The controllers of daemon sets, deployments and disruption budgets.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Store;
use super::object::{has_condition, items, number, text};
use super::pods::fits;
use super::selector::Labels;

/// Eight characters for what a template says.
pub(super) fn hash(value: &Value) -> String {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value.to_string().bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{:08x}", state >> 32)
}

/// What daemon sets tolerate without saying so.
fn daemon_tolerations() -> Vec<Value> {
    let taints = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
        ("network-unavailable", "NoSchedule"),
    ];
    let tolerate = |(name, effect): (&str, &str)| json!({ "key": format!("node.kubernetes.io/{name}"), "operator": "Exists", "effect": effect });
    taints.into_iter().map(tolerate).collect()
}

/// A pod, as far as its controller looks at it.
#[derive(Clone)]
struct Owned {
    key: (String, String),
    node: String,
    revision: String,
    leaving: bool,
    over: bool,
    ready: bool,
}

impl Store {
    /// Pods by the uid of their controller.
    fn owned_pods(&self) -> BTreeMap<String, Vec<Owned>> {
        let mut owned: BTreeMap<String, Vec<Owned>> = BTreeMap::new();
        for object in self.objects.get("/pods").into_iter().flatten().map(|(_, object)| object) {
            let body = &object.body;
            let own = |pointer: &str| text(body, pointer).to_owned();
            let labels = &body["metadata"]["labels"];
            let revision =
                ["controller-revision-hash", "pod-template-hash"].iter().find_map(|key| labels[key].as_str());
            owned.entry(own("/metadata/ownerReferences/0/uid")).or_default().push(Owned {
                key: (own("/metadata/namespace"), own("/metadata/name")),
                node: own("/spec/nodeName"),
                revision: revision.unwrap_or_default().to_owned(),
                leaving: object.leaving.is_some(),
                over: ["Succeeded", "Failed"].contains(&text(body, "/status/phase")),
                ready: has_condition(body, "Ready"),
            });
        }
        owned
    }

    fn dismiss(&mut self, pod: &Owned, now: u64) {
        if let Some(object) = self.get("/pods", &pod.key.0, &pod.key.1).cloned() {
            self.end_pod(&object, now);
        }
    }

    /// One pod on every node that takes it.
    pub(super) fn run_daemon_sets(&mut self, now: u64) {
        let sets: Vec<Value> = self.bodies("apps", "daemonsets").cloned().collect();
        let mut owned = self.owned_pods();
        for mut set in sets {
            let revision = hash(&set["spec"]["template"]);
            let tolerated = daemon_tolerations();
            let mut wanted: BTreeSet<String> = self
                .bodies("", "nodes")
                .filter(|node| fits(&set["spec"]["template"]["spec"], &tolerated, node))
                .map(|node| text(node, "/metadata/name").to_owned())
                .collect();
            let (desired, mut ready) = (wanted.len(), 0);
            let pods = owned.remove(text(&set, "/metadata/uid")).unwrap_or_default();
            for pod in pods.iter().filter(|pod| !pod.leaving) {
                if pod.revision == revision && wanted.remove(&pod.node) {
                    ready += usize::from(pod.ready);
                } else {
                    self.dismiss(pod, now);
                }
            }
            for node in wanted {
                let name = format!("{}-{}", text(&set, "/metadata/name"), self.suffix());
                let label = ("controller-revision-hash", revision.as_str());
                // It was there as soon as the node was, whenever anybody looks.
                let since = self.get("/nodes", "", &node).map_or(now, |node| node.since);
                let since = since.max(set_since(self, &set)).min(now);
                self.make_pod(&set, &name, label, Some(&node), since);
            }
            set["status"] = json!({
                "currentNumberScheduled": desired, "desiredNumberScheduled": desired, "numberMisscheduled": 0,
                "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": desired,
                "observedGeneration": set["metadata"]["generation"],
            });
            self.update("apps", "daemonsets", set);
        }
    }

    /// As many pods as a deployment says, by way of a replica set for each template.
    pub(super) fn run_deployments(&mut self, now: u64) {
        let deployments: Vec<Value> = self.bodies("apps", "deployments").cloned().collect();
        for mut deployment in deployments {
            let namespace = text(&deployment, "/metadata/namespace").to_owned();
            let revision = hash(&deployment["spec"]["template"]);
            let name = format!("{}-{revision}", text(&deployment, "/metadata/name"));
            self.ensure("apps", "replicasets", &namespace, &name, replica_set(&deployment), now);
            let replicas = number(&deployment, "/spec/replicas");
            let uid = text(&deployment, "/metadata/uid").to_owned();
            let sets: Vec<Value> = self
                .bodies("apps", "replicasets")
                .filter(|set| text(set, "/metadata/ownerReferences/0/uid") == uid)
                .cloned()
                .collect();
            let owned = self.owned_pods();
            let (mut all, mut ready) = (0, 0);
            for set in sets {
                let wanted = if text(&set, "/metadata/name") == name { replicas } else { 0 };
                let pods = owned.get(text(&set, "/metadata/uid")).cloned().unwrap_or_default();
                let stay = self.scale(&set, pods, wanted, &revision, now);
                all += stay.len();
                ready += stay.iter().filter(|pod| pod.ready).count();
            }
            let available = if ready as u64 >= replicas { "True" } else { "False" };
            deployment["status"] = json!({
                "observedGeneration": deployment["metadata"]["generation"], "replicas": all, "updatedReplicas": all,
                "readyReplicas": ready, "availableReplicas": ready,
                "conditions": [{ "type": "Available", "status": available }],
            });
            self.update("apps", "deployments", deployment);
        }
    }

    /// Makes or ends pods until there are as many as wanted; gives those that stay.
    fn scale(&mut self, set: &Value, pods: Vec<Owned>, wanted: u64, revision: &str, now: u64) -> Vec<Owned> {
        let mut stay: Vec<Owned> = pods.into_iter().filter(|pod| !pod.leaving && !pod.over).collect();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        for pod in stay.split_off(wanted.min(stay.len())) {
            self.dismiss(&pod, now);
        }
        for _ in stay.len()..wanted {
            let name = format!("{}-{}", text(set, "/metadata/name"), self.suffix());
            self.make_pod(set, &name, ("pod-template-hash", revision), None, now);
        }
        stay
    }

    fn make_pod(&mut self, owner: &Value, name: &str, label: (&str, &str), node: Option<&str>, now: u64) {
        let mut body = owner["spec"]["template"].clone();
        if !body.is_object() || body.get("metadata").is_some_and(|metadata| !metadata.is_object()) {
            return;
        }
        body["metadata"]["labels"][label.0] = label.1.into();
        body["metadata"]["ownerReferences"] = json!([reference(owner)]);
        if let Some(node) = node {
            body["spec"]["nodeName"] = node.into();
        }
        body["spec"]["terminationGracePeriodSeconds"] = 30.into();
        body["status"] = json!({ "phase": "Pending" });
        self.ensure("", "pods", text(owner, "/metadata/namespace"), name, body, now);
    }

    /// Works out what every budget allows.
    pub(super) fn count_budgets(&mut self) {
        let budgets: Vec<Value> = self.bodies("policy", "poddisruptionbudgets").cloned().collect();
        for mut budget in budgets {
            let (expected, healthy) = self.guarded(&budget);
            let needed = needed(&budget["spec"], expected);
            let allowed = if expected == 0 { 0 } else { healthy.saturating_sub(needed) };
            let (status, reason) =
                if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            budget["status"] = json!({
                "observedGeneration": budget["metadata"]["generation"], "disruptionsAllowed": allowed,
                "currentHealthy": healthy, "desiredHealthy": needed, "expectedPods": expected,
                "conditions": [{ "type": "DisruptionAllowed", "status": status, "reason": reason, "message": "" }],
            });
            self.update("policy", "poddisruptionbudgets", budget);
        }
    }

    /// How many pods a budget guards, and how many of them are healthy.
    fn guarded(&self, budget: &Value) -> (u64, u64) {
        let Some(labels) = Labels::of(budget.pointer("/spec/selector")) else { return (0, 0) };
        let namespace = text(budget, "/metadata/namespace");
        let pods = self.objects.get("/pods").into_iter().flatten().map(|(_, pod)| pod).filter(|pod| {
            let over = ["Succeeded", "Failed"].contains(&text(&pod.body, "/status/phase"));
            pod.leaving.is_none()
                && !over
                && text(&pod.body, "/metadata/namespace") == namespace
                && labels.select(&pod.body)
        });
        pods.fold((0, 0), |(all, healthy), pod| {
            (all + 1, healthy + u64::from(has_condition(&pod.body, "Ready")))
        })
    }
}

/// How many healthy pods a budget insists on, out of so many.
fn needed(spec: &Value, expected: u64) -> u64 {
    let count = |value: &Value| match value.as_str() {
        Some(text) => {
            let percent: u64 = text.trim_end_matches('%').parse().unwrap_or_default();
            (expected * percent).div_ceil(100)
        }
        None => value.as_u64().unwrap_or_default(),
    };
    match (spec.get("minAvailable"), spec.get("maxUnavailable")) {
        (Some(least), _) => count(least),
        (None, Some(most)) => expected.saturating_sub(count(most)),
        (None, None) => expected,
    }
}

/// When a daemon set was made.
fn set_since(store: &Store, set: &Value) -> u64 {
    let object = store.get("apps/daemonsets", text(set, "/metadata/namespace"), text(set, "/metadata/name"));
    object.map_or(0, |object| object.since)
}

fn reference(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    })
}

fn replica_set(deployment: &Value) -> Value {
    json!({
        "metadata": { "labels": deployment["spec"]["template"]["metadata"]["labels"], "ownerReferences": [reference(deployment)] },
        "spec": {
            "replicas": deployment["spec"]["replicas"], "selector": deployment["spec"]["selector"],
            "template": deployment["spec"]["template"],
        },
    })
}

impl Store {
    /// Whether somebody brought a network plugin: a daemon set that writes where kubelets look for one.
    pub fn has_network_plugin(&self) -> bool {
        self.bodies("apps", "daemonsets").any(|set| {
            items(set, "/spec/template/spec/volumes")
                .iter()
                .any(|volume| text(volume, "/hostPath/path").starts_with("/etc/cni"))
        })
    }
}
