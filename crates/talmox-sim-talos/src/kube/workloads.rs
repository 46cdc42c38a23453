//! The controllers of daemon sets, deployments and disruption budgets.

use serde_json::{Value, json};

use super::object::{Object, has_condition, items, number, text};
use super::pods::fits;
use super::selector::Labels;
use super::{Store, kinds};

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

impl Store {
    fn owned_pods(&self, uid: &str) -> Vec<Object> {
        let own = |object: &&Object| text(&object.body, "/metadata/ownerReferences/0/uid") == uid;
        self.objects
            .get("/pods")
            .into_iter()
            .flatten()
            .map(|(_, object)| object)
            .filter(own)
            .cloned()
            .collect()
    }

    /// One pod on every node that takes it.
    pub(super) fn run_daemon_sets(&mut self, now: u64) {
        let nodes: Vec<Value> = self.bodies("", "nodes").cloned().collect();
        let sets: Vec<Value> = self.bodies("apps", "daemonsets").cloned().collect();
        for mut set in sets {
            let revision = hash(&set["spec"]["template"]);
            let tolerated = daemon_tolerations();
            let wanted: Vec<&str> = nodes
                .iter()
                .filter(|node| fits(&set["spec"]["template"]["spec"], &tolerated, node))
                .map(|node| text(node, "/metadata/name"))
                .collect();
            let current = |pod: &Object| {
                pod.leaving.is_none()
                    && text(&pod.body, "/metadata/labels/controller-revision-hash") == revision
            };
            for pod in self.owned_pods(text(&set, "/metadata/uid")) {
                if pod.leaving.is_none()
                    && !(current(&pod) && wanted.contains(&text(&pod.body, "/spec/nodeName")))
                {
                    self.end_pod(&pod, now);
                }
            }
            let pods = self.owned_pods(text(&set, "/metadata/uid"));
            for node in &wanted {
                if !pods.iter().any(|pod| current(pod) && text(&pod.body, "/spec/nodeName") == *node) {
                    let name = format!("{}-{}", text(&set, "/metadata/name"), self.suffix());
                    self.make_pod(&set, &name, ("controller-revision-hash", &revision), Some(node), now);
                }
            }
            let pods = self.owned_pods(text(&set, "/metadata/uid"));
            let ready =
                pods.iter().filter(|pod| pod.leaving.is_none() && has_condition(&pod.body, "Ready")).count();
            set["status"] = json!({
                "currentNumberScheduled": wanted.len(), "desiredNumberScheduled": wanted.len(), "numberMisscheduled": 0,
                "numberReady": ready, "numberAvailable": ready, "updatedNumberScheduled": wanted.len(),
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
            let (mut all, mut ready) = (0, 0);
            for set in sets {
                let wanted = if text(&set, "/metadata/name") == name { replicas } else { 0 };
                let pods = self.scale(&set, wanted, &revision, now);
                all += pods.len();
                ready += pods.iter().filter(|pod| has_condition(&pod.body, "Ready")).count();
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
    fn scale(&mut self, set: &Value, wanted: u64, revision: &str, now: u64) -> Vec<Object> {
        let stays = |pod: &Object| {
            pod.leaving.is_none() && !["Succeeded", "Failed"].contains(&text(&pod.body, "/status/phase"))
        };
        let uid = text(set, "/metadata/uid");
        let mut pods: Vec<Object> = self.owned_pods(uid).into_iter().filter(&stays).collect();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        while pods.len() > wanted {
            if let Some(pod) = pods.pop() {
                self.end_pod(&pod, now);
            }
        }
        for _ in pods.len()..wanted {
            let name = format!("{}-{}", text(set, "/metadata/name"), self.suffix());
            self.make_pod(set, &name, ("pod-template-hash", revision), None, now);
        }
        self.owned_pods(uid).into_iter().filter(&stays).collect()
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
        if kinds::find("policy", "poddisruptionbudgets").is_none() {
            return;
        }
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
