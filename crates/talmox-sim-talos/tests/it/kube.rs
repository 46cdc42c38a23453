//! The Kubernetes of a simulated cluster by itself: what kubelets and controllers make of what is said.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use bytes::Bytes;
use serde_json::{Value, json};
use talmox_sim_talos::kube::{BootstrapManifests, Caller, Health, KubeletFacts, NodeRole, StaticPod, Store};
use talmox_sim_talos::{KubeCall, Peer};

const BEGIN: u64 = 1_790_000_000_000;

struct Cluster {
    store: Store,
    now: u64,
}

fn facts(number: u8, role: NodeRole, ready: bool) -> KubeletFacts {
    let pod = |name: &str| StaticPod {
        name: name.to_owned(),
        image: format!("{name}:v1.36.3"),
        config_version: 1,
        secrets_version: 1,
        ready: true,
    };
    KubeletFacts {
        name: format!("node-{number}"),
        addresses: vec![IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))],
        role,
        version: "1.36.3".to_owned(),
        talos: "1.13.9".to_owned(),
        boot_id: String::new(),
        uuid: format!("00000000-0000-4000-8000-{number:012}"),
        labels: BTreeMap::new(),
        taints: BTreeMap::new(),
        schedules_everywhere: false,
        provider_id: None,
        ready,
        static_pods: if role == NodeRole::ControlPlane { vec![pod("kube-apiserver")] } else { Vec::new() },
    }
}

impl Cluster {
    /// A control plane and so many workers, all ready.
    fn new(workers: u8) -> Self {
        let mut store = Store::new(7, "1.36.3", BEGIN);
        let proxy = Some("registry.k8s.io/kube-proxy:v1.36.3".to_owned());
        let manifests = BootstrapManifests { proxy, flannel: true, core_dns: true };
        store.bootstrap(&manifests, BEGIN);
        store.report(&facts(1, NodeRole::ControlPlane, true), BEGIN);
        for number in 2..2 + workers {
            store.report(&facts(number, NodeRole::Worker, true), BEGIN);
        }
        Self { store, now: BEGIN + 60_000 }
    }

    fn send(&mut self, method: &str, target: &str, kind: &str, body: &Value) -> (u16, Value) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let call = KubeCall {
            to: IpAddr::V4(Ipv4Addr::LOCALHOST),
            peer: Peer::Nobody,
            method: method.to_owned(),
            path: path.to_owned(),
            query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            content_type: Some(format!("application/{kind}")),
            body: if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) },
        };
        let answer = self.store.handle(&call, Caller::Master, Health::Serving, self.now);
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    fn get(&mut self, target: &str) -> Value {
        let (status, body) = self.send("GET", target, "json", &Value::Null);
        assert_eq!(status, 200, "{target}: {body}");
        body
    }

    fn post(&mut self, target: &str, body: &Value) {
        let (status, reply) = self.send("POST", target, "json", body);
        assert_eq!(status, 201, "{target}: {reply}");
    }

    fn pods(&mut self, label: &str) -> Vec<Value> {
        let list = self.get(&format!("/api/v1/pods?labelSelector={label}"));
        list["items"].as_array().unwrap().clone()
    }

    fn evict(&mut self, pod: &Value) -> (u16, Value) {
        let (name, namespace) =
            (pod["metadata"]["name"].as_str().unwrap(), pod["metadata"]["namespace"].as_str().unwrap());
        let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": namespace } });
        self.send("POST", &format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction"), "json", &body)
    }
}

fn on(pods: &[Value]) -> Vec<&str> {
    let mut nodes: Vec<&str> =
        pods.iter().map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or("-")).collect();
    nodes.sort_unstable();
    nodes
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn deployment(replicas: u64) -> Value {
    let labels = json!({ "app": "web" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "default" },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "web", "image": "web" }] } },
        },
    })
}

