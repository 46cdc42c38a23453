//! Kubernetes through the nodes' API servers.

use serde_json::{Value, json};
use talmox_machine::Role;
use talmox_sim_talos::{KubeCall, KubeReply, Listener, MachineId, Peer};

use crate::cluster::{apply, bootstrap, healthy, is_maintenance, is_ready, is_secure};
use crate::lab::{Lab, address, der};

fn call(lab: &mut Lab, to: u32, method: &str, path: &str, body: &Value) -> KubeReply {
    let peer = Peer::Certificate {
        authority: der(lab.bundle.kubernetes.certificate.pem()),
        organisations: vec!["system:masters".to_owned()],
    };
    let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
    let call = KubeCall {
        to: address(to),
        peer,
        method: method.to_owned(),
        path: path.to_owned(),
        query: Vec::new(),
        content_type: Some("application/json".to_owned()),
        body: body.into(),
    };
    lab.nodes.kube(&call, lab.now)
}

fn get(lab: &mut Lab, to: u32, path: &str) -> Value {
    match call(lab, to, "GET", path, &Value::Null) {
        KubeReply::Answer { status: 200, body, .. } => serde_json::from_slice(&body).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ready_nodes(lab: &mut Lab, to: u32) -> Vec<String> {
    let nodes = get(lab, to, "/api/v1/nodes");
    let is_ready = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let items = nodes["items"].as_array().unwrap();
    items.iter().filter(is_ready).map(|node| node["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nodes_and_pods_of_a_healthy_cluster_are_there() {
    let mut lab = healthy("1.13.9");
    lab.wait(30_000);
    assert_eq!(ready_nodes(&mut lab, 2), ["node-1", "node-2", "node-3", "node-4"]);
    let pods = get(&mut lab, 1, "/api/v1/namespaces/kube-system/pods");
    let names: Vec<&str> = pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"kube-apiserver-node-3"), "{names:?}");
    assert!(names.iter().filter(|name| name.starts_with("kube-flannel")).count() == 4, "{names:?}");
    assert!(matches!(lab.nodes.kube_listener(address(3)), Listener::Secure { .. }));
    assert!(matches!(lab.nodes.kube_listener(address(4)), Listener::Closed));
}

#[test]
fn a_node_that_is_switched_off_is_not_ready_after_a_while() {
    let mut lab = healthy("1.13.9");
    lab.nodes.power_off(MachineId(4));
    lab.wait(60_000);
    assert_eq!(ready_nodes(&mut lab, 1), ["node-1", "node-2", "node-3"]);
}

#[test]
fn without_a_network_plugin_nodes_wait_for_somebody_to_bring_one() {
    let mut lab = Lab::new("1.13.9");
    lab.without_network_plugin = true;
    let hardware = lab.hardware(1);
    lab.nodes.power_on(hardware);
    lab.until("maintenance", |lab| is_maintenance(lab, 1));
    apply(&mut lab, 1, Role::ControlPlane);
    lab.until("mutual TLS", |lab| is_secure(lab, 1));
    bootstrap(&mut lab, 1).ok();
    lab.until("an API server", |lab| !matches!(lab.nodes.kube_listener(address(1)), Listener::Closed));
    lab.wait(60_000);
    let unmet = lab.nodes.standing(MachineId(1)).unwrap().unmet;
    assert_eq!(unmet, [("nodeReady".to_owned(), "node \"node-1\" is not ready".to_owned())]);
    let plugin = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "cilium", "namespace": "kube-system" },
        "spec": {
            "selector": { "matchLabels": { "k8s-app": "cilium" } },
            "template": {
                "metadata": { "labels": { "k8s-app": "cilium" } },
                "spec": {
                    "hostNetwork": true,
                    "containers": [{ "name": "agent", "image": "quay.io/cilium/cilium:v1.18.0" }],
                    "volumes": [{ "name": "cni", "hostPath": { "path": "/etc/cni/net.d" } }],
                },
            },
        },
    });
    let made = call(&mut lab, 1, "POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", &plugin);
    assert!(matches!(made, KubeReply::Answer { status: 201, .. }), "{made:?}");
    lab.until("a ready node", |lab| is_ready(lab, 1));
}
