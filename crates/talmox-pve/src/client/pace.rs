//! How long tasks of a kind take here, learned from those that were followed.
//!
//! A look too early is a request for nothing, a look too late is time lost. The tasks of a run are much alike, so after
//! the first of a kind the others are looked at shortly before they are due.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sixteenths of the time after which a task was found ended at the first look.
const SOONER: u32 = 15;

#[derive(Default)]
pub(crate) struct Pace(Mutex<BTreeMap<String, Duration>>);

impl Pace {
    /// How long a task of this kind is likely to take.
    pub(crate) fn expected(&self, kind: &str) -> Option<Duration> {
        self.known().get(kind).copied()
    }

    /// A task was seen running last after one time, if it was, and seen to have ended after another. Whoever finds it ended
    /// at once may have come too late, and comes a little sooner next time: much sooner would be looks for nothing, and
    /// those after the first have their pauses.
    pub(crate) fn learn(&self, kind: &str, running: Option<Duration>, ended: Duration) {
        let seen = running.map_or(ended * SOONER / 16, |running| running.midpoint(ended));
        let mut known = self.known();
        let time = match (known.get(kind), running) {
            (Some(known), Some(_)) => known.midpoint(seen),
            (Some(known), None) => seen.min(*known),
            (None, _) => seen,
        };
        known.insert(kind.to_owned(), time);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

trait Midpoint {
    fn midpoint(self, other: Self) -> Self;
}

impl Midpoint for Duration {
    fn midpoint(self, other: Self) -> Self {
        (self + other) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(30);

    /// Follows a task of that length as a client does that looks 20 ms after the first look, and then ever more seldom;
    /// says when its end was seen, and after how many looks.
    fn follow(pace: &Pace, length: Duration) -> (Duration, u32) {
        let mut now = pace.expected("qmstart").unwrap_or_default();
        let (mut running, mut looks, mut pause) = (None, 1, Duration::from_millis(20));
        while now < length {
            running = Some(now);
            now += TRIP + pause;
            pause = pause * 3 / 2;
            looks += 1;
        }
        pace.learn("qmstart", running, now);
        (now, looks)
    }

    #[test]
    fn ends_are_seen_soon_and_with_few_looks() {
        for length in [60, 600, 9_000].map(Duration::from_millis) {
            let pace = Pace::default();
            for _ in 0..20 {
                follow(&pace, length);
            }
            for _ in 0..20 {
                let (seen, looks) = follow(&pace, length);
                let late = TRIP + Duration::from_millis(20) + length / 16;
                assert!(seen <= length + late, "{length:?} is seen after {seen:?}");
                assert!(looks <= 8, "{length:?}: {looks} looks");
            }
        }
    }

    #[test]
    fn kinds_have_nothing_to_do_with_each_other() {
        let pace = Pace::default();
        pace.learn("qmstart", None, Duration::from_secs(1));
        assert_eq!(pace.expected("qmstart"), Some(Duration::from_secs(1) * 15 / 16));
        assert_eq!(pace.expected("qmclone"), None);
    }
}
