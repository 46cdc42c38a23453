//! Pods: where they go, how they begin and end.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::clock::rfc3339;
use super::kubelet::GRACE;
use super::object::{Object, along, has_condition, items, number, text};
use super::{Store, kinds};

/// From its node to a pod that is ready.
const START: u64 = 1000;
/// From being asked to go to being gone.
const STOP: u64 = 1500;
/// An annotation of pods that take longer: so many seconds, within their grace.
const STOPS_AFTER: &str = "/metadata/annotations/sim.talmox.dev~1stops-after";
/// How long pods stay on a node that is unreachable.
const TOLERATED: u64 = 300_000;

pub(super) fn is_mirror(body: &Value) -> bool {
    body["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some()
}

/// How long a pod takes to go: as long as it says, and not longer than it is given.
fn stop_time(body: &Value) -> u64 {
    let grace = number(body, "/metadata/deletionGracePeriodSeconds");
    text(body, STOPS_AFTER).parse().map_or(STOP, |seconds: u64| seconds.min(grace) * 1000)
}

/// Runs, and whether it is ready.
pub(super) fn set_ready(body: &mut Value, ready: bool, now: u64) {
    let status = if ready { "True" } else { "False" };
    let same = items(body, "/status/conditions")
        .iter()
        .any(|one| text(one, "/type") == "Ready" && text(one, "/status") == status);
    if same && text(body, "/status/phase") == "Running" {
        return;
    }
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": rfc3339(now) });
    body["status"]["phase"] = "Running".into();
    body["status"]["conditions"] = json!([
        condition("Initialized", "True"),
        condition("Ready", status),
        condition("ContainersReady", status),
        condition("PodScheduled", "True"),
    ]);
    let containers: Vec<Value> = items(body, "/spec/containers")
        .iter()
        .map(|one| json!({ "name": one["name"], "image": one["image"], "ready": ready, "restartCount": 0, "started": ready }))
        .collect();
    body["status"]["containerStatuses"] = containers.into();
}

/// Whether a toleration is one of this taint.
fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(toleration, "/effect");
    let fits = effect.is_empty() || effect == text(taint, "/effect");
    let key = text(toleration, "/key");
    let exists = text(toleration, "/operator") == "Exists";
    let same = exists || text(toleration, "/value") == text(taint, "/value");
    fits && ((key.is_empty() && exists) || (key == text(taint, "/key") && same))
}

