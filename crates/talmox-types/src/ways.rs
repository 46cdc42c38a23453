//! The way from one Talos to another.
//!
//! Compared on major and minor version, like the support matrix it follows from.

use crate::support::{LINES, TalosLine};
use crate::{Contract, Version};

/// How Talos of one line becomes Talos of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TalosWay {
    /// In one step.
    Direct,
    /// Over these lines, in this order: the target takes none older than its floor.
    Through(Vec<Contract>),
    /// To an older line: data written by the newer one may not be understood.
    Back,
    /// Nobody knows one of the two.
    Unknown,
}

/// The way from one Talos to another.
pub fn talos_way(from: &Version, to: &Version) -> TalosWay {
    let (mut at, to) = (from.contract(), to.contract());
    if to < at {
        return TalosWay::Back;
    }
    let Some(target) = LINES.iter().find(|line| line.talos == to) else { return TalosWay::Unknown };
    let mut stations = Vec::new();
    while at < target.upgrade_from {
        let takes = |line: &&TalosLine| line.talos > at && line.talos < to && line.upgrade_from <= at;
        let Some(next) = LINES.iter().rev().find(takes) else { return TalosWay::Unknown };
        at = next.talos;
        stations.push(at);
    }
    if stations.is_empty() { TalosWay::Direct } else { TalosWay::Through(stations) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::line_of;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn what_lies_below_the_floor_goes_over_stations() {
        let way = |from: &str, to: &str| talos_way(&version(from), &version(to));
        let through =
            |minors: &[u16]| TalosWay::Through(minors.iter().map(|minor| Contract::new(1, *minor)).collect());
        assert_eq!(way("1.13.8", "1.13.9"), TalosWay::Direct);
        assert_eq!(way("1.13.9", "1.13.8"), TalosWay::Direct, "a patch release back");
        assert_eq!(way("1.11.5", "1.13.9"), TalosWay::Direct);
        assert_eq!(way("1.10.9", "1.13.9"), through(&[12]));
        assert_eq!(way("1.10.9", "1.14.0"), through(&[12]));
        assert_eq!(way("1.8.4", "1.14.0"), through(&[10, 12]));
        assert_eq!(way("1.13.9", "1.12.6"), TalosWay::Back);
        assert_eq!(way("1.2.0", "1.13.9"), TalosWay::Unknown);
        assert_eq!(way("1.13.9", "1.99.0"), TalosWay::Unknown);
    }

    #[test]
    fn every_station_takes_the_one_before_it() {
        for (index, from) in LINES.iter().enumerate() {
            for to in &LINES[index..] {
                let at = |line: Contract| Version::new(line.major, line.minor, 0);
                let stations = match talos_way(&at(from.talos), &at(to.talos)) {
                    TalosWay::Direct => Vec::new(),
                    TalosWay::Through(stations) => stations,
                    other @ (TalosWay::Back | TalosWay::Unknown) => {
                        panic!("{} to {}: {other:?}", from.talos, to.talos)
                    }
                };
                let mut before = from.talos;
                for station in stations.into_iter().chain([to.talos]) {
                    assert!(line_of(&at(station)).unwrap().upgrade_from <= before, "{before} to {station}");
                    before = station;
                }
            }
        }
    }
}
