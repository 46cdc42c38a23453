//! When to ask again, and how long to wait first.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// Where randomness comes from, so that a test can have the same run twice.
pub trait Entropy: Send + Sync {
    fn next(&self) -> u64;
}

/// Randomness of the system: every `RandomState` is keyed anew.
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn next(&self) -> u64 {
        RandomState::new().build_hasher().finish()
    }
}

/// How often a call is made and how long is waited between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all; every endpoint gets at least one.
    pub attempts: usize,
    /// The longest wait before the second attempt; it doubles with each.
    pub first_delay: Duration,
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 3, first_delay: Duration::from_millis(500), longest_delay: Duration::from_secs(5) }
    }
}

impl RetryPolicy {
    /// Ask once, whatever comes.
    pub const ONCE: Self = Self { attempts: 1, first_delay: Duration::ZERO, longest_delay: Duration::ZERO };

    /// The wait before attempt `attempt + 1`: between half of the full one and all of it, so that clients which failed
    /// together do not come back together.
    pub(crate) fn delay(&self, attempt: usize, entropy: &dyn Entropy) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
        let full = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        let part = u32::try_from(entropy.next() % 1024).unwrap_or_default();
        full / 2 + full * part / 2048
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u64);

    impl Entropy for Fixed {
        fn next(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn delays_grow_within_bounds() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(1, &Fixed(0)), Duration::from_millis(250));
        assert_eq!(policy.delay(2, &Fixed(0)), Duration::from_millis(500));
        assert_eq!(policy.delay(99, &Fixed(0)), Duration::from_millis(2500));
        assert!(policy.delay(1, &Fixed(1023)) < Duration::from_millis(500));
        assert_eq!(RetryPolicy::ONCE.delay(1, &SystemEntropy), Duration::ZERO);
    }
}
