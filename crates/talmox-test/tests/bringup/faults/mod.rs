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
//! The whole product takes minutes, so a seeded sample is run unless `TALMOX_MATRIX_RUNS` asks for another number or
//! for `all`. `TALMOX_MATRIX_ONLY` runs only cases with that text in their name, and says how each ended.

mod cases;
mod coverage;
mod machines;
mod mishaps;
mod run;
mod scenarios;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cases::Case;
use coverage::Coverage;
use mishaps::Layer;
use run::Ended;
use talmox_pve::client::Entropy as _;
use talmox_test::Seeded;

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
    tell_each(chosen.iter().map(Case::name), &ended);
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

#[expect(clippy::disallowed_methods, reason = "how much is run is said to the tests, not to the program")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All of them, those that were asked for by name, or so many, always the same.
fn choose<T>(mut all: Vec<T>, name: impl Fn(&T) -> String, usual: usize) -> Vec<T> {
    if let Some(part) = setting("TALMOX_MATRIX_ONLY") {
        all.retain(|case| name(case).contains(&part));
        return all;
    }
    let number = match setting("TALMOX_MATRIX_RUNS").as_deref() {
        Some("all") => return all,
        Some(number) => number.parse().unwrap(),
        None => usual,
    };
    let random = Seeded::new(20_260_801);
    all.sort_by_cached_key(|_| random.next());
    all.truncate(number);
    all
}

fn tell_each(names: impl Iterator<Item = String>, ended: &[Ended]) {
    if setting("TALMOX_MATRIX_ONLY").is_some() {
        for (name, ended) in names.zip(ended) {
            println!("{name}: {}", ended.word());
        }
    }
}

/// Runs the cases on as many threads as there are processors; each has a clock and a world of its own.
pub(crate) fn in_parallel<T: Sync, R: Send>(cases: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let ended: Mutex<Vec<Option<R>>> = Mutex::new(cases.iter().map(|_| None).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    let end = run(case);
                    ended.lock().unwrap()[index] = Some(end);
                }
            });
        }
    });
    ended.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}
