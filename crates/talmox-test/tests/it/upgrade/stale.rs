//! Members that go while another node is at work: what they said before it began is no answer any more.

use std::time::Duration;

use futures_util::future::join;
use talmox_plan::Window;
use talmox_sim_talos::Trouble;

use crate::upgrade::bed::Bed;
use crate::upgrade::cluster::{
    NEW, OLD, behind, is_upgraded, machine, request, told, unwell, versions, watched, with_talos,
};

/// How often nodes were sent a call.
fn sent(bed: &Bed, name: &str) -> usize {
    bed.lab.calls().asking("CALL", name).count()
}

/// Waits until a node was sent a call, and some more.
async fn after(bed: &Bed, name: &str, more: Duration) {
    while sent(bed, name) == 0 {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    tokio::time::sleep(more).await;
}

/// Somebody else pulls the plug of a node.
async fn goes_off(bed: &Bed, node: &str) {
    let (client, vmid) = (bed.lab.root(), talmox_test::vmid(machine(bed, node).0));
    client.stop_vm(&talmox_test::host(1), vmid, false).await.unwrap();
}

async fn comes_back(bed: &Bed, node: &str) {
    let (client, vmid) = (bed.lab.root(), talmox_test::vmid(machine(bed, node).0));
    let task = client.start_vm(&talmox_test::host(1), vmid).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
}

// `cp-1` leads etcd and is the last, `cp-2` the first.

#[tokio::test(start_paused = true)]
async fn a_member_that_goes_while_the_installer_works_keeps_the_node_up() {
    let bed = behind(41, (3, 1)).await;
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine(&bed, "cp-2"), Trouble::SlowInstall(50)));
    let trouble = async {
        after(&bed, "LifecycleService/Upgrade", Duration::from_secs(10)).await;
        goes_off(&bed, "cp-3").await;
    };
    let (end, ()) = join(bed.converge(&request(), 2), trouble).await;
    let error = end.unwrap_err();
    assert!(error.contains("not allowed to take cp-2 down: cp-3 is not well"), "{error}\n{}", told(&bed));
    assert_eq!(sent(&bed, "MachineService/Reboot"), 0, "{}", told(&bed));
    assert!(bed.etcd().await.has_quorum());
    // What was installed waits, and is not installed again.
    comes_back(&bed, "cp-3").await;
    bed.lab.nodes(|nodes| nodes.faults.mend(machine(&bed, "cp-2")));
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    assert_eq!(sent(&bed, "LifecycleService/Upgrade"), 4, "once for each node");
}

#[tokio::test(start_paused = true)]
async fn a_sick_node_is_not_taken_back_while_another_member_is_away() {
    let bed = behind(42, (3, 0)).await;
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine(&bed, "cp-2"), Trouble::Sick(NEW.to_owned())));
    let trouble = async {
        after(&bed, "MachineService/Reboot", Duration::from_mins(5)).await;
        goes_off(&bed, "cp-3").await;
    };
    let (end, ()) = join(bed.converge(&request(), 2), trouble).await;
    let error = end.unwrap_err();
    assert!(error.contains("could not be taken back") && error.contains("cp-3 is not well"), "{error}");
    assert_eq!(sent(&bed, "MachineService/Rollback"), 0, "{}", told(&bed));
    assert!(bed.etcd().await.has_quorum(), "{}", told(&bed));
}

#[tokio::test(start_paused = true)]
async fn a_window_that_ends_while_the_installer_works_leaves_the_restart_for_the_next() {
    let bed = behind(43, (1, 1)).await;
    bed.lab.nodes(|nodes| nodes.faults.trouble(machine(&bed, "cp-1"), Trouble::SlowInstall(50)));
    let mut tonight = request();
    let closes = bed.now() + 60;
    tonight.upkeep.window = Window { not_before: None, not_after: Some(moment(closes)) };
    let summary = bed.converge(&tonight, 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    assert!(bed.now() > closes);
    assert_eq!(sent(&bed, "LifecycleService/Upgrade"), 1, "it began in time");
    assert_eq!(sent(&bed, "MachineService/Reboot"), 0, "{}", told(&bed));
    assert!(!summary.left.is_empty());
    let observed = bed.look(&request()).await;
    assert_eq!(versions(&observed)["cp-1"], format!("v{OLD}"));
    assert_eq!(unwell(&observed), Vec::<String>::new());
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
    assert_eq!(sent(&bed, "LifecycleService/Upgrade"), 2, "what was installed is not installed again");
}

#[tokio::test(start_paused = true)]
async fn what_was_staged_and_is_not_described_any_more_does_not_start() {
    let mut bed = behind(44, (1, 1)).await;
    let mut staged = request();
    staged.upkeep.stage = true;
    bed.converge(&staged, 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    // Somebody thinks better of it.
    bed.desired = with_talos(OLD, (1, 1), "");
    let plan = bed.plan(&request()).await;
    let upgrades = plan.steps.iter().filter(|step| step.step.word() == "upgrade-node");
    assert!(upgrades.clone().all(|step| step.effect == talmox_plan::Effect::ChangePending), "{plan:#?}");
    assert_eq!(upgrades.count(), 2, "{plan:#?}");
    bed.converge(&request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    assert_eq!(sent(&bed, "MachineService/Reboot"), 0);
    let plan = bed.plan(&request()).await;
    assert!(plan.is_empty(), "{plan:#?}");
    let (client, vmid) = (bed.lab.root(), talmox_test::vmid(machine(&bed, "worker-1").0));
    let task = client.reset_vm(&talmox_test::host(1), vmid).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(versions(&bed.look(&request()).await)["worker-1"], format!("v{OLD}"));
}

/// Seconds since 1970 as they are typed.
fn moment(seconds: u64) -> talmox_plan::Moment {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // The lab's clock is in January 2026.
    let day = days - 20_454 + 1;
    let (hour, minute, second) = (of_day / 3600, of_day % 3600 / 60, of_day % 60);
    format!("2026-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z").parse().unwrap()
}
