//! VMs that go: only the ones that were meant, with the volumes that were meant.

use talmox_exec::{StepError, execute};
use talmox_plan::{Effect, Step};
use talmox_pve::client::{ConfigChange, Method, PoolChange};
use talmox_pve::property::Slot;
use talmox_test::{Fault, Lab, When, host, vmid};

use crate::exec::support::{
    Bench, POOL, describe, description, make_node, make_pool, make_vm, mark, plan_of, planned, pool, remove,
};

/// A running VM of `cp-1`.
async fn prepared(lab: &Lab) {
    let client = lab.client();
    lab.template(&client, vmid(9000)).await;
    make_pool(lab).await;
    make_node(lab, &client, &mark("cp-1", 2000, "a1")).await;
    let task = client.start_vm(&host(1), vmid(2000)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_stopped_and_removed_with_its_volumes() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let bench = Bench::new(description(1, 0, ""));
    let client = lab.client();
    let plan = plan_of(remove("cp-1", 2000, "a1"));
    let outcome = execute(&bench.run(&client), &plan).await;
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    assert!(!lab.world(|world| world.has_vm(2000)));
    assert_eq!(bench.gate.asked(), ["cp-1"], "once for the node, not for each step");
    let volumes = client.content(&host(1), &talmox_test::storage("local-zfs"), Some("images")).await.unwrap();
    assert!(volumes.iter().all(|volume| volume.volid.owner() != Some(vmid(2000))), "{volumes:?}");
    // What is gone is gone: the same plan again is no failure and writes nothing.
    let writes = lab.calls().writes().count();
    let outcome = execute(&bench.run(&client), &plan).await;
    assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}");
    assert_eq!(lab.calls().writes().count(), writes);
}

#[tokio::test(start_paused = true)]
async fn another_mark_saves_a_vm() {
    let foreign = "somebody wrote over it";
    let other_life = mark("cp-1", 2000, "b2").to_string();
    let other_id = mark("cp-1", 2001, "a1").to_string();
    for text in [foreign, &other_life, &other_id] {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        describe(&lab, vmid(2000), text).await;
        let client = lab.client();
        let writes = lab.calls().writes().count();
        let bench = Bench::new(description(1, 0, ""));
        let outcome = execute(&bench.run(&client), &plan_of(remove("cp-1", 2000, "a1"))).await;
        assert!(matches!(outcome.failed[0].error, StepError::NotOurs { .. }), "{outcome:#?}");
        assert_eq!(lab.calls().writes().count(), writes, "nothing was done to it");
        assert!(lab.world(|world| world.has_vm(2000)));
    }
}

/// Somebody takes the VM over between the stop and the removal.
#[tokio::test(start_paused = true)]
async fn the_mark_is_read_again_before_the_removal() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let bench = Bench::new(description(1, 0, ""));
    let (run, plan) = (bench.run(&client), plan_of(remove("cp-1", 2000, "a1")));
    let meddling = async {
        while lab.calls().asking("POST", "/status/shutdown").next().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        describe(&lab, vmid(2000), "mine now").await;
    };
    let (outcome, ()) = tokio::join!(execute(&run, &plan), meddling);
    assert!(matches!(outcome.failed[0].error, StepError::NotOurs { .. }), "{outcome:#?}");
    assert_eq!(lab.calls().asking("DELETE", "/qemu/2000").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_nobody_agreed_to_lose_saves_a_vm() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    let live = client.vm_config(&host(1), vmid(2000)).await.unwrap();
    let disk = talmox_pve::property::Disk::parse("local-zfs:5").unwrap();
    let change = ConfigChange::new().add_disk(Slot::parse("scsi7").unwrap(), &disk, &live).unwrap();
    let task = client.change_config_in_task(&host(1), vmid(2000), &change).await.unwrap().unwrap();
    lab.done(&client, &task).await.unwrap();
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&client), &plan_of(remove("cp-1", 2000, "a1"))).await;
    let error = outcome.failed[0].error.to_string();
    assert!(error.contains("not to be destroyed") && error.contains("(scsi7)"), "{error}");
    assert!(lab.world(|world| world.has_vm(2000)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_removal_is_no_failure() {
    for fault in [Fault::ReplyLost, Fault::Hang { reached: true }, Fault::Hang { reached: false }] {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        lab.plan(When::first(Method::Delete, "/qemu/2000"), fault.clone());
        lab.plan(When::first(Method::Post, "/status/shutdown"), fault.clone());
        let client = lab.client();
        let bench = Bench::new(description(1, 0, ""));
        let outcome = execute(&bench.run(&client), &plan_of(remove("cp-1", 2000, "a1"))).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{fault:?}: {outcome:#?}\n{}", lab.calls());
        assert!(!lab.world(|world| world.has_vm(2000)));
    }
}

/// Proxmox answers a removal it does not allow as it answers one of a VM that is not there: with a 403.
#[tokio::test(start_paused = true)]
async fn a_removal_that_is_denied_is_a_failure() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let denied = Fault::reply(403, "Permission check failed (/vms/2000, VM.Allocate)");
    lab.plan(When::every(Method::Delete, "/qemu/2000"), denied);
    let client = lab.client();
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&client), &plan_of(remove("cp-1", 2000, "a1"))).await;
    assert!(!outcome.failed.is_empty() && !outcome.wants_another_plan(), "{outcome:#?}");
    assert!(lab.world(|world| world.has_vm(2000)));
}

/// Names prove nothing: somebody else's VM may have ours, and a lower id.
#[tokio::test(start_paused = true)]
async fn another_vm_of_the_same_name_stays() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    make_vm(&lab, &client, 1, vmid(150), &[("name", "cp-1"), ("memory", "512")]).await;
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&client), &plan_of(remove("cp-1", 2000, "a1"))).await;
    assert!(outcome.is_complete(), "{outcome:#?}");
    assert_eq!(lab.world(|world| (world.has_vm(150), world.has_vm(2000))), (true, false));
}

#[tokio::test(start_paused = true)]
async fn only_an_empty_pool_of_ours_goes() {
    let lab = Lab::one_host(1);
    let root = lab.root();
    root.create_pool(&pool(), Some("ours")).await.unwrap();
    let step = |comment: &str| {
        let step = Step::DeletePool { pool: pool(), comment: comment.to_owned() };
        plan_of(vec![planned("", step, Effect::Destroy, &[])])
    };
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&root), &step("somebody else's")).await;
    assert!(outcome.is_complete() && bench.told.has("not ours any more"), "{outcome:#?}");
    let change = PoolChange { storages: vec![talmox_test::storage("local")], ..PoolChange::default() };
    root.change_pool(&pool(), &change).await.unwrap();
    execute(&bench.run(&root), &step("ours")).await;
    assert!(bench.told.has("still holds"), "{:?}", bench.told.lines());
    root.change_pool(&pool(), &PoolChange { remove: true, ..change }).await.unwrap();
    for _ in 0..2 {
        assert!(execute(&bench.run(&root), &step("ours")).await.is_complete());
    }
    assert!(!lab.world(|world| world.pools.contains_key(POOL)));
}
