//! Every kind of a fault plan as the client meets it, in memory.

use std::time::Duration;

use talmox_pve::client::{Client, ErrorKind, Outcome, RetryPolicy, Settings, TaskError};
use talmox_sim::{Calls, Fault, FaultPlan, Reach};
use talmox_test::{Lab, TOKEN, host, token, vmid};

use crate::pve::support::{ask_for, make, make_running};

/// A lab in which the next matching call goes wrong, and a client that asks once.
fn lab(calls: Calls, fault: Fault) -> (Lab, Client) {
    let lab = Lab::three_hosts(1);
    plan(&lab, calls, fault);
    let once = Settings { retry: RetryPolicy::ONCE, ..Settings::default() };
    let client = lab.client_as(&token(TOKEN), once);
    (lab, client)
}

fn plan(lab: &Lab, calls: Calls, fault: Fault) {
    let mut plan = FaultPlan::default();
    plan.next(calls, fault);
    lab.transport().follow_plan(plan);
}

fn creates() -> Calls {
    Calls::to("POST", "/nodes/*/qemu")
}

const SMALL: &[(&str, &str)] = &[("memory", "512"), ("scsi0", "shared:1")];

#[tokio::test(start_paused = true)]
async fn answers_of_every_status() {
    for (status, text, kind, outcome) in [
        (401, "Authentication failed!", ErrorKind::Unauthenticated, Outcome::Refused),
        (595, "No route to host", ErrorKind::NodeDown, Outcome::MayHaveHappened),
        (596, "Connection timed out", ErrorKind::Timeout, Outcome::MayHaveHappened),
        (599, "Too many redirections", ErrorKind::Timeout, Outcome::MayHaveHappened),
    ] {
        let (lab, client) = lab(creates(), Fault::Answer { status, text: text.into(), happens: false });
        let error = ask_for(&client, 100, SMALL).await.unwrap_err();
        assert_eq!(
            (error.status(), error.kind(), error.outcome()),
            (Some(status), &kind, outcome),
            "{status}"
        );
        assert!(!lab.world(|world| world.has_vm(100)), "{status}");
        ask_for(&client, 100, SMALL).await.unwrap();
    }
    let denied = Fault::Answer { status: 403, text: "Permission check failed".into(), happens: false };
    let (_, client) = lab(creates(), denied);
    let error = ask_for(&client, 100, SMALL).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Denied(_)), "{error:?}");
    let plain = Fault::Answer { status: 500, text: "storage 'shared' is disabled".into(), happens: false };
    let (_, client) = lab(creates(), plain);
    let error = ask_for(&client, 100, SMALL).await.unwrap_err();
    assert!(error.to_string().ends_with("storage 'shared' is disabled"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_after_success() {
    let (lab, client) =
        lab(creates(), Fault::Answer { status: 596, text: "Connection timed out".into(), happens: true });
    let error = ask_for(&client, 100, SMALL).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MayHaveHappened);
    assert!(lab.world(|world| world.has_vm(100)), "it did happen");
}

#[tokio::test(start_paused = true)]
async fn replies_that_do_not_come_whole() {
    for (fault, happened) in [
        (Fault::LoseReply, true),
        (Fault::CutBody { after: 3 }, true),
        (Fault::Hang, false),
        (Fault::HostDown, false),
    ] {
        let (lab, client) = lab(creates(), fault.clone());
        let error = ask_for(&client, 100, SMALL).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::MayHaveHappened, "{fault:?}");
        assert_eq!(lab.world(|world| world.has_vm(100)), happened, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_reply_and_a_closed_connection_cost_only_time() {
    let (lab, client) = lab(Calls::any(), Fault::Slow { by: 20_000 });
    client.version().await.unwrap();
    assert!(lab.transport().now() >= 20_000);
    plan(&lab, Calls::any(), Fault::CloseIdle);
    client.version().await.unwrap();
    client.version().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn workers_that_die_and_workers_that_fail() {
    let (lab, client) = lab(creates(), Fault::KillWorker { after: 20 });
    let task = ask_for(&client, 100, SMALL).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    assert!(matches!(&error, TaskError::Failed { words, .. } if words == "unexpected status"), "{error:?}");
    assert_eq!(lab.world(|world| world.lock_of_vm(100).map(str::to_owned)).as_deref(), Some("create"));

    let words = "unable to create VM 101 - out of space";
    plan(&lab, creates(), Fault::FailWorker { after: 20, text: words.into() });
    let task = ask_for(&client, 101, SMALL).await.unwrap();
    let error = lab.done(&client, &task).await.unwrap_err();
    assert!(matches!(&error, TaskError::Failed { words: said, .. } if said == words), "{error:?}");
    assert!(!lab.world(|world| world.has_vm(101)), "it cleaned up");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_lost_under_a_task_and_boots_again() {
    let lose = Fault::LoseHost { host: None, after: 30, back: Some(120_000) };
    let (lab, _) = lab(creates(), lose);
    // Asked through another host, which stays.
    let client = lab.client_through(2);
    let task = ask_for(&client, 100, SMALL).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(lab.world(|world| world.nodes["pve1"].reach), Reach::Unreachable);
    let error = client.vm_status(&host(1), vmid(100)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::NodeDown);
    tokio::time::sleep(Duration::from_mins(3)).await;
    let error = lab.done(&client, &task).await.unwrap_err();
    assert!(matches!(&error, TaskError::Failed { words, .. } if words == "unexpected status"), "{error:?}");
    assert_eq!(lab.world(|world| world.lock_of_vm(100).map(str::to_owned)).as_deref(), Some("create"));
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_clock_ends_tickets_and_nothing_else() {
    let lab = Lab::one_host(1);
    let root = lab.root();
    make(&lab, &root, 100, SMALL_LOCAL).await;
    plan(&lab, Calls::any(), Fault::JumpClock { by: 3 * 3600 * 1000 });
    root.vm_status(&host(1), vmid(100)).await.expect("it logs in again");
    let logins = lab.calls().iter().filter(|call| call.path.ends_with("/access/ticket")).count();
    assert_eq!(logins, 2);
    plan(&lab, Calls::any(), Fault::JumpClock { by: -24 * 3600 * 1000 });
    lab.client().version().await.expect("a token has no age");
}

const SMALL_LOCAL: &[(&str, &str)] = &[("memory", "512"), ("scsi0", "local-zfs:1")];

#[tokio::test(start_paused = true)]
async fn a_busy_daemon_makes_calls_wait() {
    let (lab, client) = lab(creates(), Fault::BusyHost { lasts: 12_000 });
    let task = ask_for(&client, 100, SMALL).await.unwrap();
    assert!(lab.transport().now() >= 12_000);
    lab.done(&client, &task).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backup_locks_a_vm_while_it_lasts() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    make_running(&lab, &client, 100, SMALL_LOCAL).await;
    plan(&lab, Calls::to("GET", "*/status/current"), Fault::Backup { lasts: 90_000 });
    let before = lab.transport().now();
    assert_eq!(client.vm_status(&host(1), vmid(100)).await.unwrap().lock.as_deref(), Some("backup"));
    client
        .wait_unlocked(&host(1), vmid(100), Duration::from_mins(5), &talmox_pve::client::Silent)
        .await
        .unwrap();
    assert!(lab.transport().now() - before >= 90_000);
}
