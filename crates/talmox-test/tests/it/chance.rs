//! Choices that can be made again.

use talmox_pve::client::Entropy as _;
use talmox_test::Seeded;

/// Chance from a seed.
pub(crate) struct Chance(Seeded);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        // Seeds are counted, and so is what they are stirred into: without this, one seed's choices would be another's,
        // a few steps on.
        Self(Seeded::new(Seeded::new(seed).next()))
    }

    /// From `least` to `most`, both included.
    pub(crate) fn number(&self, least: u64, most: u64) -> u64 {
        least + self.0.below(most - least + 1)
    }

    pub(crate) fn small(&self, least: usize, most: usize) -> usize {
        usize::try_from(self.number(least as u64, most as u64))
            .expect("it is at most `most`, which is a usize")
    }

    pub(crate) fn percent(&self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    pub(crate) fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[self.small(0, from.len() - 1)].clone()
    }
}
