//! Ratios such as "four virtual cores per core".

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// A positive ratio in steps of a thousandth, so that it can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Ratio(u32);

impl Ratio {
    /// Reads `4`, `1.5` or `0.25`, up to 1000.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text)
            .ok_or_else(|| Invalid::new("a ratio", text, "a number above 0 and up to 1000, like 1.5"))
    }

    fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || whole.len() > 4 || fraction.len() > 3 {
            return None;
        }
        let thousandths =
            whole.parse::<u32>().ok()? * 1000 + format!("{fraction:0<3}").parse::<u32>().ok()?;
        (1..=1_000_000).contains(&thousandths).then_some(Self(thousandths))
    }

    pub fn thousandths(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1000, self.0 % 1000);
        if rest == 0 {
            write!(f, "{whole}")
        } else {
            write!(f, "{whole}.{}", format!("{rest:03}").trim_end_matches('0'))
        }
    }
}

text_conversions!(Ratio);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_round_trip() {
        for (text, printed) in
            [("4", "4"), ("1.5", "1.5"), ("0.25", "0.25"), ("1.050", "1.05"), ("1000", "1000")]
        {
            assert_eq!(Ratio::parse(text).unwrap().to_string(), printed);
        }
        for bad in ["", "0", "0.0", "-1", "1e3", "1000.001", "1.2345", "99999"] {
            assert!(Ratio::parse(bad).is_err(), "{bad}");
        }
    }
}
