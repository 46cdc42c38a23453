//! Kubernetes as nodes bring it up, and as it looks when they go.

use bytes::Bytes;
use serde_json::{Value, json};
use talmox_machine::Role;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{ApplyConfigurationRequest, BootstrapRequest, apply_configuration_request::Mode};
use talmox_sim_talos::{KubeCall, KubeReply, KubeWatch, Listener, MachineId, Peer};

use crate::nodes::lab::{Lab, address, der, done};

pub(crate) fn master(lab: &Lab) -> Peer {
    Peer::Certificate {
        authority: der(lab.bundle.kubernetes.certificate.pem()),
        organisations: vec!["system:masters".to_owned()],
    }
}

pub(crate) fn send(lab: &mut Lab, to: u32, peer: Peer, method: &str, path: &str, body: &Value) -> KubeReply {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let content = if method == "PATCH" { "application/apply-patch+yaml" } else { "application/json" };
    let call = KubeCall {
        to: address(to),
        peer,
        method: method.to_owned(),
        path: path.to_owned(),
        query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        content_type: Some(content.to_owned()),
        body: if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) },
    };
    lab.nodes.kube(&call, lab.now)
}

pub(crate) fn get(lab: &mut Lab, to: u32, path: &str) -> Option<Value> {
    let peer = master(lab);
    match send(lab, to, peer, "GET", path, &Value::Null) {
        KubeReply::Answer { status: 200, body, .. } => Some(serde_json::from_slice(&body).unwrap()),
        _ => None,
    }
}

fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect()
}

pub(crate) fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Control planes first, then workers, all configured and the first bootstrapped.
fn cluster(planes: u32, workers: u32, network: bool) -> Lab {
    let mut lab = Lab::new("1.13.9");
    for id in 1..=planes + workers {
        let hardware = lab.hardware(id);
        lab.nodes.power_on(hardware);
    }
    lab.until("maintenance", |lab| {
        (1..=planes + workers)
            .all(|id| matches!(lab.nodes.listener(address(id)), Listener::Maintenance { .. }))
    });
    for id in 1..=planes + workers {
        let role = if id <= planes { Role::ControlPlane } else { Role::Worker };
        let mut data = String::from_utf8(lab.config(role)).unwrap();
        if !network && role == Role::ControlPlane {
            assert!(data.contains("    network:\n"), "{data}");
            data = data.replacen("    network:\n", "    network:\n        cni:\n            name: none\n", 1);
        }
        let request = ApplyConfigurationRequest {
            data: data.into_bytes(),
            mode: Mode::Auto.into(),
            ..ApplyConfigurationRequest::default()
        };
        done::<talmox_proto::machine::ApplyConfigurationResponse>(lab.raw(
            id,
            Peer::Nobody,
            calls::APPLY_CONFIGURATION,
            &request,
        ))
        .unwrap();
    }
    lab.until("bootstrap", |lab| lab.ask(1, calls::BOOTSTRAP, &BootstrapRequest::default()).is_ok());
    lab
}

#[test]
fn nodes_pods_and_workloads_come_up() {
    let mut lab = cluster(3, 2, true);
    assert!(lab.nodes.kube_listener(address(1)) == Listener::Closed);
    lab.until("ready nodes", |lab| {
        let nodes = get(lab, 1, "/api/v1/nodes");
        nodes.is_some_and(|list| {
            names(&list).len() == 5 && list["items"].as_array().unwrap().iter().all(is_ready)
        })
    });
    lab.until("the API of another", |lab| get(lab, 2, "/version").is_some());
    let planes =
        get(&mut lab, 2, "/api/v1/nodes?labelSelector=node-role.kubernetes.io/control-plane").unwrap();
    assert_eq!(names(&planes), ["node-1", "node-2", "node-3"]);
    let info = &planes["items"][0]["status"];
    assert_eq!(info["nodeInfo"]["kubeletVersion"], "v1.34.1");
    assert_eq!(info["addresses"][0], json!({ "type": "InternalIP", "address": "10.5.0.1" }));
    assert_eq!(planes["items"][0]["spec"]["taints"][0]["key"], "node-role.kubernetes.io/control-plane");
    for app in ["kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let path = format!("/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app={app}");
        lab.until(app, |lab| {
            let pods = get(lab, 1, &path).unwrap();
            names(&pods).len() == 3 && pods["items"].as_array().unwrap().iter().all(is_ready)
        });
    }
    lab.until("daemon sets", |lab| {
        let sets = get(lab, 1, "/apis/apps/v1/daemonsets").unwrap();
        assert_eq!(names(&sets), ["kube-flannel", "kube-proxy"]);
        sets["items"].as_array().unwrap().iter().all(|set| set["status"]["numberReady"] == 5)
    });
    lab.until("coredns", |lab| {
        let path = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
        get(lab, 1, path).unwrap()["status"]["readyReplicas"] == 2
    });
    assert!(get(&mut lab, 4, "/api/v1/nodes").is_none(), "workers have no API server");
}

