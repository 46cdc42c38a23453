//! A client that dies at any call, and another that comes after it.

use std::time::Duration;

use talmox_pve::client::{Client, CloneKind, CloneVm, Error, ErrorKind, Outcome, Silent};
use talmox_test::{Fault, Lab, When, host, vmid};

/// What a caller would do: make a VM unless it is there, wait for its lock, start it unless it runs. Safe to repeat.
async fn ensure_running(lab: &Lab, client: &Client) -> Result<(), Error> {
    let clone = CloneVm {
        newid: vmid(100),
        name: Some("cp-1".to_owned()),
        description: None,
        pool: None,
        target: None,
        kind: CloneKind::Linked,
    };
    if client.is_free(vmid(100)).await? {
        client.clone_vm(&host(1), vmid(9000), &clone).await?;
    }
    let unlocked = client.wait_unlocked(&host(1), vmid(100), Duration::from_mins(5), &Silent).await;
    if unlocked.is_err() {
        // The id is claimed only when the worker begins; or the client died.
        client.version().await?;
    }
    if client.vm_status(&host(1), vmid(100)).await?.status != talmox_pve::client::VmPower::Running {
        let task = client.start_vm(&host(1), vmid(100)).await?;
        let _ = lab.done(client, &task).await;
        client.version().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_call_another_run_finishes_the_work() {
    let mut died = 0;
    for sent in [false, true] {
        for number in 1..100 {
            let lab = Lab::one_host(7);
            lab.template(&lab.client(), vmid(9000)).await;
            lab.plan(When::call(number), Fault::KillClient { sent });
            let first = ensure_running(&lab, &lab.client()).await;
            if !lab.transport().client_died() {
                first.unwrap();
                break;
            }
            died += 1;
            first.unwrap_err();
            lab.transport().revive_client();
            ensure_running(&lab, &lab.client()).await.unwrap();
            let clones =
                lab.calls().asking("POST", "/clone").filter(|call| call.status() == Some(200)).count();
            assert!(clones <= 1, "at call {number} the work was done twice:\n{}", lab.calls());
            assert!(lab.world(|world| world.has_vm(100)));
        }
    }
    assert!(died > 10, "the client died only {died} times");
}

#[tokio::test(start_paused = true)]
async fn a_dead_client_reaches_nobody() {
    let lab = Lab::one_host(1);
    let client = lab.client();
    lab.plan(When::call(2), Fault::KillClient { sent: true });
    client.version().await.unwrap();
    let error = client.create_pool(&talmox_types::PoolName::parse("p").unwrap(), None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::Lost, Outcome::MayHaveHappened));
    let error = client.version().await.unwrap_err();
    assert_eq!((error.outcome(), error.words()), (Outcome::NeverSent, "the client was killed"));
    assert_eq!(lab.calls().len(), 3, "a dead client does not try again");
}
