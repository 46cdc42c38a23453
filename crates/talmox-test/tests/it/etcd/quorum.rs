//! A majority that is lost for good.

use std::time::Duration;

use talmox_plan::{Plan, Request, UpkeepRequest};
use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, When};
use talmox_types::NodeName;

use crate::etcd::bed::{Bed, healthy};
use crate::etcd::restore::{has_objects, lost};

/// Pulls a VM out from under its node.
async fn delete(bed: &Bed, vmid: u32) {
    let (client, host, vmid) = (bed.lab.root(), talmox_test::host(1), talmox_test::vmid(vmid));
    let task = client.stop_vm(&host, vmid, false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    let task = client.delete_vm(&host, vmid, true).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
}

async fn stop(bed: &Bed, vmid: u32) {
    let (client, host, vmid) = (bed.lab.root(), talmox_test::host(1), talmox_test::vmid(vmid));
    let task = client.stop_vm(&host, vmid, false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
}

fn given_up(request: &Request) -> Request {
    let upkeep = UpkeepRequest { quorum_lost: true, ..request.upkeep.clone() };
    Request { upkeep, ..request.clone() }
}

fn problems(plan: &Plan) -> String {
    plan.refusals.iter().map(|refusal| refusal.problem.as_str()).collect::<Vec<_>>().join("\n")
}

/// Two of three control planes are gone, and the snapshot of before is at hand.
async fn two_gone(seed: u64) -> (Bed, Request) {
    let (bed, request) = lost(seed, 3).await;
    delete(&bed, 2001).await;
    delete(&bed, 2002).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    (bed, request)
}

#[tokio::test(start_paused = true)]
async fn is_told_with_the_way_out_and_one_command_brings_the_cluster_back() {
    let (bed, request) = two_gone(341).await;
    let plan = bed.plan(&healthy()).await;
    assert!(problems(&plan).contains("etcd has lost its majority: cp-1 has data and no leader"), "{plan:#?}");
    let choices = plan.refusals[0].choices.join("\n");
    assert!(choices.contains("talmox apply --restore FILE --quorum-lost"), "{choices}");
    assert!(plan.steps.is_empty(), "nobody joins what has no majority: {plan:#?}");
    // The snapshot alone is no word that the others will not come back.
    let plan = bed.plan(&request).await;
    assert!(problems(&plan).contains("etcd has lost its majority"), "{plan:#?}");
    // Nor is that word enough to know what to begin with; but what is left can be.
    let plan = bed.plan(&given_up(&healthy())).await;
    assert_eq!(problems(&plan), talmox_plan::BEGINS_WITH_NOTHING);
    let request = given_up(&request);
    let plan = bed.plan(&request).await;
    assert!(plan.refusals.is_empty(), "{plan:#?}");
    assert!(plan.later.iter().any(|intent| intent.step == "recover-etcd"), "{:#?}", plan.later);
    bed.converge(&request, 4)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
    assert!(has_objects(&bed).await);
    assert_eq!((bed.accepted("EtcdRecover"), bed.accepted("Bootstrap")), (1, 2));
    // Again nothing is done, with or without it.
    assert!(bed.plan(&request).await.is_empty());
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.refusals.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_up_that_is_not_lost() {
    let (bed, request) = lost(342, 3).await;
    let request = given_up(&request);
    let plan = bed.plan(&request).await;
    assert!(problems(&plan).contains("of etcd with a leader: nothing is lost"), "{plan:#?}");
    // One is gone, one is off: with that one there is a majority.
    delete(&bed, 2001).await;
    stop(&bed, 2002).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let plan = bed.plan(&request).await;
    assert!(problems(&plan).contains("cp-3 may have data of etcd, and does not say"), "{plan:#?}");
    let plan = bed.plan(&healthy()).await;
    assert!(!problems(&plan).contains("lost its majority"), "{plan:#?}");
    assert!(plan.steps.iter().any(|step| step.id.as_str() == "cp-3/start"), "{plan:#?}");
    // Unless somebody names it.
    let named = Request { replace: [NodeName::parse("cp-3").unwrap()].into(), ..request.clone() };
    assert!(bed.plan(&named).await.refusals.is_empty());
    let nothing = Request { upkeep: UpkeepRequest { restore: None, ..named.upkeep.clone() }, ..named };
    let plan = bed.plan(&nothing).await;
    assert_eq!(problems(&plan), talmox_plan::BEGINS_WITH_NOTHING);
    assert_eq!(bed.accepted("EtcdRecover"), 0);
}

#[test]
fn a_run_that_dies_on_the_way_is_taken_up_again() {
    let (before, calls) = runtime().block_on(async {
        let (bed, request) = two_gone(343).await;
        let before = bed.lab.calls().len();
        bed.converge(&given_up(&request), 4).await.unwrap();
        (before, bed.lab.calls().len())
    });
    let mut runs = 0;
    for number in (before + 1..=calls).step_by(every(((calls - before) / 7).max(1))) {
        runtime().block_on(async {
            let (bed, request) = two_gone(343).await;
            let request = given_up(&request);
            bed.lab.plan(When::call(number as u64), Fault::KillClient { sent: number % 2 == 0 });
            let _ = bed.converge_mortally(&request, 4).await;
            bed.lab.transport().forget_faults();
            bed.lab.transport().revive_client();
            let again = bed.converge(&request, 5).await;
            again.unwrap_or_else(|error| {
                panic!("killed at {number}: {error}\n{}", bed.told.lines().join("\n"))
            });
            bed.is_healthy().await;
            assert!(has_objects(&bed).await, "killed at {number}");
            runs += 1;
        });
    }
    println!(
        "quorum lost: {} calls, killed at {runs} of them, healthy with the snapshot each time",
        calls - before
    );
}
