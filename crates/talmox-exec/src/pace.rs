//! How long a pause between two looks takes.

use std::time::Duration;

/// Never less between two looks: a world that runs a million times faster would be asked without end.
const LEAST: Duration = Duration::from_millis(5);

/// How much faster than ours the time of the machines runs. In front of simulated machines, a pause of ours shrinks by as much, so
/// that they are looked at as often in their own time as genuine ones are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace(f64);

impl Pace {
    /// Genuine machines: a second is a second.
    pub const REAL: Self = Self(1.0);

    /// Machines whose time runs so many times faster; slower ones are looked at as often as genuine ones.
    #[must_use]
    pub fn times(factor: f64) -> Self {
        Self(factor.max(1.0))
    }

    fn of(self, pause: Duration) -> Duration {
        pause.div_f64(self.0).max(LEAST).min(pause)
    }

    pub(crate) async fn sleep(self, pause: Duration) {
        tokio::time::sleep(self.of(pause)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_shrinks_with_the_time_of_the_machines_and_never_grows() {
        let pause = |factor| Pace::times(factor).of(Duration::from_secs(4));
        assert_eq!(Pace::REAL.of(Duration::from_secs(4)), Duration::from_secs(4));
        assert_eq!(pause(100.0), Duration::from_millis(40));
        assert_eq!(pause(1e6), LEAST);
        assert_eq!(pause(0.001), Duration::from_secs(4));
        assert_eq!(Pace::times(100.0).of(Duration::from_millis(2)), Duration::from_millis(2));
    }
}
