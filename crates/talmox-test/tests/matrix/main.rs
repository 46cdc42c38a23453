//! Every fault of the simulator at every kind of call the engine makes.
//!
//! Each piece of work is done once undisturbed: its log says which kinds of calls it takes, and its end is what every
//! other run must end with. Then it is done again for each kind of call and each fault, with the fault at the first such
//! call and at the last; some faults also at every one of them, for as long as the run lasts.
//!
//! A run gets there, or stops with an error that says what to do next; that is done, and a run without a fault gets there.
//! Nothing may hang, be made twice, be left behind or happen to what is not ours, and no error may show a secret.
//!
//! The whole product takes minutes, so a seeded sample is run unless `TALMOX_MATRIX_RUNS` asks for another number or
//! for `all`. `TALMOX_MATRIX_ONLY` runs only cases with that text in their name, and says how each ended.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bed;
mod cases;
mod coverage;
mod faults;
mod norm;
mod run;
mod scenarios;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use cases::{Case, sample};
use coverage::Coverage;
use run::Ended;
use scenarios::Scenario;

/// Runs without a word from the environment.
const RUNS: usize = 2_000;

#[test]
fn every_fault_at_every_kind_of_call() {
    let begun = Instant::now();
    let scenarios = scenarios::all();
    let all = cases::all(&scenarios);
    let product = all.len();
    let chosen = choose(all);
    let ended = run_all(&scenarios, &chosen);
    if setting("TALMOX_MATRIX_ONLY").is_some() {
        for (case, ended) in chosen.iter().zip(&ended) {
            println!("{}: {}", case.name(), ended.word());
        }
    }
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

#[expect(clippy::disallowed_methods, reason = "how much is run is said to the tests, not to the program")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn choose(all: Vec<Case>) -> Vec<Case> {
    if let Some(part) = setting("TALMOX_MATRIX_ONLY") {
        return all.into_iter().filter(|case| case.name().contains(&part)).collect();
    }
    match setting("TALMOX_MATRIX_RUNS").as_deref() {
        Some("all") => all,
        Some(number) => sample(all, number.parse().unwrap()),
        None => sample(all, RUNS),
    }
}

/// Runs the cases on as many threads as there are processors; each has a clock and a world of its own.
fn run_all(scenarios: &[Scenario], cases: &[Case]) -> Vec<Ended> {
    let next = AtomicUsize::new(0);
    let ended: Mutex<Vec<Option<Ended>>> = Mutex::new(cases.iter().map(|_| None).collect());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, case)) = take(&next, cases) {
                    let end = run::run(&scenarios[case.scenario], case);
                    ended.lock().unwrap()[index] = Some(end);
                }
            });
        }
    });
    ended.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

fn take<'a>(next: &AtomicUsize, cases: &'a [Case]) -> Option<(usize, &'a Case)> {
    let index = next.fetch_add(1, Ordering::Relaxed);
    cases.get(index).map(|case| (index, case))
}
