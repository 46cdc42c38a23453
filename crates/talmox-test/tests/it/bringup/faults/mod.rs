//! Every fault of the simulated nodes at every kind of call of a bring-up to Talos and Kubernetes.
//!
//! Each bring-up is done once undisturbed: its log says which kinds of calls it takes. Then it is done again for each kind of
//! call and each fault, with the fault at the first such call and at the last; some faults also at every one of them, for as
//! long as the run lasts. And with each thing that can be wrong with a machine, on each sort of node.
//!
//! A run gets there, or stops with an error that says what to do next; that is done, and a run without a fault gets there.
//! There is one etcd in the end, everything is healthy, another plan is empty and another run writes nothing. Nothing may
//! hang, and no error may show a secret.
//!
//! How many of them are run, and which, [`talmox_test::product`] says.

mod cases;
mod coverage;
mod machines;
mod mishaps;
mod run;
mod scenarios;

use std::time::Instant;

use cases::Case;
use coverage::Coverage;
use mishaps::Layer;
use talmox_test::product::{choose, in_parallel, tell_each};

/// Runs without a word from the environment.
const RUNS: usize = 60;

#[test]
fn every_fault_at_every_kind_of_call_to_talos_and_kubernetes() {
    let begun = Instant::now();
    let scenarios = scenarios::all();
    let all = cases::all(&scenarios);
    let product = all.len();
    let chosen = choose(all, Case::name, RUNS);
    let ended = in_parallel(&chosen, |case| run::run(&scenarios[case.scenario], case));
    tell_each(chosen.iter().zip(&ended).map(|(case, ended)| (case.name(), ended.word().to_owned())));
    let coverage = Coverage::of(&chosen, &ended);
    println!("{coverage}");
    for layer in [Layer::Talos, Layer::Kubernetes] {
        println!(
            "{}: {} calls × {} faults, {} failures",
            layer.name(),
            coverage.calls(layer),
            coverage.faults(layer),
            coverage.failures_of(layer)
        );
    }
    println!(
        "{} runs of {product}, {} failures, {:.0} s",
        chosen.len(),
        coverage.failures(),
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(coverage.failures(), 0, "{}", coverage.told_failures());
}