#[test]
fn who_is_nobody_sees_only_that_the_server_lives() {
    let mut lab = cluster(1, 0, true);
    lab.until("the API", |lab| get(lab, 1, "/version").is_some());
    let mut status = |peer: Peer, path: &str| match send(&mut lab, 1, peer, "GET", path, &Value::Null) {
        KubeReply::Answer { status, .. } => status,
        _ => 0,
    };
    assert_eq!((status(Peer::Nobody, "/readyz"), status(Peer::Nobody, "/api/v1/nodes")), (200, 401));
    let foreign = Peer::Certificate { authority: vec![1], organisations: vec!["system:masters".to_owned()] };
    assert_eq!(status(foreign, "/api/v1/nodes"), 401);
}

#[test]
fn without_a_quorum_the_server_answers_that_etcd_does_not() {
    let mut lab = cluster(3, 0, true);
    lab.until("three members", |lab| {
        (1..=3).all(|id| lab.nodes.standing(MachineId(id)).is_some_and(|standing| standing.is_ready()))
    });
    for id in [2, 3] {
        lab.nodes.power_off(MachineId(id));
    }
    lab.wait(1000);
    let peer = master(&lab);
    let reply = send(&mut lab, 1, peer.clone(), "GET", "/api/v1/nodes", &Value::Null);
    let KubeReply::Answer { status: 500, body, after } = reply else { panic!("{reply:?}") };
    assert!(after > 1000 && String::from_utf8_lossy(&body).contains("etcdserver: request timed out"));
    let reply = send(&mut lab, 1, peer, "GET", "/readyz", &Value::Null);
    assert!(matches!(reply, KubeReply::Answer { status: 500, .. }));
}

#[test]
fn a_machine_that_goes_is_missed_after_a_while() {
    let mut lab = cluster(1, 1, true);
    lab.until("ready nodes", |lab| {
        let nodes = get(lab, 1, "/api/v1/nodes");
        nodes.is_some_and(|list| {
            names(&list).len() == 2 && list["items"].as_array().unwrap().iter().all(is_ready)
        })
    });
    lab.nodes.power_off(MachineId(2));
    lab.wait(30_000);
    assert!(is_ready(&get(&mut lab, 1, "/api/v1/nodes/node-2").unwrap()));
    lab.wait(30_000);
    let node = get(&mut lab, 1, "/api/v1/nodes/node-2").unwrap();
    assert!(!is_ready(&node));
    assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unreachable");
    let hardware = lab.hardware(2);
    lab.nodes.power_on(hardware);
    lab.until("its return", |lab| is_ready(&get(lab, 1, "/api/v1/nodes/node-2").unwrap()));
}