/// Whether a pod's wishes and a node's taints go together; `more` it tolerates without saying so.
pub(super) fn fits(spec: &Value, more: &[Value], node: &Value) -> bool {
    let tolerated =
        |taint: &Value| items(spec, "/tolerations").iter().chain(more).any(|one| tolerates(one, taint));
    let mut taints =
        items(node, "/spec/taints").iter().filter(|taint| text(taint, "/effect") != "PreferNoSchedule");
    let labels = along(node, "/metadata/labels");
    let mut wanted = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
    taints.all(tolerated)
        && wanted.all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

impl Store {
    fn pods_where(&self, wanted: impl Fn(&Object) -> bool) -> Vec<Object> {
        let pods = self.objects.get("/pods").into_iter().flatten().map(|(_, object)| object);
        pods.filter(|pod| wanted(pod)).cloned().collect()
    }

    /// Gives pods that have none a node whose kubelet lives.
    pub(super) fn schedule(&mut self, now: u64) {
        let Some(resource) = kinds::find("", "pods") else { return };
        for mut pod in
            self.pods_where(|pod| text(&pod.body, "/spec/nodeName").is_empty() && pod.leaving.is_none())
        {
            if let Some(node) = self.choose(&pod.body) {
                pod.body["spec"]["nodeName"] = node.into();
                self.put(&resource, Object { since: now, ..pod });
            }
        }
    }

    /// The node with the fewest pods of the same owner, by name among equals.
    fn choose(&self, pod: &Value) -> Option<String> {
        let owner = text(pod, "/metadata/ownerReferences/0/uid");
        let mut beside: BTreeMap<&str, usize> = BTreeMap::new();
        for other in
            self.bodies("", "pods").filter(|body| text(body, "/metadata/ownerReferences/0/uid") == owner)
        {
            *beside.entry(text(other, "/spec/nodeName")).or_default() += 1;
        }
        let usable = |node: &&Value| {
            has_condition(node, "Ready")
                && node["spec"]["unschedulable"] != true
                && self.kubelets.contains_key(text(node, "/metadata/name"))
                && fits(&pod["spec"], &[], node)
        };
        let nodes = self.bodies("", "nodes").filter(usable).map(|node| text(node, "/metadata/name"));
        nodes.min_by_key(|name| (beside.get(name).copied().unwrap_or_default(), *name)).map(str::to_owned)
    }

    /// Lets kubelets start and end pods; gives when the next is due.
    pub(super) fn run_pods(&mut self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        for pod in self.pods_where(|pod| self.needs_its_kubelet(pod)) {
            let node = text(&pod.body, "/spec/nodeName").to_owned();
            let due = match (self.kubelets.get(&node).map(|facts| facts.ready), pod.leaving) {
                _ if node.is_empty() => None,
                // Collected, whether somebody runs it or not.
                _ if self.get("/nodes", "", &node).is_none() => {
                    self.drop_pod(&pod);
                    None
                }
                (Some(_), Some(since)) => {
                    self.at(since + stop_time(&pod.body), now, |store| store.drop_pod(&pod))
                }
                (Some(network), None) => self.start_pod(&pod, network, now),
                (None, _) => self.miss_pod(&pod, &node, now),
            };
            next = next.into_iter().chain(due).min();
        }
        next
    }

    /// Most pods just run.
    fn needs_its_kubelet(&self, pod: &Object) -> bool {
        let node = text(&pod.body, "/spec/nodeName");
        let runs = pod.leaving.is_none() && self.kubelets.contains_key(node);
        !(runs
            && (has_condition(&pod.body, "Ready") || is_mirror(&pod.body))
            && self.get("/nodes", "", node).is_some())
    }

    /// Does it if it is time, else says when.
    fn at(&mut self, when: u64, now: u64, act: impl FnOnce(&mut Self)) -> Option<u64> {
        if when > now {
            return Some(when);
        }
        act(self);
        None
    }

    fn drop_pod(&mut self, pod: &Object) {
        self.remove("", "pods", text(&pod.body, "/metadata/namespace"), text(&pod.body, "/metadata/name"));
    }

    fn start_pod(&mut self, pod: &Object, network: bool, now: u64) -> Option<u64> {
        let waits = has_condition(&pod.body, "Ready")
            || is_mirror(&pod.body)
            || ["Succeeded", "Failed"].contains(&text(&pod.body, "/status/phase"));
        if waits || !(network || pod.body["spec"]["hostNetwork"] == true) {
            return None;
        }
        let mut body = pod.body.clone();
        self.at(pod.since + START, now, |store| {
            set_ready(&mut body, true, now);
            store.update("", "pods", body);
        })
    }

    /// A pod whose node does not answer.
    fn miss_pod(&mut self, pod: &Object, node: &str, now: u64) -> Option<u64> {
        let since = *self.silent.get(node)?;
        if has_condition(&pod.body, "Ready") {
            let mut body = pod.body.clone();
            let later = self.at(since + GRACE, now, |store| {
                set_ready(&mut body, false, now);
                store.update("", "pods", body);
            });
            if later.is_some() {
                return later;
            }
        }
        let stays = is_mirror(&pod.body)
            || pod.leaving.is_some()
            || text(&pod.body, "/metadata/ownerReferences/0/kind") == "DaemonSet";
        if stays {
            return None;
        }
        self.at(since + GRACE + TOLERATED, now, |store| store.end_pod(pod, now))
    }

    /// Asks a pod to go, as a controller does.
    pub(super) fn end_pod(&mut self, pod: &Object, now: u64) {
        let current = self
            .get("/pods", text(&pod.body, "/metadata/namespace"), text(&pod.body, "/metadata/name"))
            .cloned();
        if let (Some(resource), Some(pod)) = (kinds::find("", "pods"), current) {
            self.take_leave(&resource, pod, None, now);
        }
    }
}
