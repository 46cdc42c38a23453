//! What a run cost.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    First,
    Same,
    Change,
    Destroy,
}

impl Phase {
    pub(super) const ALL: [Self; 4] = [Self::First, Self::Same, Self::Change, Self::Destroy];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::First => "first run",
            Self::Same => "no change",
            Self::Change => "memory changed",
            Self::Destroy => "destroy",
        }
    }

    /// As the bare client calls it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Same => "same",
            Self::Change => "change",
            Self::Destroy => "destroy",
        }
    }

    /// Memory of each VM once the phase is over, in MiB.
    pub(super) fn memory(self) -> u32 {
        if self == Self::First || self == Self::Same { 1024 } else { 1152 }
    }
}

/// What `measure.py` says, and the requests the simulator counted.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Cost {
    pub(super) code: i32,
    /// Seconds.
    pub(super) wall: f64,
    pub(super) cpu: f64,
    /// KiB.
    pub(super) peak: f64,
    #[serde(default)]
    pub(super) requests: usize,
}

/// Least, median and most of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
}

impl Spread {
    pub(super) fn of(numbers: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { least, median: f64::midpoint(low, high), most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |numbers: &[f64]| Spread::of(numbers.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some(Spread { least: 1.0, median: 2.0, most: 3.0 }));
        assert_eq!(of(&[4.0, 1.0]), Some(Spread { least: 1.0, median: 2.5, most: 4.0 }));
    }
}
