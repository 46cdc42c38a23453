//! VMs that are made: as planned, beside others, and when answers are lost.

use std::time::Duration;

use talmox_exec::{Because, StepError, execute};
use talmox_plan::Nonce;
use talmox_pve::client::{Method, VmPower};
use talmox_pve::property::VmConfig;
use talmox_test::{Fault, Lab, When, host, vmid};
use talmox_types::VmId;

use crate::exec::support::{
    Bench, create, create_as, description, make_node, make_pool, make_vm, mark, nonce, plan_of,
};

async fn prepared(lab: &Lab) {
    lab.template(&lab.client(), vmid(9000)).await;
    make_pool(lab).await;
}

async fn config(lab: &Lab, id: u32) -> VmConfig {
    lab.client().vm_config(&host(1), vmid(id)).await.unwrap()
}

async fn is_running(lab: &Lab, id: u32) -> bool {
    lab.client().vm_status(&host(1), vmid(id)).await.unwrap().status == VmPower::Running
}

fn ids(lab: &Lab) -> Vec<u32> {
    (100..=9999).filter(|id| lab.world(|world| world.has_vm(*id))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_vm_is_cloned_configured_and_started() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let bench = Bench::new(description(1, 0, ""));
    let client = lab.client();
    let plan = plan_of(create("cp-1", 2000));
    let outcome = execute(&bench.run(&client), &plan).await;
    assert!(outcome.is_complete() && outcome.wrote(), "{outcome:#?}\n{}", lab.calls());
    let config = config(&lab, 2000).await;
    assert_eq!(config.description(), Some(mark("cp-1", 2000, nonce().as_str()).to_string().as_str()));
    assert_eq!(
        (config.name(), config.get("memory"), config.get("tags")),
        (Some("cp-1"), Some("4096"), Some("talos"))
    );
    let smbios = config.smbios().unwrap().unwrap();
    assert_eq!((smbios.serial.as_deref(), smbios.uuid.is_some()), (Some("h=cp-1;i=2000"), true));
    assert!(config.get("scsi0").unwrap().contains("backup=0"));
    assert!(is_running(&lab, 2000).await);
    assert!(bench.gate.asked().is_empty(), "nothing that runs is touched");
    // Once more: everything is found done, and nothing is written.
    let before = lab.calls().writes().count();
    let outcome = execute(&bench.run(&client), &plan).await;
    assert!(outcome.is_complete() && !outcome.wrote(), "{outcome:#?}");
    assert_eq!(lab.calls().writes().count(), before);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_clone_makes_no_second_vm() {
    for fault in
        [Fault::ReplyLost, Fault::Hang { reached: true }, Fault::Hang { reached: false }, Fault::BodyCut]
    {
        let lab = Lab::one_host(1);
        prepared(&lab).await;
        lab.plan(When::first(Method::Post, "/9000/clone"), fault.clone());
        let bench = Bench::new(description(1, 0, ""));
        let client = lab.client();
        let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
        assert!(outcome.is_complete(), "{fault:?}: {outcome:#?}\n{}", lab.calls());
        assert_eq!(ids(&lab), [2000, 9000]);
        assert!(is_running(&lab, 2000).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_vm_on_the_id_is_left_alone_and_the_next_id_taken() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    make_vm(&lab, &client, 1, vmid(2000), &[("name", "mail"), ("memory", "512")]).await;
    let before = config(&lab, 2000).await;
    let bench = Bench::new(description(1, 0, ""));
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
    assert_eq!(config(&lab, 2000).await, before);
    assert_eq!(outcome.failed.len(), 0, "{outcome:#?}");
    assert_eq!(outcome.done[0].instead, Some(vmid(2001)));
    assert!(outcome.skipped.iter().all(|skip| matches!(skip.because, Because::PlannedAnew(_))));
    assert!(bench.told.has("other id cp-1/clone: 2001"));
    let made = config(&lab, 2001).await;
    assert_eq!(made.description(), Some(mark("cp-1", 2001, nonce().as_str()).to_string().as_str()));
    assert!(outcome.wants_another_plan());
}

#[tokio::test(start_paused = true)]
async fn a_declared_id_that_is_taken_is_a_failure() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    make_vm(&lab, &client, 1, vmid(2000), &[("name", "mail")]).await;
    let nodes = "nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    vm_id: 2000\n";
    let bench = Bench::new(crate::exec::support::described(nodes));
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
    assert!(matches!(outcome.failed[0].error, StepError::NotOurs { .. }), "{outcome:#?}");
    assert_eq!(outcome.skipped.len(), 2);
    assert_eq!(ids(&lab), [2000, 9000]);
}

#[tokio::test(start_paused = true)]
async fn a_vm_another_run_made_is_taken_and_the_rest_planned_anew() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    make_node(&lab, &client, &mark("cp-1", 2000, "another")).await;
    let bench = Bench::new(description(1, 0, ""));
    let writes = lab.calls().writes().count();
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
    assert_eq!(outcome.done[0].instead, Some(vmid(2000)), "{outcome:#?}");
    // The same if it has another id than planned.
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2005))).await;
    assert_eq!(outcome.done[0].instead, Some(vmid(2000)), "{outcome:#?}");
    assert_eq!(lab.calls().writes().count(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_double_of_this_run_with_the_higher_id_is_taken_away() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let client = lab.client();
    // Somebody else's clone for the same node begins a moment after ours looked.
    let bench = Bench::new(description(1, 0, ""));
    let other = lab.client();
    let plan = plan_of(create("cp-1", 2007));
    let run = bench.run(&client);
    let late = async {
        loop {
            if lab.calls().asking("POST", "/9000/clone").next().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        make_node(&lab, &other, &mark("cp-1", 2003, "another")).await;
    };
    let (outcome, ()) = tokio::join!(execute(&run, &plan), late);
    assert_eq!(outcome.done[0].instead, Some(vmid(2003)), "{outcome:#?}\n{}", lab.calls());
    assert_eq!(ids(&lab), [2003, 9000]);
    assert!(bench.told.has("cp-1 was made twice: 2003 stays, 2007 goes"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_killed_under_its_lock_leaves_two_lines_to_type() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let kill = Fault::KillWorker { after: Duration::from_millis(20) };
    lab.plan(When::first(Method::Post, "/9000/clone"), kill);
    let bench = Bench::new(description(1, 1, ""));
    let client = lab.client();
    let steps = [create("cp-1", 2000), create("worker-1", 2001)].concat();
    let outcome = execute(&bench.run(&client), &plan_of(steps)).await;
    let [failure] = outcome.failed.as_slice() else { panic!("{outcome:#?}") };
    let StepError::Stuck { vmid: stuck, lock, .. } = &failure.error else { panic!("{failure:#?}") };
    assert_eq!(lock, "clone");
    let hints = failure.error.hints();
    for line in [format!("qm unlock {stuck}"), format!("qm destroy {stuck}")] {
        assert!(hints.contains(&line), "{hints:?}");
    }
    let other = if *stuck == vmid(2000) { 2001 } else { 2000 };
    assert!(is_running(&lab, other).await, "others go on");
    assert!(!outcome.wants_another_plan());
}

#[tokio::test(start_paused = true)]
async fn a_busy_storage_is_tried_again() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let words = "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout";
    for nth in 1..=2 {
        let fault = Fault::FailWorker { after: Duration::from_millis(20), words: words.to_owned() };
        lab.plan(When::nth(Method::Post, "/9000/clone", nth), fault);
    }
    let bench = Bench::new(description(1, 0, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
    assert!(outcome.is_complete(), "{outcome:#?}\n{}", lab.calls());
    assert_eq!(lab.calls().asking("POST", "/9000/clone").count(), 3);
    assert!(bench.told.has("for another try"));
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_is_not_tried_again() {
    let lab = Lab::one_host(1);
    prepared(&lab).await;
    let words = "clone failed: zfs error: cannot create 'rpool/data/vm-2000-disk-0': out of space";
    let fault = Fault::FailWorker { after: Duration::from_millis(20), words: words.to_owned() };
    lab.plan(When::first(Method::Post, "/9000/clone"), fault);
    let bench = Bench::new(description(1, 0, ""));
    let client = lab.client();
    let outcome = execute(&bench.run(&client), &plan_of(create("cp-1", 2000))).await;
    let error = &outcome.failed[0].error;
    assert_eq!(error.to_string(), "could not clone template talos-template (9000) to cp-1 (2000) on pve1");
    let source = std::error::Error::source(error).unwrap().to_string();
    assert!(source.contains("out of space") && source.contains("UPID:pve1:"), "{source}");
    assert_eq!(ids(&lab), [9000]);
}

/// Two runs of the same description on an empty Proxmox, with answers lost left and right.
#[tokio::test(start_paused = true)]
async fn two_runs_at_once_make_no_duplicates() {
    for seed in 0..12 {
        let lab = Lab::one_host(seed);
        prepared(&lab).await;
        for nth in [1, 3, 4] {
            lab.plan(When::nth(Method::Post, "/9000/clone", nth), Fault::ReplyLost);
        }
        let names = ["cp-1", "cp-2", "cp-3", "worker-1", "worker-2", "worker-3"];
        let plan = |offset: u32, nonce: &Nonce| {
            let all = names.iter().zip(2000 + offset..);
            plan_of(all.flat_map(|(name, id)| create_as(name, id, nonce.as_str())).collect())
        };
        let (first, mut second) = (Bench::new(description(3, 3, "")), Bench::new(description(3, 3, "")));
        second.nonce = Nonce::new(0xb2);
        let mine = plan(0, &first.nonce);
        let other = plan(u32::try_from(seed % 3).unwrap(), &second.nonce);
        let (one, two) = (lab.client(), lab.client());
        let (first_run, second_run) = (first.run(&one), second.run(&two));
        let (a, b) = tokio::join!(execute(&first_run, &mine), execute(&second_run, &other));
        for outcome in [&a, &b] {
            let failures: Vec<_> = outcome.failed.iter().map(|f| f.error.to_string()).collect();
            assert!(failures.is_empty(), "seed {seed}: {failures:?}\n{}", lab.calls());
        }
        let mut marks: Vec<String> = Vec::new();
        for id in ids(&lab).into_iter().filter(|id| *id != 9000) {
            let mark =
                talmox_types::Mark::of_description(config(&lab, id).await.description().unwrap()).unwrap();
            assert_eq!(mark.vmid, VmId::try_from(id).unwrap());
            marks.push(mark.node.to_string());
        }
        marks.sort();
        assert_eq!(marks, names, "seed {seed}");
    }
}
