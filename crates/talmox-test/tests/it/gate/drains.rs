//! Pods that leave, pods that may not, and runs that die in between.

use std::time::Duration;

use talmox_test::{Fault, When};

use crate::gate::bed::{Bed, described, healthy};

const MORE_MEMORY: &str = "proxmox_vm_worker_defaults: {memory: 6144}";

/// A deployment, and a budget that allows none of its pods to leave.
const NEVER_YIELDS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web-budget, namespace: default}
spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}
";

async fn bed(seed: u64) -> Bed {
    let bed = Bed::new(seed, described(1, 2, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_never_yields_is_named_and_the_node_opened_again() {
    let mut bed = bed(51).await;
    let manifests = talmox_k8s::Manifest::read_all(NEVER_YIELDS).unwrap();
    bed.kubernetes_at("10.0.7.11").apply(&manifests, talmox_k8s::Apply::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    bed.desired = described(1, 2, MORE_MEMORY);
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("was not drained within 5 min"), "{error}");
    assert!(error.contains("kept by web-budget"), "{error}");
    assert_eq!(bed.lab.calls().asking("POST", "/status/reboot").count(), 0);
    assert_eq!(bed.cordoned().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_dies_leaves_nothing_closed_for_ever() {
    let mut calm = bed(52).await;
    calm.desired = described(1, 2, MORE_MEMORY);
    let before = calm.lab.calls().len();
    calm.converge(&healthy(), 2).await.unwrap();
    let calls = calm.lab.calls();
    let closing = calls.iter().skip(before).position(|call| call.method == "PATCH").unwrap();
    // Right after a node was closed, and a few calls later, when its VM restarts.
    for after in [1, 12, 30, 60, 110] {
        let mut bed = bed(52).await;
        bed.desired = described(1, 2, MORE_MEMORY);
        let number = u64::try_from(closing + after).unwrap();
        bed.lab.plan(When::call(number), Fault::KillClient { sent: true });
        bed.converge_mortally(&healthy(), 2).await.unwrap_err();
        bed.lab.transport().revive_client();
        bed.converge(&healthy(), 3)
            .await
            .unwrap_or_else(|error| panic!("{after}: {error}\n{}", bed.told.lines().join("\n")));
        assert_eq!(bed.cordoned().await, Vec::<String>::new(), "{after}");
        bed.settles().await;
        bed.is_healthy().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_closed_stays_closed() {
    let mut bed = bed(53).await;
    let client = bed.kubernetes_at("10.0.7.11");
    let change = talmox_k8s::NodeChange { unschedulable: Some(true), ..Default::default() };
    client.change_node("worker-1", &change).await.unwrap();
    bed.desired = described(1, 2, MORE_MEMORY);
    bed.converge(&healthy(), 2)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(bed.cordoned().await, ["worker-1"]);
    assert_eq!(bed.lab.calls().asking("POST", "/status/reboot").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_fails_opens_the_node_again() {
    let mut bed = bed(54).await;
    bed.desired = described(1, 2, MORE_MEMORY);
    bed.lab.plan(
        When::every(talmox_pve::client::Method::Post, "/status/reboot"),
        Fault::reply(500, "got no worker upid - start worker failed"),
    );
    bed.converge(&healthy(), 2).await.unwrap_err();
    assert_eq!(bed.cordoned().await, Vec::<String>::new(), "{:#?}", bed.told.lines());
}
