//! Each check, kept from holding in one way.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use talmox_exec::health::{CheckState, Member, await_health, look};
use talmox_proto::definitions::MachineStage;
use talmox_types::desired::Role;
use talmox_types::{FamilyPair, NodeName};

use crate::script::{CONTROL_PLANE, Machine, Shared, WORKER, World, cluster, healthy, node, pod};

/// What is waited for after one change: the check, and why.
async fn missing(change: impl FnOnce(&mut World)) -> String {
    let world = healthy();
    change(&mut world.lock().unwrap());
    let health = look(&cluster(&world)).await;
    let (name, missing) = health.missing().unwrap_or_else(|| panic!("healthy: {health:?}"));
    format!("{name} | {}", missing.why)
}

fn machine<'w>(world: &'w mut World, address: &str) -> &'w mut Machine {
    world.machines.get_mut(&address.parse().unwrap()).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "every caller makes it on the spot")]
fn answer(world: &mut World, path: &str, items: serde_json::Value) {
    world.kubernetes.as_mut().unwrap().insert(path.to_owned(), json!({ "items": items }));
}

#[tokio::test(start_paused = true)]
async fn everything_holds_and_is_told_in_order() {
    let health = look(&cluster(&healthy())).await;
    assert!(health.is_healthy(), "{health:?}");
    assert_eq!(health.checks.len(), 16);
    assert!(health.checks.iter().all(|check| check.state == CheckState::Ok));
    assert_eq!(health.checks[0].name, "etcd to be healthy");
    assert_eq!(health.checks[15].name, "all k8s nodes to report schedulable");
}

