//! Every fault of the simulator at every kind of call the engine makes.
//!
//! Each piece of work is done once undisturbed: its log says which kinds of calls it takes, and its end is what every
//! other run must end with. Then it is done again for each kind of call and each fault, with the fault at the first such
//! call and at the last; some faults also at every one of them, for as long as the run lasts.
//!
//! A run gets there, or stops with an error that says what to do next; that is done, and a run without a fault gets there.
//! Nothing may hang, be made twice, be left behind or happen to what is not ours, and no error may show a secret.
//!
//! How many of them are run, and which, [`talmox_test::product`] says.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bed;
mod cases;
mod coverage;
mod faults;
mod norm;
mod run;
mod scenarios;

use std::time::Instant;

use cases::Case;
use coverage::Coverage;
use talmox_test::product::{choose, in_parallel, tell_each};

/// Runs without a word from the environment.
const RUNS: usize = 2_000;

#[test]
fn every_fault_at_every_kind_of_call() {
    let begun = Instant::now();
    let scenarios = scenarios::all();
    let all = cases::all(&scenarios);
    let product = all.len();
    let chosen = choose(all, Case::name, RUNS);
    let ended = in_parallel(&chosen, |case| run::run(&scenarios[case.scenario], case));
    tell_each(chosen.iter().zip(&ended).map(|(case, ended)| (case.name(), ended.word().to_owned())));
    let coverage = Coverage::of(&chosen, &ended);
    println!("{coverage}");
    println!(
        "{} calls × {} faults, {} runs of {product}, {} failures, {:.0} s",
        coverage.calls(),
        coverage.faults(),
        chosen.len(),
        coverage.failures(),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(coverage.failures(), 0, "{}", coverage.told_failures());
}
