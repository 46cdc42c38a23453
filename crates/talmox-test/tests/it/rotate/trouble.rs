//! Rotations that are killed, and machines that are away.

use std::time::{Duration, Instant};

use talmox_sim_talos::Faults;
use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, When};
use talmox_types::{Phase, Phases, Realm};

use crate::rotate::cluster::{cut_off, is_over, of, rotating, wanted, words};

#[test]
fn killed_at_any_call() {
    let begun = Instant::now();
    let (first, last) = runtime().block_on(async {
        let bed = rotating(71, of(3, 1, "1.13"), &Realm::ALL).await;
        let first = bed.lab.calls().len();
        bed.converge(&wanted(), 2).await.unwrap();
        (first, bed.lab.calls().len())
    });
    let mut killed = 0;
    for sent in [false, true] {
        for number in (first + 1..=last).step_by(every(797)) {
            runtime().block_on(async {
                let bed = rotating(71, of(3, 1, "1.13"), &Realm::ALL).await;
                let before = bed.bundle();
                let what = format!("killed at call {number}, sent {sent}");
                bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
                let _ = bed.converge_mortally(&wanted(), 2).await;
                bed.lab.transport().forget_faults();
                bed.lab.transport().revive_client();
                let log = || bed.told.lines().join("\n");
                bed.converge(&wanted(), 3).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", log()));
                is_over(&bed, &before, &what).await;
                killed += 1;
            });
        }
    }
    println!(
        "killed: a rotation of 3 + 1 nodes in {} calls, {killed} runs, the same end each time, {:.1} s",
        last - first,
        begun.elapsed().as_secs_f64()
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_away_is_told_before_anything_is_changed() {
    let bed = rotating(72, of(3, 1, "1.13"), &Realm::ALL).await;
    let before = bed.bundle();
    cut_off(&bed, "10.0.7.14");
    let plan = bed.plan(&wanted()).await;
    assert!(words(&plan).is_empty(), "{plan:#?}");
    let [refusal] = plan.refusals.as_slice() else { panic!("{plan:#?}") };
    assert!(refusal.problem.contains("worker-1"), "{refusal:?}");
    assert!(refusal.choices.iter().any(|choice| choice.contains("--replace worker-1")), "{refusal:?}");
    let error = bed.converge(&wanted(), 2).await.unwrap_err();
    assert!(error.contains("worker-1"), "{error}");
    assert!(bed.phases(&before).iter().take(3).all(|phases| *phases == Phases::default()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_lost_in_the_middle_is_waited_for_by_name() {
    let bed = rotating(73, of(3, 1, "1.13"), &[Realm::Talos]).await;
    let before = bed.bundle();
    let lost = async {
        while bed.phases(&before)[0].talos != Phase::Accepted {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        cut_off(&bed, "10.0.7.14");
    };
    let (end, ()) = futures_util::future::join(bed.converge(&wanted(), 2), lost).await;
    let error = end.unwrap_err();
    assert!(error.contains("worker-1 at 10.0.7.14"), "{error}");
    let waits = bed.told.lines().into_iter().filter(|line| line.contains("waits for an answer")).count();
    assert!(waits > 10, "it is waited for, in words");
    // Nobody signs with the new one while one machine does not know it.
    assert!(bed.phases(&before).iter().all(|phases| phases.talos <= Phase::Accepted));
    let plan = bed.plan(&wanted()).await;
    assert!(plan.refusals[0].problem.contains("worker-1"), "{plan:#?}");
    // It is back, and the same authority goes on.
    bed.lab.nodes(|nodes| nodes.faults = Faults::default());
    tokio::time::sleep(Duration::from_mins(3)).await;
    bed.converge(&wanted(), 3).await.unwrap_or_else(|error| panic!("{error}"));
    is_over(&bed, &before, "after a loss").await;
}
