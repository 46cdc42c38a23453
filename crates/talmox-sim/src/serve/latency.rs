//! How long a round trip takes, like those of the recorded servers.

use std::time::Duration;

/// The median of a recorded GET, in milliseconds.
pub const RECORDED_GET: u64 = 29;

/// Deciles of the recorded GETs in per cent of their median; the others' spread is much the same.
const SPREAD: [u64; 9] = [50, 85, 93, 97, 100, 109, 112, 130, 157];

/// Medians of the recorded methods in per cent of a GET's.
fn factor(method: &str) -> u64 {
    match method {
        "POST" => 182,
        "PUT" => 152,
        "DELETE" => 155,
        _ => 100,
    }
}

/// Round-trip times around a median. The times were seen from outside, so they hold the server's own work: the longer
/// of both counts, not the sum.
#[derive(Debug)]
pub(super) struct Latency {
    median: Duration,
}

impl Latency {
    pub(super) fn new(median: Duration) -> Self {
        Self { median }
    }

    /// The time of the n-th call; the same call of the same run takes the same time.
    pub(super) fn of(&self, method: &str, number: u64) -> Duration {
        // A step that has no common divisor with nine visits every decile.
        let decile = usize::try_from(number.wrapping_mul(5) % 9).unwrap_or_default();
        let percent = factor(method) * SPREAD[decile] / 100;
        self.median * u32::try_from(percent).unwrap_or(100) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_what_was_asked_for() {
        let latency = Latency::new(Duration::from_millis(RECORDED_GET));
        let mut times: Vec<Duration> = (0..9).map(|number| latency.of("GET", number)).collect();
        times.sort();
        assert_eq!(times[4], Duration::from_millis(RECORDED_GET));
        assert!(times[0] < times[4] && times[4] < times[8]);
        assert!(latency.of("POST", 0) > latency.of("GET", 0));
        assert_eq!(Latency::new(Duration::ZERO).of("POST", 3), Duration::ZERO);
    }
}