#[tokio::test(start_paused = true)]
async fn each_check_says_what_is_missing_and_where() {
    let mut told = Vec::new();
    let mut add = |line: String| told.push(line);
    add(missing(|world| {
        machine(world, CONTROL_PLANE).services.insert("etcd", ("Preparing", false));
    })
    .await);
    add(missing(|world| {
        machine(world, CONTROL_PLANE).services.remove("etcd");
    })
    .await);
    add(missing(|world| machine(world, CONTROL_PLANE).members.push((2, "", "https://10.0.7.99:2380"))).await);
    add(missing(|world| machine(world, WORKER).answers = false).await);
    add(missing(|world| machine(world, CONTROL_PLANE).memory_mib = 1024).await);
    add(missing(|world| machine(world, WORKER).ephemeral_mib = 3000).await);
    add(missing(|world| machine(world, WORKER).ephemeral_mib = 0).await);
    add(missing(|world| {
        machine(world, WORKER).diagnostics.push(("address-overlap", "host and pod networks overlap"));
    })
    .await);
    add(missing(|world| {
        machine(world, CONTROL_PLANE).services.insert("kubelet", ("Running", false));
    })
    .await);
    add(missing(|world| {
        let machine = machine(world, WORKER);
        machine.stage = MachineStage::StageBooting;
        machine.unmet.push(("services", "kubelet not healthy"));
    })
    .await);
    add(missing(|world| world.kubernetes = None).await);
    add(missing(|world| answer(world, "/api/v1/nodes", json!([node("cp-1", CONTROL_PLANE, true, true)])))
        .await);
    add(missing(|world| {
        let stranger = node("stranger", "10.0.7.77", true, false);
        let nodes =
            json!([node("cp-1", CONTROL_PLANE, true, true), node("worker-1", WORKER, true, false), stranger]);
        answer(world, "/api/v1/nodes", nodes);
    })
    .await);
    add(missing(|world| {
        machine(world, CONTROL_PLANE).static_pods.retain(|pod| *pod != "kube-scheduler");
    })
    .await);
    add(missing(|world| {
        answer(world, "/api/v1/pods?k8s-app=kube-scheduler", json!([pod("kube-scheduler-cp-1", false)]));
    })
    .await);
    add(missing(|world| {
        let nodes = json!([node("cp-1", CONTROL_PLANE, true, true), node("worker-1", WORKER, false, false)]);
        answer(world, "/api/v1/nodes", nodes);
    })
    .await);
    add(missing(|world| {
        answer(world, "/api/v1/pods?k8s-app=kube-proxy", json!([pod("kube-proxy-a", true)]));
    })
    .await);
    add(missing(|world| {
        answer(
            world,
            "/api/v1/pods?k8s-app=kube-dns",
            json!([pod("coredns-a", true), pod("coredns-b", false)]),
        );
    })
    .await);
    add(missing(|world| {
        let mut cordoned = node("worker-1", WORKER, true, false);
        cordoned["spec"] = json!({"unschedulable": true});
        answer(world, "/api/v1/nodes", json!([node("cp-1", CONTROL_PLANE, true, true), cordoned]));
    })
    .await);
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn what_a_cluster_does_not_have_is_not_asked_of_it() {
    let world = healthy();
    {
        let mut world = world.lock().unwrap();
        let nodes = json!([node("cp-1", CONTROL_PLANE, false, true), node("worker-1", WORKER, false, false)]);
        answer(&mut world, "/api/v1/nodes", nodes);
        answer(&mut world, "/apis/apps/v1/daemonsets?k8s-app=kube-proxy", json!([]));
    }
    let mut cluster = cluster(&world);
    cluster.has_network = false;
    let health = look(&cluster).await;
    assert!(health.is_healthy(), "{health:?}");
    let skipped: Vec<&str> = health
        .checks
        .iter()
        .filter(|check| matches!(check.state, CheckState::Skipped { .. }))
        .map(|check| check.name)
        .collect();
    assert_eq!(
        skipped,
        ["all k8s nodes to report ready", "kube-proxy to report ready", "coredns to report ready"]
    );
}

/// Something becomes so after a number of calls.
async fn becomes(world: Shared, after: usize, change: impl FnOnce(&mut World)) {
    loop {
        if world.lock().unwrap().calls >= after {
            return change(&mut world.lock().unwrap());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_waits_and_says_for_what() {
    let world = healthy();
    machine(&mut world.lock().unwrap(), CONTROL_PLANE).services.insert("etcd", ("Preparing", false));
    let said = Mutex::new(Vec::new());
    let report = |progress: talmox_exec::health::Progress<'_>| {
        let mut said = said.lock().unwrap();
        let line = format!("{} {}/{}", progress.name, progress.held, progress.of);
        if said.last() != Some(&line) {
            said.push(line);
        }
    };
    let cluster = cluster(&world);
    let (health, ()) = tokio::join!(
        await_health(&cluster, Duration::from_mins(1), &report),
        becomes(world.clone(), 5, |world| {
            machine(world, CONTROL_PLANE).services.insert("etcd", ("Running", true));
        })
    );
    assert!(health.unwrap().is_healthy());
    let said = said.into_inner().unwrap();
    assert_eq!(said.first().unwrap(), "etcd to be healthy 0/16");
    assert_eq!(said.last().unwrap(), "all k8s nodes to report schedulable 15/16");
}

#[tokio::test(start_paused = true)]
async fn what_held_must_still_hold_in_the_end() {
    let world = healthy();
    let nodes =
        |ready| json!([node("cp-1", CONTROL_PLANE, true, true), node("worker-1", WORKER, ready, false)]);
    answer(&mut world.lock().unwrap(), "/api/v1/nodes", nodes(false));
    let cluster = cluster(&world);
    let waiting = Mutex::new(Vec::new());
    let report = |progress: talmox_exec::health::Progress<'_>| {
        if !progress.state.holds() {
            waiting.lock().unwrap().push(progress.name);
        }
        // Nodes become ready at the moment an early check breaks.
        if progress.name == "all k8s nodes to report ready" && waiting.lock().unwrap().len() == 1 {
            let mut world = world.lock().unwrap();
            answer(&mut world, "/api/v1/nodes", nodes(true));
            machine(&mut world, CONTROL_PLANE).services.insert("etcd", ("Running", false));
        }
        if waiting.lock().unwrap().len() == 3 {
            machine(&mut world.lock().unwrap(), CONTROL_PLANE).services.insert("etcd", ("Running", true));
        }
    };
    let health = await_health(&cluster, Duration::from_mins(1), &report).await.unwrap();
    assert!(health.is_healthy());
    let waited = waiting.into_inner().unwrap();
    assert_eq!(waited, ["all k8s nodes to report ready", "etcd to be healthy", "etcd to be healthy"]);
}

#[tokio::test(start_paused = true)]
async fn when_time_is_up_the_node_has_the_last_word() {
    let world = healthy();
    {
        let mut world = world.lock().unwrap();
        let machine = machine(&mut world, CONTROL_PLANE);
        machine.services.insert("etcd", ("Preparing", false));
        machine.stage = MachineStage::StageBooting;
        machine.unmet.push(("services", "etcd not running"));
    }
    let failed = await_health(&cluster(&world), Duration::from_secs(90), &|_| {}).await.unwrap_err();
    insta::assert_snapshot!(failed.to_string());
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_to_be_off_are_neither_strangers_nor_expected() {
    let world = healthy();
    {
        // Kubernetes remembers them and what ran on them, and etcd its member.
        let mut world = world.lock().unwrap();
        let on = |name: &str, node: &str| {
            let mut pod = pod(name, false);
            pod["spec"] = json!({"nodeName": node});
            pod
        };
        answer(
            &mut world,
            "/api/v1/nodes",
            json!([
                node("cp-1", CONTROL_PLANE, true, true),
                node("cp-2", "10.0.7.12", false, true),
                node("worker-1", WORKER, true, false),
                node("worker-2", "10.0.7.15", false, false),
            ]),
        );
        for app in ["kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
            let pods = json!([pod(&format!("{app}-cp-1"), true), on(&format!("{app}-cp-2"), "cp-2")]);
            answer(&mut world, &format!("/api/v1/pods?k8s-app={app}"), pods);
        }
        let proxies = json!([
            pod("kube-proxy-a", true),
            pod("kube-proxy-b", true),
            on("kube-proxy-c", "cp-2"),
            on("kube-proxy-d", "worker-2")
        ]);
        answer(&mut world, "/api/v1/pods?k8s-app=kube-proxy", proxies);
        let wanted = json!([{"status": {"desiredNumberScheduled": 4}}]);
        answer(&mut world, "/apis/apps/v1/daemonsets?k8s-app=kube-proxy", wanted);
        machine(&mut world, CONTROL_PLANE).members.push((2, "cp-2", "https://10.0.7.12:2380"));
    }
    let mut cluster = cluster(&world);
    assert!(!look(&cluster).await.is_healthy());
    let off = |name: &str, role, address: &str| Member {
        name: NodeName::parse(name).unwrap(),
        role,
        addresses: FamilyPair::one(address.parse().unwrap()),
    };
    cluster.off =
        vec![off("cp-2", Role::Controller, "10.0.7.12"), off("worker-2", Role::Worker, "10.0.7.15")];
    let health = look(&cluster).await;
    assert!(health.is_healthy(), "{:?}", health.missing());
}
