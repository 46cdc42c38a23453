//! Runs that are killed at any call, and run again.

use std::time::Instant;

use talmox_test::thorough::{every, runtime};
use talmox_test::{Fault, When};

use crate::upgrade::cluster::{behind, is_upgraded, request, told, watched};

/// From which call to which an upgrade goes.
fn calls() -> (usize, usize) {
    runtime().block_on(async {
        let bed = behind(31, (3, 1)).await;
        let before = bed.lab.calls().len();
        watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
        (before, bed.lab.calls().len())
    })
}

fn killed_at(call: usize, sent: bool) {
    runtime().block_on(async {
        let bed = behind(31, (3, 1)).await;
        bed.lab.plan(When::call(call as u64), Fault::KillClient { sent });
        let first = watched(&bed, &request(), 2).await;
        let what = format!("killed at call {call}, sent {sent}");
        if !bed.lab.transport().client_died() {
            // Waits are drawn, so a run may be over some calls earlier than the one that was counted.
            first.unwrap_or_else(|error| panic!("{what}: {error}\n{}", told(&bed)));
            bed.lab.transport().forget_faults();
            return is_upgraded(&bed).await;
        }
        bed.lab.transport().revive_client();
        watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{what}: {error}\n{}", told(&bed)));
        is_upgraded(&bed).await;
    });
}

#[test]
fn an_upgrade_that_is_killed_anywhere_is_finished_by_the_next_run() {
    let begun = Instant::now();
    let (from, to) = calls();
    let mut runs = 0;
    for sent in [false, true] {
        for call in (from + 1..to).step_by(every(101)) {
            killed_at(call, sent);
            runs += 1;
        }
    }
    println!(
        "upgrade killed: K = {} calls, {runs} runs, every node upgraded and nobody cordoned each time, {:.1} s",
        to - from,
        begun.elapsed().as_secs_f64()
    );
}