#[test]
fn a_drained_node_is_free_and_its_pods_run_elsewhere() {
    let mut cluster = Cluster::new(2);
    cluster.post("/apis/apps/v1/namespaces/default/deployments", &deployment(2));
    cluster.now += 5000;
    assert_eq!(on(&cluster.pods("app=web")), ["node-2", "node-3"], "not on a control plane, and apart");
    let cordon = json!({ "spec": { "unschedulable": true } });
    assert_eq!(cluster.send("PATCH", "/api/v1/nodes/node-2", "strategic-merge-patch+json", &cordon).0, 200);
    let there = cluster.get("/api/v1/pods?fieldSelector=spec.nodeName=node-2");
    let of_daemon = |pod: &&Value| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet";
    for pod in there["items"].as_array().unwrap().iter().filter(|pod| !of_daemon(pod)) {
        assert_eq!(cluster.evict(pod).0, 201);
    }
    let now = cluster.pods("app=web");
    assert_eq!(on(&now), ["node-2", "node-3", "node-3"], "the old one is on its way out");
    assert!(now.iter().any(|pod| pod["metadata"].get("deletionTimestamp").is_some()));
    cluster.now += 5000;
    let now = cluster.pods("app=web");
    assert_eq!(on(&now), ["node-3", "node-3"]);
    assert!(now.iter().all(is_ready));
    let list = cluster.get("/api/v1/pods?fieldSelector=spec.nodeName=node-2");
    let left: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|pod| pod["metadata"]["labels"]["k8s-app"].as_str())
        .collect();
    assert_eq!(left, ["flannel", "kube-proxy"]);
}

#[test]
fn a_budget_lets_one_go_at_a_time() {
    let mut cluster = Cluster::new(3);
    cluster.post("/apis/apps/v1/namespaces/default/deployments", &deployment(3));
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    cluster.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget);
    cluster.now += 5000;
    let pods = cluster.pods("app=web");
    assert_eq!(cluster.evict(&pods[0]).0, 201);
    let (code, refused) = cluster.evict(&pods[1]);
    assert_eq!(
        (code, refused["details"]["causes"][0]["message"].as_str()),
        (429, Some("The disruption budget web needs 2 healthy pods and has 2 currently"))
    );
    cluster.now += 5000;
    assert_eq!(cluster.evict(&pods[1]).0, 201, "the first one's successor is ready");
}

#[test]
fn a_control_plane_has_mirrors_that_come_back_with_another_configuration() {
    let mut cluster = Cluster::new(0);
    let first = cluster.get("/api/v1/namespaces/kube-system/pods/kube-apiserver-node-1");
    assert_eq!(first["metadata"]["annotations"]["talos.dev/config-version"], "1");
    let mut again = facts(1, NodeRole::ControlPlane, true);
    again.static_pods[0].config_version = 2;
    again.static_pods[0].ready = false;
    cluster.store.report(&again, cluster.now);
    let second = cluster.get("/api/v1/namespaces/kube-system/pods/kube-apiserver-node-1");
    assert_eq!(second["metadata"]["annotations"]["talos.dev/config-version"], "2");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(is_ready(&first) && !is_ready(&second));
}

#[test]
fn talos_takes_only_its_own_labels_and_taints_away() {
    let mut cluster = Cluster::new(1);
    let mut told = facts(2, NodeRole::Worker, true);
    told.labels.insert("zone".to_owned(), "a".to_owned());
    told.taints.insert("gpu".to_owned(), "yes:NoSchedule".to_owned());
    cluster.store.report(&told, cluster.now);
    let patch = json!({ "metadata": { "labels": { "mine": "1" } } });
    cluster.send("PATCH", "/api/v1/nodes/node-2", "merge-patch+json", &patch);
    let node = cluster.get("/api/v1/nodes/node-2");
    assert_eq!(node["spec"]["taints"], json!([{ "key": "gpu", "effect": "NoSchedule", "value": "yes" }]));
    cluster.store.report(&facts(2, NodeRole::Worker, true), cluster.now);
    let node = cluster.get("/api/v1/nodes/node-2");
    assert_eq!(
        (&node["metadata"]["labels"]["zone"], &node["metadata"]["labels"]["mine"]),
        (&Value::Null, &json!("1"))
    );
    assert_eq!(node["spec"].get("taints"), None);
}

