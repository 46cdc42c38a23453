//! etcd is safe whatever is asked for and whatever goes wrong: random changes of a cluster that lives, with faults, kills and
//! a second actor.
//!
//! ```text
//!  nothing ─▶ a change, and trouble ─▶ runs that may fail ─▶ trouble over: a run that must not ─▶ next change
//!         whenever anything happens: whose doing was it         nothing closed, nothing foreign touched, one bootstrap, an
//!         if a member of etcd went?                             empty plan
//! ```
//!
//! What is judged is the simulator's own state (`talmox_test::Watched`): no client takes a member down while another is away, and
//! no quorum is lost by what clients do. `TALMOX_SEED` is the first case, `TALMOX_CASES` their number, `TALMOX_STEPS` how many
//! calls of the actors there have to be at least; a case that fails tells its story and how to run it again.

mod besides;
mod case;
mod ending;
mod trouble;
mod wish;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::chance::Chance;
use case::{Case, counted};

/// What cases came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sum {
    /// Calls of the actors.
    calls: usize,
    looks: u64,
    falls: u64,
    lost_by_others: u64,
    runs: usize,
    failed: usize,
    kills: usize,
    struck: usize,
    /// Clusters that lost their etcd in the end, and those of them that were given the snapshot.
    emptied: usize,
    restored: usize,
    changes: BTreeMap<&'static str, usize>,
    troubles: BTreeMap<&'static str, usize>,
    besides: BTreeMap<&'static str, usize>,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        let Self {
            calls,
            looks,
            falls,
            lost_by_others,
            runs,
            failed,
            kills,
            struck,
            emptied,
            restored,
            changes,
            troubles,
            besides,
        } = other;
        self.calls += calls;
        self.looks += looks;
        self.falls += falls;
        self.lost_by_others += lost_by_others;
        self.runs += runs;
        self.failed += failed;
        self.kills += kills;
        self.struck += struck;
        self.emptied += emptied;
        self.restored += restored;
        let pairs =
            [(&mut self.changes, changes), (&mut self.troubles, troubles), (&mut self.besides, besides)];
        for (sum, counts) in pairs {
            for (name, count) in counts {
                *sum.entry(name).or_default() += count;
            }
        }
    }
}

/// One case on a clock of its own.
fn case(seed: u64) -> Sum {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (mut case, chance) = (Case::new(seed), Chance::new(seed));
        let mut run = Box::pin(case.run(&chance));
        let ended = std::future::poll_fn(|context| {
            match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(context))) {
                Ok(std::task::Poll::Pending) => std::task::Poll::Pending,
                Ok(std::task::Poll::Ready(sum)) => std::task::Poll::Ready(Some(sum)),
                Err(_) => std::task::Poll::Ready(None),
            }
        })
        .await;
        drop(run);
        ended.unwrap_or_else(|| {
            panic!(
                "case {seed} failed:\n{}\nalone: TALMOX_SEED={seed} TALMOX_CASES=1 cargo test -p talmox-test --test it gate::\
                 safety",
                case.story.join("\n")
            )
        })
    })
}

#[expect(clippy::disallowed_methods, reason = "which cases are run, whoever runs them decides")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
fn quorum_is_never_lost_by_what_we_do() {
    let first = number("TALMOX_SEED").unwrap_or(1);
    let least = number("TALMOX_STEPS").unwrap_or_default();
    let cases = number("TALMOX_CASES").unwrap_or(if least > 0 { 0 } else { 2 });
    let begun = Instant::now();
    let (mut all, mut seed) = (Sum::default(), first);
    while seed < first + cases || (all.calls as u64) < least {
        all.add(&case(seed));
        seed += 1;
    }
    println!(
        "etcd safety: seeds {first}..{seed}, {} calls, {} looks at etcd, {} members went, {} quorums lost by others; {} runs of \
         which {} ended early, {} killed, {} faults struck, {:.0} s: no quorum lost by us, no second bootstrap in {} clusters \
         of which {} lost their etcd and {} were restored, nothing closed, nothing foreign touched\nchanges: {}\ntrouble: {}\n\
         besides: {}",
        all.calls,
        all.looks,
        all.falls,
        all.lost_by_others,
        all.runs,
        all.failed,
        all.kills,
        all.struck,
        begun.elapsed().as_secs_f64(),
        seed - first,
        all.emptied,
        all.restored,
        counted(&all.changes),
        counted(&all.troubles),
        counted(&all.besides),
    );
}

#[test]
fn a_case_with_the_same_seed_is_the_same_case() {
    assert_eq!(case(7), case(7));
}
