//! The one source of randomness: a counter stirred by a seed, so that a run can be repeated.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The mixer known as `SplitMix64`: good enough for names, and two lines long.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let mut text = String::new();
        while text.len() < digits {
            let _ = write!(text, "{:016x}", self.next());
        }
        text.truncate(digits);
        text
    }

    pub(crate) fn uuid(&mut self) -> String {
        let hex = self.hex(32);
        let variant = ["8", "9", "a", "b"][usize::from(self.next().to_le_bytes()[0] % 4)];
        format!("{}-{}-4{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
    }

    /// An address under the prefix (`BC:24:11`), upper case.
    pub(crate) fn mac(&mut self, prefix: &str) -> String {
        let given = prefix.trim_end_matches(':');
        let missing = 6 - given.split(':').count().min(6);
        let hex = self.hex(2 * missing).to_uppercase();
        let rest = (0..missing).map(|index| format!(":{}", &hex[2 * index..2 * index + 2]));
        format!("{given}{}", rest.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_right_and_runs_repeat() {
        let mut random = Random::new(7);
        let mac = random.mac("BC:24:11");
        assert_eq!((mac.len(), mac.starts_with("BC:24:11:")), (17, true));
        let uuid = random.uuid();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(Random::new(7).mac("BC:24:11"), mac);
    }
}