#[test]
fn a_node_that_is_deleted_under_its_kubelet_stays_away_until_that_starts_anew() {
    let mut cluster = Cluster::new(1);
    assert_eq!(cluster.send("DELETE", "/api/v1/nodes/node-2", "json", &Value::Null).0, 200);
    assert!(
        cluster.get("/api/v1/pods?fieldSelector=spec.nodeName=node-2")["items"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    cluster.store.report(&facts(2, NodeRole::Worker, false), cluster.now);
    assert_eq!(cluster.send("GET", "/api/v1/nodes/node-2", "json", &Value::Null).0, 404);
    cluster.store.kubelet_stopped("node-2", cluster.now);
    cluster.store.report(&facts(2, NodeRole::Worker, true), cluster.now);
    assert!(is_ready(&cluster.get("/api/v1/nodes/node-2")));
}

#[test]
fn talos_lifts_only_its_own_cordon() {
    let mut cluster = Cluster::new(1);
    let unschedulable =
        |cluster: &mut Cluster| cluster.get("/api/v1/nodes/node-2")["spec"]["unschedulable"] == true;
    cluster.store.set_cordoned("node-2", true, cluster.now);
    assert!(unschedulable(&mut cluster));
    cluster.store.set_cordoned("node-2", false, cluster.now);
    assert!(!unschedulable(&mut cluster));
    let cordon = json!({ "spec": { "unschedulable": true } });
    cluster.send("PATCH", "/api/v1/nodes/node-2", "merge-patch+json", &cordon);
    cluster.store.set_cordoned("node-2", true, cluster.now);
    cluster.store.set_cordoned("node-2", false, cluster.now);
    assert!(unschedulable(&mut cluster));
}

#[test]
fn finalizers_hold_an_object_until_they_are_gone() {
    let mut cluster = Cluster::new(0);
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "a", "finalizers": ["csi"] },
        "spec": { "attacher": "csi", "nodeName": "node-1", "source": { "persistentVolumeName": "pv" } },
    });
    cluster.post(path, &attachment);
    cluster.send("DELETE", &format!("{path}/a"), "json", &Value::Null);
    assert!(cluster.get(&format!("{path}/a"))["metadata"].get("deletionTimestamp").is_some());
    let free = json!({ "metadata": { "finalizers": null } });
    cluster.send("PATCH", &format!("{path}/a"), "merge-patch+json", &free);
    assert_eq!(cluster.send("GET", &format!("{path}/a"), "json", &Value::Null).0, 404);
}

#[test]
fn who_was_there_before_a_snapshot_has_to_come_back() {
    let mut cluster = Cluster::new(2);
    cluster.store = cluster.store.clone().recovered(cluster.now);
    cluster.store.report(&facts(1, NodeRole::ControlPlane, true), cluster.now);
    cluster.now += 60_000;
    let ready: Vec<bool> =
        cluster.get("/api/v1/nodes")["items"].as_array().unwrap().iter().map(is_ready).collect();
    assert_eq!(ready, [true, false, false]);
}

#[test]
fn a_store_can_be_put_away_and_goes_on_the_same() {
    let mut cluster = Cluster::new(2);
    let saved = serde_json::to_string(&cluster.store).unwrap();
    let mut other = Cluster { store: serde_json::from_str(&saved).unwrap(), now: cluster.now };
    for one in [&mut cluster, &mut other] {
        one.post("/apis/apps/v1/namespaces/default/deployments", &deployment(3));
        one.now += 5000;
    }
    assert_eq!(cluster.pods("app=web"), other.pods("app=web"));
    assert!(cluster.store == other.store);
}
