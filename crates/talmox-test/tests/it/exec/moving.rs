//! VMs that go to another host.

use talmox_exec::{Outcome, execute};
use talmox_plan::{Effect, Step};
use talmox_pve::client::{Method, NewHaResource, VmPower};
use talmox_test::{Fault, Lab, When, host, vmid};

use crate::exec::support::{Bench, description, expected, make_vm, mark, plan_of, planned};

/// A VM of `cp-1` on a storage that all hosts share.
async fn prepared(lab: &Lab, running: bool) {
    let root = lab.root();
    let description = mark("cp-1", 2000, "a1").to_string();
    let pairs =
        [("name", "cp-1"), ("description", description.as_str()), ("scsi0", "shared:8"), ("memory", "512")];
    make_vm(lab, &root, 1, vmid(2000), &pairs).await;
    if running {
        let task = root.start_vm(&host(1), vmid(2000)).await.unwrap();
        lab.done(&root, &task).await.unwrap();
    }
}

async fn to_second(lab: &Lab) -> Outcome {
    let bench = Bench::new(description(1, 0, ""));
    let step = Step::MoveVm { vm: expected("cp-1", 2000, "a1"), to: host(2), local_disks: false };
    let root = lab.root();
    execute(&bench.run(&root), &plan_of(vec![planned("cp-1", step, Effect::Move, &[])])).await
}

async fn power_on_second(lab: &Lab) -> VmPower {
    lab.root().vm_status(&host(2), vmid(2000)).await.unwrap().status
}

#[tokio::test(start_paused = true)]
async fn it_moves_once_running_or_not() {
    for (running, power) in [(true, VmPower::Running), (false, VmPower::Stopped)] {
        let lab = Lab::three_hosts(1);
        prepared(&lab, running).await;
        let outcome = to_second(&lab).await;
        assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
        assert_eq!(power_on_second(&lab).await, power);
        let outcome = to_second(&lab).await;
        assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}");
        let moves = lab.calls().writes().filter(|call| call.path.ends_with("/migrate")).count();
        assert_eq!(moves, 1, "{}", lab.calls());
    }
}

#[tokio::test(start_paused = true)]
async fn ha_moves_it_later_and_a_lost_answer_moves_it_once() {
    let lab = Lab::three_hosts(1);
    prepared(&lab, true).await;
    lab.root().add_ha_resource(vmid(2000), &NewHaResource::default()).await.unwrap();
    let outcome = to_second(&lab).await;
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    assert_eq!(power_on_second(&lab).await, VmPower::Running);
    for fault in [Fault::ReplyLost, Fault::reply(596, "Connection timed out")] {
        let lab = Lab::three_hosts(1);
        prepared(&lab, true).await;
        lab.plan(When::first(Method::Post, "/2000/migrate"), fault);
        let outcome = to_second(&lab).await;
        assert!(outcome.is_complete(), "{outcome:#?}\n{}", lab.calls());
        assert_eq!(power_on_second(&lab).await, VmPower::Running);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_move_stays_and_says_why() {
    let lab = Lab::three_hosts(1);
    let root = lab.root();
    let description = mark("cp-1", 2000, "a1").to_string();
    let pairs = [("name", "cp-1"), ("description", description.as_str()), ("scsi0", "local-zfs:8")];
    make_vm(&lab, &root, 1, vmid(2000), &pairs).await;
    let task = root.start_vm(&host(1), vmid(2000)).await.unwrap();
    lab.done(&root, &task).await.unwrap();
    let outcome = to_second(&lab).await;
    assert_eq!(outcome.failed.len(), 1, "{outcome:#?}");
    let error = format!("{:#}", anyhow_chain(&outcome.failed[0].error));
    assert!(error.contains("move VM 2000 on pve1 to pve2"), "{error}");
    assert_eq!(root.vm_status(&host(1), vmid(2000)).await.unwrap().status, VmPower::Running);
}

/// An error with everything below it.
fn anyhow_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text += &format!(": {inner}");
        source = inner.source();
    }
    text
}