#[test]
fn nodes_wait_for_a_network_plugin_that_somebody_applies() {
    let mut lab = cluster(1, 1, false);
    lab.until("nodes", |lab| get(lab, 1, "/api/v1/nodes").is_some_and(|list| names(&list).len() == 2));
    lab.wait(60_000);
    assert!(!is_ready(&get(&mut lab, 1, "/api/v1/nodes/node-2").unwrap()));
    let labels = json!({ "app": "cilium" });
    let plugin = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "cilium", "namespace": "kube-system" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "hostNetwork": true, "tolerations": [{ "operator": "Exists" }],
                "containers": [{ "name": "agent", "image": "cilium" }],
                "volumes": [{ "name": "cni", "hostPath": { "path": "/etc/cni/net.d" } }],
            } },
        },
    });
    let peer = master(&lab);
    let path = "/apis/apps/v1/namespaces/kube-system/daemonsets/cilium?fieldManager=talmox";
    let reply = send(&mut lab, 1, peer, "PATCH", path, &plugin);
    assert!(matches!(reply, KubeReply::Answer { status: 201, .. }), "{reply:?}");
    lab.until("ready nodes", |lab| {
        let nodes = get(lab, 1, "/api/v1/nodes").unwrap();
        nodes["items"].as_array().unwrap().iter().all(is_ready)
    });
}

/// What a watch was told since somebody last looked: kind of event and name.
fn told(lab: &mut Lab, watch: &mut KubeWatch) -> Vec<String> {
    let (lines, _) = lab.nodes.follow_kube(watch, lab.now);
    let event = |line: &Bytes| {
        let event: Value = serde_json::from_slice(line).unwrap();
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
        format!("{} {name}", event["type"].as_str().unwrap()).trim_end().to_owned()
    };
    lines.iter().map(event).collect()
}

#[test]
fn a_watch_tells_what_is_there_and_what_changes() {
    let mut lab = cluster(1, 0, true);
    lab.until("Kubernetes", |lab| get(lab, 1, "/api/v1/nodes").is_some());
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str, value: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": value } });
    let peer = master(&lab);
    send(&mut lab, 1, peer.clone(), "POST", maps, &map("one", "1"));
    let begun =
        format!("{maps}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=300");
    let KubeReply::Watch(mut watch) = send(&mut lab, 1, peer.clone(), "GET", &begun, &Value::Null) else {
        panic!("no watch")
    };
    assert_eq!(watch.seconds(), Some(300));
    assert_eq!(told(&mut lab, &mut watch), ["ADDED one", "BOOKMARK"]);
    assert!(told(&mut lab, &mut watch).is_empty());
    let revision =
        get(&mut lab, 1, maps).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    send(&mut lab, 1, peer.clone(), "PUT", &format!("{maps}/one"), &map("one", "2"));
    send(&mut lab, 1, peer.clone(), "POST", maps, &map("two", "1"));
    assert_eq!(told(&mut lab, &mut watch), ["MODIFIED one", "ADDED two"]);
    let from = format!("{maps}?watch=1&resourceVersion={revision}");
    let KubeReply::Watch(mut later) = send(&mut lab, 1, peer.clone(), "GET", &from, &Value::Null) else {
        panic!("no watch")
    };
    assert_eq!(told(&mut lab, &mut later), ["MODIFIED one", "MODIFIED two"]);
    send(&mut lab, 1, peer.clone(), "DELETE", &format!("{maps}/one"), &Value::Null);
    send(&mut lab, 1, peer.clone(), "POST", maps, &map("one", "3"));
    assert_eq!(told(&mut lab, &mut watch), ["DELETED one", "ADDED one"]);
    // What was removed since then cannot be told any more.
    let reply = send(&mut lab, 1, peer, "GET", &from, &Value::Null);
    assert!(matches!(reply, KubeReply::Answer { status: 410, .. }), "{reply:?}");
    let nobody = send(&mut lab, 1, Peer::Nobody, "GET", &begun, &Value::Null);
    assert!(matches!(nobody, KubeReply::Answer { status: 401, .. }), "{nobody:?}");
}

#[test]
fn talos_lists_what_it_brought() {
    let mut lab = cluster(1, 0, true);
    lab.until("Kubernetes", |lab| get(lab, 1, "/api/v1/nodes").is_some());
    let list = "/api/v1/namespaces/kube-system/configmaps/talos-bootstrap-manifests-inventory";
    let listed = get(&mut lab, 1, list).unwrap();
    assert_eq!(listed["data"]["kube-system_kube-proxy_apps_DaemonSet"], "");
    let proxy = get(&mut lab, 1, "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy").unwrap();
    let owner = &proxy["metadata"]["annotations"]["config.k8s.io/owning-inventory"];
    assert_eq!(owner, "talos-bootstrap-manifests-inventory");
}
