//! When a wait that belongs to no step is worth a word. Of its steps the engine itself says when they are still at work.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_pve::client::Waiting;

use crate::screens::{duration, safe};

/// A wait that takes longer is mentioned, and again after as long.
const STILL: Duration = Duration::from_secs(30);

/// The first time it is mentioned sooner: nothing else on the screen says that anything is done.
const FIRST: Duration = Duration::from_secs(2);

/// How often each wait was mentioned.
#[derive(Default)]
pub(super) struct Patience(Mutex<BTreeMap<String, u64>>);

impl Patience {
    /// Whether so long a wait has not been mentioned yet.
    pub(super) fn is_over(&self, wait: &str, elapsed: Duration) -> bool {
        let first = u64::from(elapsed >= FIRST);
        self.is_news(wait, first + elapsed.as_secs() / STILL.as_secs())
    }

    fn is_news(&self, wait: &str, times: u64) -> bool {
        let mut mentioned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mentioned.entry(wait.to_owned()).or_default();
        let news = times > *before;
        *before = times.max(*before);
        news
    }
}

/// What is waited for, and how it stands with it.
pub(super) fn wait(name: &str, detail: &str) -> String {
    let (name, detail) = (safe(name), safe(detail));
    if detail.is_empty() { format!("waiting for {name}") } else { format!("waiting for {name}: {detail}") }
}

/// A wait that belongs to no step.
pub(super) fn waits_for(waiting: &Waiting<'_>) -> String {
    let Waiting { name, detail, elapsed, limit } = *waiting;
    format!("{}{}   {}", wait(name, detail), at_most(limit), duration(elapsed))
}

/// How long a wait takes at most, if that is known.
pub(super) fn at_most(limit: Duration) -> String {
    if limit.is_zero() { String::new() } else { format!(" (at most {})", duration(limit)) }
}
