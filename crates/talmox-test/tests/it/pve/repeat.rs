//! The same seed is the same run.

use talmox_pve::client::{CloneKind, CloneVm, Method, Silent};
use talmox_test::{Fault, Lab, When, host, vmid};
use tokio::task::JoinSet;

/// Much at once, with faults, retries, tickets and waiting in it.
async fn busy(seed: u64) -> String {
    let lab = Lab::three_hosts(seed);
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    lab.plan(When::nth(Method::Get, "/status/current", 2), Fault::ReplyLost);
    lab.plan(
        When::nth(Method::Post, "/status/start", 2),
        Fault::reply(500, "got no worker upid - start worker failed"),
    );
    lab.plan(When::nth(Method::Get, "/tasks/", 5), Fault::Refused);
    let mut work = JoinSet::new();
    for id in 100..108 {
        let client = client.clone();
        work.spawn(async move {
            let clone = CloneVm {
                newid: vmid(id),
                name: Some(format!("node-{id}")),
                description: None,
                pool: None,
                target: None,
                kind: if id % 2 == 0 {
                    CloneKind::Linked
                } else {
                    CloneKind::Full { storage: None, format: None }
                },
            };
            let limit = std::time::Duration::from_mins(5);
            let task = client.clone_vm(&host(1), vmid(9000), &clone).await.unwrap();
            client.follow(&task, "clone", limit, &Silent).await.unwrap();
            let task = client.start_vm(&host(1), vmid(id)).await.unwrap();
            client.follow(&task, "start", limit, &Silent).await.unwrap();
            client.vm_status(&host(1), vmid(id)).await.unwrap();
        });
    }
    while let Some(done) = work.join_next().await {
        done.unwrap();
    }
    lab.root().cluster_status().await.unwrap();
    lab.calls().to_string()
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_calls_byte_for_byte() {
    for seed in 0..4 {
        let first = busy(seed).await;
        let second = busy(seed).await;
        assert!(first.lines().count() > 60, "too little happened:\n{first}");
        assert_eq!(first, second, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_seed_is_another_run() {
    assert_ne!(busy(1).await, busy(2).await);
}
