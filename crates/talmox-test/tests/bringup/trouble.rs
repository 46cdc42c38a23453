//! Machines that hang, are somebody else's, or lie at the wrong address; runs that die; calls that fail.

use std::time::{Duration, Instant};

use talmox_sim_talos::{MachineId, Trouble};
use talmox_talos::Code;
use talmox_test::{Fault, Lab, When};

use crate::bed::{Bed, described, healthy};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_answers_is_switched_off_and_on_once() {
    let bed = Bed::new(21, described(1, 0, ""));
    bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(2000), Trouble::NeverBoots));
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("cp-1 at 10.0.7.11: waited 5 min for an answer in maintenance mode"), "{error}");
    assert!(error.contains("it does not answer"), "{error}");
    let starts = bed.lab.calls().asking("POST", "/status/start").count();
    assert_eq!((starts, bed.lab.calls().asking("POST", "/status/stop").count()), (2, 1));
    // Somebody else's run finds the machine as it is, and does not touch its power.
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("cp-1 at 10.0.7.11: waited 10 min for an answer"), "{error}");
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 1);
    bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(2000)));
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2000), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.converge(&healthy(), 3).await.unwrap();
    bed.is_healthy().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_hangs_once_comes_up_after_the_second_switch() {
    let bed = Bed::new(22, described(1, 1, ""));
    bed.lab.nodes(|nodes| nodes.faults.trouble(MachineId(2001), Trouble::NeverBoots));
    let mended = async {
        // Whatever kept it from booting is gone by the time it is switched on again.
        tokio::time::sleep(Duration::from_mins(4)).await;
        bed.lab.nodes(|nodes| nodes.faults.mend(MachineId(2001)));
    };
    let (end, ()) = futures_util::future::join(bed.converge(&healthy(), 1), mended).await;
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert_eq!(bed.lab.calls().asking("POST", "/status/stop").count(), 1);
    bed.is_healthy().await;
}

