//! Talos nodes in the machines of a lab: one clock, one log, one plan of faults.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use futures_util::StreamExt as _;
use support::{ADDRESS, Cluster, address, machine, started};
use talmox_pve::client::VmPower;
use talmox_talos::{Access, ApplyMode, Client, Code, Kind, TransportError};
use talmox_test::{Fault, Lab, When, host};

fn maintenance(lab: &Lab) -> Client {
    Client::new(lab.talos(), address(ADDRESS), Access::maintenance())
}

/// Asks until somebody answers.
async fn answers(client: &Client) -> String {
    for _ in 0..600 {
        match client.version().await {
            Ok(release) => return release.tag,
            Err(error) if error.kind() == Kind::NotReached => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody answers at {ADDRESS}");
}

#[tokio::test(start_paused = true)]
async fn a_vm_with_talos_comes_up_at_its_address() {
    let lab = started(1).await;
    let client = maintenance(&lab);
    let early = client.version().await.unwrap_err();
    assert_eq!(early.kind(), Kind::NotReached, "it boots");
    assert_eq!(answers(&client).await, "v1.13.9");
    // Strangers do not believe it, and it tells nobody else's story.
    let secure = Client::new(lab.talos(), address(ADDRESS), Cluster::new().access());
    assert_eq!(secure.version().await.unwrap_err().kind(), Kind::NotTrusted);
    let elsewhere = Client::new(lab.talos(), address("10.0.0.99"), Access::maintenance());
    assert_eq!(elsewhere.version().await.unwrap_err().kind(), Kind::NotReached);
    let log = lab.calls();
    assert!(log.asking("GET", "/machine.MachineService/Version").count() > 3);
    assert!(log.asking("POST", "/status/start").count() == 1, "one log for all");
}

#[tokio::test(start_paused = true)]
async fn a_configured_node_believes_its_authority_alone() {
    let lab = started(2).await;
    let (ours, theirs) = (Cluster::new(), Cluster::new());
    let client = maintenance(&lab);
    answers(&client).await;
    let config = ours.config(ADDRESS).into();
    client.apply_configuration(config, ApplyMode::NoReboot, false).await.unwrap();
    let secure = Client::new(lab.talos(), address(ADDRESS), ours.access());
    assert_eq!(answers_securely(&secure).await, "v1.13.9");
    assert!(secure.service("apid").await.unwrap().is_some());
    let foreign = Client::new(lab.talos(), address(ADDRESS), theirs.access());
    assert_eq!(foreign.version().await.unwrap_err().kind(), Kind::NotTrusted);
    assert!(client.version().await.is_err(), "it has left maintenance");
}

/// The same, while it changes its certificate.
async fn answers_securely(client: &Client) -> String {
    for _ in 0..600 {
        match client.version().await {
            Ok(release) => return release.tag,
            Err(error) => assert!(matches!(error.kind(), Kind::NotReached | Kind::NotTrusted), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody answers at {ADDRESS}");
}

#[tokio::test(start_paused = true)]
async fn the_node_decides_about_the_power_button() {
    let lab = started(3).await;
    let client = lab.client();
    answers(&maintenance(&lab)).await;
    let before = lab.transport().now();
    let task = client.shut_down_vm(&host(1), machine(), Some(Duration::from_mins(1)), false).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    assert_eq!(client.vm_status(&host(1), machine()).await.unwrap().status, VmPower::Stopped);
    assert!(lab.transport().now() - before < 30_000, "nobody waits for longer than it takes");
    assert_eq!(maintenance(&lab).version().await.unwrap_err().kind(), Kind::NotReached);
    let again = client.start_vm(&host(1), machine()).await.unwrap();
    lab.done(&client, &again).await.unwrap();
    answers(&maintenance(&lab)).await;
}

#[tokio::test(start_paused = true)]
async fn faults_meet_calls_of_every_layer() {
    let lab = started(4).await;
    let client = maintenance(&lab);
    answers(&client).await;
    lab.plan(When::talos("Version"), Fault::status(Code::Unavailable, "not now"));
    let refused = client.version().await.unwrap_err();
    assert_eq!(refused.status().unwrap().message, "not now");
    for (fault, kind) in [
        (Fault::Refused, Kind::NotReached),
        (Fault::ReplyLost, Kind::Uncertain),
        (Fault::Hang { reached: true }, Kind::Uncertain),
    ] {
        lab.plan(When::call(1), fault.clone());
        assert_eq!(client.version().await.unwrap_err().kind(), kind, "{fault:?}");
    }
    // The second call of all, whatever layer it belongs to, is the client's last.
    lab.plan(When::call(2), Fault::KillClient { sent: false });
    lab.client().version().await.unwrap();
    let dead = client.version().await.unwrap_err();
    assert!(matches!(dead.cause, TransportError::Connect { .. }) && lab.transport().client_died());
    assert!(lab.client().version().await.is_err());
    lab.transport().revive_client();
    client.version().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_is_the_same_run() {
    let mut logs = Vec::new();
    for _ in 0..2 {
        let lab = started(5).await;
        answers(&maintenance(&lab)).await;
        logs.push(lab.calls().to_string());
    }
    assert_eq!(logs[0], logs[1]);
}

#[tokio::test(start_paused = true)]
async fn a_lab_without_nodes_has_nobody_at_any_address() {
    let lab = Lab::one_host(6);
    assert_eq!(maintenance(&lab).version().await.unwrap_err().kind(), Kind::NotReached);
}

#[tokio::test(start_paused = true)]
async fn a_bootstrapped_node_has_a_kubernetes() {
    let lab = started(7).await;
    let cluster = Cluster::new();
    let client = maintenance(&lab);
    answers(&client).await;
    client.apply_configuration(cluster.config(ADDRESS).into(), ApplyMode::NoReboot, false).await.unwrap();
    let secure = Client::new(lab.talos(), address(ADDRESS), cluster.access());
    answers_securely(&secure).await;
    // A watch hears of what happens, however long that takes.
    let mut states = secure.watch::<talmox_talos::kinds::Service>("etcd").await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    secure.bootstrap(false).await.unwrap();
    loop {
        let seen = states.next().await.unwrap().unwrap();
        if seen.resource.is_some_and(|service| service.spec.healthy) {
            break;
        }
    }
    drop(states);
    let config = secure.kubeconfig().await.unwrap();
    let access = talmox_k8s::Access::from_kubeconfig(&config).unwrap();
    let kubernetes = talmox_k8s::Client::new(lab.kubernetes(), access);
    for _ in 0..600 {
        if kubernetes.nodes().await.is_ok_and(|nodes| nodes.iter().any(talmox_k8s::Node::is_ready)) {
            assert!(lab.calls().asking("GET", "/api/v1/nodes").count() > 0);
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("no node is ready: {:?}", kubernetes.nodes().await);
}
