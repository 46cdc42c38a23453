//! Upgrades that are killed, nodes that go away in the middle, calls that fail.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use talmox_sim_talos::{Flapping, MachineId};
use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, When};

use crate::kube::bed::Bed;
use crate::kube::cluster::{PATCH, applied, brought_up, configurations, runs, usual, wanted, writes};

/// A run after one that was disturbed: the same end, and no node that was done is given anything again.
async fn resumed(bed: &Bed, since: &BTreeMap<String, u64>, what: &str) {
    bed.lab.transport().forget_faults();
    bed.lab.transport().revive_client();
    let log = || bed.told.lines().join("\n");
    bed.converge(&wanted(), 3).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", log()));
    runs(bed, PATCH.1).await;
    bed.is_healthy().await;
    assert_eq!(applied(bed, since), [5, 5, 5, 1], "{what}");
}

#[test]
fn killed_at_any_call() {
    let begun = Instant::now();
    let (first, last) = runtime().block_on(async {
        let bed = brought_up(81, usual(3, 1, PATCH.0), usual(3, 1, PATCH.1)).await;
        let first = bed.lab.calls().len();
        bed.converge(&wanted(), 2).await.unwrap();
        (first, bed.lab.calls().len())
    });
    let mut killed = 0;
    for sent in [false, true] {
        for number in (first + 1..=last).step_by(every(97)) {
            runtime().block_on(async {
                let bed = brought_up(81, usual(3, 1, PATCH.0), usual(3, 1, PATCH.1)).await;
                let since = configurations(&bed);
                bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
                let _ = bed.converge_mortally(&wanted(), 2).await;
                resumed(&bed, &since, &format!("killed at call {number}, sent {sent}")).await;
                killed += 1;
            });
        }
    }
    println!(
        "killed: an upgrade of 3 + 1 nodes in {} calls, {killed} runs, the same end each time, {:.1} s",
        last - first,
        begun.elapsed().as_secs_f64()
    );
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_lost_in_the_middle_ends_the_run_and_nobody_else_is_touched() {
    let bed = brought_up(82, usual(3, 1, PATCH.0), usual(3, 1, PATCH.1)).await;
    let since = configurations(&bed);
    let lost = async {
        // Its API server is being moved by then.
        while !bed.told.lines().iter().any(|line| line.contains("waits for kube-apiserver of cp-2")) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        bed.lab.nodes(|nodes| nodes.power_off(MachineId(2001)));
    };
    let (end, ()) = futures_util::future::join(bed.converge(&wanted(), 2), lost).await;
    let error = end.unwrap_err();
    assert!(error.contains("cp-2 at 10.0.7.12"), "{error}");
    let now = configurations(&bed);
    let untouched = ["2002", "2003"].iter().all(|id| now[*id] == since[*id]);
    assert!(untouched, "cp-3 is not touched while cp-2 is away: {now:?}");
    // While it is away nothing is planned but waiting for it.
    let plan = bed.plan(&wanted()).await;
    assert!(plan.steps.iter().all(|step| step.step.word() != "upgrade-kubernetes"), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_image_nobody_has_is_known_before_anything_is_changed() {
    let bed = brought_up(83, usual(3, 1, PATCH.0), usual(3, 1, PATCH.1)).await;
    let missing = format!("registry.k8s.io/kube-scheduler:v{}", PATCH.1);
    bed.lab.nodes(|nodes| {
        nodes.missing_images.insert(missing.clone());
    });
    let (since, configured) = (bed.lab.calls().len(), configurations(&bed));
    let error = bed.converge(&wanted(), 2).await.unwrap_err();
    assert!(error.contains(&format!("could not pull {missing} to cp-")), "{error}");
    assert_eq!(configurations(&bed), configured);
    assert!(writes(&bed, since).iter().all(|call| call.ends_with("ImagePull")), "{:?}", writes(&bed, since));
}

#[tokio::test(start_paused = true)]
async fn an_api_that_comes_and_goes_only_takes_longer() {
    let bed = brought_up(84, usual(3, 1, PATCH.0), usual(3, 1, PATCH.1)).await;
    bed.lab
        .nodes(|nodes| nodes.faults.flap("10.0.7.12".parse().unwrap(), Flapping { up: 20_000, down: 1500 }));
    // Now and then the look before it is one in between.
    for number in 2..8 {
        if bed.converge(&wanted(), number).await.is_ok() {
            break;
        }
    }
    runs(&bed, PATCH.1).await;
}
