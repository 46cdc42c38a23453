//! Randomness that can be had twice.

use std::sync::atomic::{AtomicU64, Ordering};

use talmox_pve::client::Entropy;

/// A counter stirred by a seed (`SplitMix64`).
pub struct Seeded(AtomicU64);

impl Seeded {
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// A number below `bound`; 0 if the bound is.
    pub fn below(&self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or_default()
    }
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Entropy for Seeded {
    fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let run = |seed| {
            let random = Seeded::new(seed);
            [random.next(), random.next(), random.below(10)]
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        assert_eq!(Seeded::new(1).below(0), 0);
    }
}
