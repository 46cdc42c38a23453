//! Chance, the same for the same seed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A linear congruential step, whose upper bits are stirred before use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self { state: seed ^ 0x5851_f42d_4c95_7f2d };
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut word = self.state;
        word ^= word >> 33;
        word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
        word ^= word >> 29;
        word
    }

    /// A number below the limit, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::with_capacity(digits + 16);
        while text.len() < digits {
            let _ = write!(text, "{:016x}", self.next());
        }
        text.truncate(digits);
        text
    }

    pub(crate) fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        format!("{}-{}-4{}-a{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// A little more or less than a length of time: nothing takes equally long twice.
    pub(crate) fn about(&mut self, length: u64) -> u64 {
        let spread = length / 5;
        length - spread / 2 + self.below(spread.max(1))
    }
}

impl talmox_machine::Random for Random {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), talmox_machine::NoRandomness> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_repeat_and_shapes_are_right() {
        let (mut one, mut two) = (Random::new(3), Random::new(3));
        assert_eq!(one.uuid(), two.uuid());
        assert_ne!(one.uuid(), Random::new(4).uuid());
        assert_eq!(one.uuid().split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!((0..100).all(|_| (90..=110).contains(&one.about(100))));
    }
}
