//! Simulated time: it runs with the wall clock, faster, or only when told.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Milliseconds since the hosts booted.
#[derive(Debug)]
pub(super) struct Clock {
    speed: f64,
    started: Instant,
    /// Where the clock stood at the start, and how far it was moved since.
    moved: Mutex<Duration>,
}

impl Clock {
    /// A clock that stands at `at` milliseconds. Speed 0 leaves it there until it is moved.
    pub(super) fn new(at: u64, speed: f64) -> Self {
        Self { speed, started: Instant::now(), moved: Mutex::new(Duration::from_millis(at)) }
    }

    pub(super) fn now(&self) -> u64 {
        let moved = *self.moved.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let passed = moved + self.started.elapsed().mul_f64(self.speed);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether it moves by itself.
    pub(super) fn runs(&self) -> bool {
        self.speed > 0.0
    }

    pub(super) fn advance(&self, by: Duration) {
        *self.moved.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += by;
    }

    /// How long a simulated wait takes on the wall clock. Nobody waits for a clock that stands still.
    pub(super) fn wall(&self, milliseconds: u64) -> Duration {
        if self.speed > 0.0 {
            Duration::from_millis(milliseconds).div_f64(self.speed)
        } else {
            Duration::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_runs_at_its_speed_and_jumps_when_told() {
        let clock = Clock::new(5_000, 10.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(clock.now(), 15_000);
        clock.advance(Duration::from_mins(1));
        assert_eq!(clock.now(), 75_000);
        assert_eq!(clock.wall(3_000), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_stands_moves_only_when_told() {
        let clock = Clock::new(0, 0.0);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(clock.now(), 0);
        clock.advance(Duration::from_millis(7));
        assert_eq!((clock.now(), clock.wall(10_000)), (7, Duration::ZERO));
    }
}