/// A VM of somebody else's with Talos in maintenance mode, at an address of ours.
async fn stranger(lab: &Lab, vmid: u32, address: &str) {
    let source = lab.world(|world| {
        let dump = world.dump();
        let template =
            dump.vms.iter().find(|(_, vm)| vm.config.get("template").is_some_and(|one| one == "1"));
        template.map(|(vmid, _)| *vmid)
    });
    let client = lab.root();
    let clone = talmox_pve::client::CloneVm {
        newid: talmox_test::vmid(vmid),
        name: Some("somebody".to_owned()),
        description: None,
        target: None,
        kind: talmox_pve::client::CloneKind::Full {
            storage: Some(talmox_test::storage("local-zfs")),
            format: None,
        },
        pool: None,
    };
    let source = talmox_test::vmid(source.expect("a template is there"));
    let task = client.clone_vm(&talmox_test::host(1), source, &clone).await.unwrap();
    lab.done(&client, &task).await.unwrap();
    let change = talmox_pve::client::ConfigChange::new()
        .set("ide2", "local-zfs:cloudinit")
        .and_then(|change| change.set("ipconfig0", &format!("ip={address}/24,gw=10.0.7.1")))
        .unwrap();
    let task =
        client.change_config_in_task(&talmox_test::host(1), talmox_test::vmid(vmid), &change).await.unwrap();
    if let Some(task) = task {
        lab.done(&client, &task).await.unwrap();
    }
    let task = client.start_vm(&talmox_test::host(1), talmox_test::vmid(vmid)).await.unwrap();
    lab.done(&client, &task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stranger_in_maintenance_at_our_address_gets_nothing() {
    let mut bed = Bed::new(23, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    // Its id is lower than ours will be: where two have one address, it answers.
    stranger(&bed.lab, 110, "10.0.7.12").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    bed.desired = described(1, 1, "");
    let before = bed.accepted("ApplyConfiguration");
    let error = bed.converge(&healthy(), 2).await.unwrap_err();
    assert!(error.contains("is not worker-1") || error.contains("is not this node"), "{error}");
    assert_eq!(bed.accepted("ApplyConfiguration"), before);
    // Nor does anything change once the VM is there and a plan can tell.
    let plan = bed.plan(&healthy()).await;
    assert!(plan.refusals.iter().any(|refusal| refusal.problem.contains("10.0.7.12")), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_with_others_secrets_is_no_node_of_ours() {
    let bed = Bed::new(24, described(1, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    let plan = bed.with_other_secrets(&healthy()).await;
    assert!(plan.steps.is_empty());
    assert!(plan.refusals[0].problem.contains("authority"), "{:?}", plan.refusals);
}

/// One run with something planned to go wrong, then another that must get there.
async fn disturbed(seed: u64, when: Option<(When, Fault)>) -> (Bed, Result<(), String>) {
    let bed = Bed::new(seed, described(3, 1, ""));
    let calm = when.is_none();
    if let Some((when, fault)) = when {
        bed.lab.plan(when, fault);
    }
    let first = bed.converge(&healthy(), 0xa).await.map(drop);
    if calm {
        return (bed, first);
    }
    bed.lab.transport().revive_client();
    let second = bed.converge(&healthy(), 0xb).await;
    if let Err(error) = second {
        let last: Vec<String> = bed.told.lines().into_iter().rev().take(40).rev().collect();
        panic!("the run after it failed: {error}\n{}\n{}", last.join("\n"), bed.lab.calls());
    }
    (bed, first)
}

/// The cluster must be healthy and one: of Bootstraps that got through, one.
async fn sound(bed: &Bed, what: &str, struck: Option<usize>) {
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1, "{what}");
    let log = bed.lab.calls();
    let lost = struck.and_then(|number| log.iter().find(|call| call.number == number));
    let lost = lost.is_some_and(|call| call.path.ends_with("/Bootstrap"));
    let accepted = bed.accepted("Bootstrap") + usize::from(lost);
    assert_eq!(accepted, 1, "{what}\n{log}");
}

/// Every so many calls: all of them take minutes where the machine is busy with much else.
fn stride() -> usize {
    std::env::var("TALMOX_EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(7)
}

#[test]
fn killed_at_any_call_of_all_layers() {
    let begun = Instant::now();
    let calls = runtime().block_on(async {
        let (bed, end) = disturbed(31, None).await;
        end.unwrap();
        bed.lab.calls().len()
    });
    let mut runs = 0;
    for sent in [false, true] {
        for number in (1..=calls).step_by(stride()) {
            runtime().block_on(async {
                let fault = Fault::KillClient { sent };
                let (bed, _) = disturbed(31, Some((When::call(number as u64), fault))).await;
                let what = format!("killed at call {number}, sent {sent}");
                sound(&bed, &what, sent.then_some(number)).await;
                runs += 1;
            });
        }
    }
    println!(
        "killed: K = {calls} calls of Proxmox and Talos, {runs} runs, one Bootstrap and a healthy cluster each time, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}

#[test]
fn talos_calls_that_fail_now_and_then() {
    let begun = Instant::now();
    let faults = [
        Fault::Refused,
        Fault::ReplyLost,
        Fault::Hang { reached: true },
        Fault::Hang { reached: false },
        Fault::status(Code::Unavailable, "not now"),
        Fault::status(Code::DeadlineExceeded, "too late"),
    ];
    let methods = [
        ("ApplyConfiguration", 2),
        ("Bootstrap", 1),
        ("ServiceList", 3),
        ("List", 2),
        ("Get", 9),
        ("Version", 4),
        ("EtcdMemberList", 1),
    ];
    let (mut runs, mut through) = (0, 0);
    for (method, nth) in methods {
        for fault in &faults {
            runtime().block_on(async {
                let when = When::nth_talos(method, nth);
                let (bed, first) = disturbed(32, Some((when, fault.clone()))).await;
                let log = bed.lab.calls();
                let struck = log.iter().filter(|call| call.path.ends_with(&format!("/{method}")));
                let struck = struck.map(|call| call.number).nth(usize::try_from(nth).unwrap() - 1);
                let reached = matches!(fault, Fault::ReplyLost | Fault::Hang { reached: true });
                sound(&bed, &format!("{fault:?} at {method} {nth}"), struck.filter(|_| reached)).await;
                (runs, through) = (runs + 1, through + usize::from(first.is_ok()));
            });
        }
    }
    println!(
        "Talos faults: {runs} runs, {through} through at the first go, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
