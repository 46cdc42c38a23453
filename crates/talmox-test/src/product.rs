//! Products of cases: which of them a run takes, side by side, and what it says of each.
//!
//! All of them take minutes, so a seeded sample is taken unless `TALMOX_MATRIX_RUNS` asks for another number or for `all`.
//! `TALMOX_MATRIX_ONLY` takes the cases with that text in their name, and each tells how it ended.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use talmox_pve::client::Entropy as _;

use crate::{Call, CallLog, Seeded};

/// A kind of call within some work, and the numbers of the first and the last of them.
#[derive(Clone, Debug)]
pub struct Asked<K> {
    pub kind: K,
    pub first: usize,
    pub last: usize,
}

impl<K> Asked<K> {
    /// The first and the last of them, once if they are the same.
    pub fn ends(&self) -> impl Iterator<Item = usize> + use<K> {
        let last = (self.last != self.first).then_some(self.last);
        std::iter::once(self.first).chain(last)
    }
}

/// The kinds of calls of some work. Runs repeat exactly, so a number finds the same call again.
pub fn kinds<K: Ord>(log: &CallLog, kind: impl Fn(&Call) -> Option<K>) -> Vec<Asked<K>> {
    let mut asked: BTreeMap<K, (usize, usize)> = BTreeMap::new();
    for call in log.iter() {
        if let Some(kind) = kind(call) {
            asked.entry(kind).or_insert((call.number, call.number)).1 = call.number;
        }
    }
    asked.into_iter().map(|(kind, (first, last))| Asked { kind, first, last }).collect()
}

#[expect(clippy::disallowed_methods, reason = "how much is run is said to the tests, not to the program")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// All of them, those that were asked for by name, or so many, always the same.
pub fn choose<T>(mut all: Vec<T>, name: impl Fn(&T) -> String, usual: usize) -> Vec<T> {
    if let Some(part) = setting("TALMOX_MATRIX_ONLY") {
        all.retain(|case| name(case).contains(&part));
        return all;
    }
    let number = match setting("TALMOX_MATRIX_RUNS").as_deref() {
        Some("all") => return all,
        Some(number) => number.parse().expect("TALMOX_MATRIX_RUNS is a number or `all`"),
        None => usual,
    };
    let random = Seeded::new(20_260_801);
    all.sort_by_cached_key(|_| random.next());
    all.truncate(number);
    all
}

/// How each ended, where cases were asked for by name.
#[expect(clippy::print_stdout, reason = "a test's own words")]
pub fn tell_each(cases: impl Iterator<Item = (String, String)>) {
    if setting("TALMOX_MATRIX_ONLY").is_some() {
        cases.for_each(|(name, end)| println!("{name}: {end}"));
    }
}

/// Runs the cases on as many threads as there are processors; each has a clock and a world of its own.
pub fn in_parallel<T: Sync, R: Send>(cases: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::with_capacity(cases.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    let end = run(case);
                    ended.lock().expect("nobody panics with it in hand").push((index, end));
                }
            });
        }
    });
    let mut ended = ended.into_inner().expect("nobody panics with it in hand");
    ended.sort_by_key(|(index, _)| *index);
    ended.into_iter().map(|(_, end)| end).collect()
}
