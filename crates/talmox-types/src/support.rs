//! Which Talos runs which Kubernetes, and what can be upgraded to what.
//!
//! Compared on major and minor version; pre-releases count as their release.

use std::collections::{BTreeMap, VecDeque};

use crate::{Contract, Version};

/// One line of Talos releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TalosLine {
    pub talos: Contract,
    pub kubernetes_from: Contract,
    pub kubernetes_to: Contract,
    /// The oldest line it can be upgraded from.
    pub upgrade_from: Contract,
    /// What talmox installs when the description names no Kubernetes version.
    pub default_kubernetes: Numbers,
}

/// A released version as three numbers, usable in a constant table.
pub type Numbers = (u16, u16, u16);

const fn line(
    talos: u16,
    kubernetes: (u16, u16),
    upgrade_from: u16,
    default_kubernetes: Numbers,
) -> TalosLine {
    TalosLine {
        talos: Contract::new(1, talos),
        kubernetes_from: Contract::new(1, kubernetes.0),
        kubernetes_to: Contract::new(1, kubernetes.1),
        upgrade_from: Contract::new(1, upgrade_from),
        default_kubernetes,
    }
}

/// Every line talmox can render configuration for, oldest first.
pub const LINES: [TalosLine; 7] = [
    line(8, (26, 31), 5, (1, 31, 4)),
    line(9, (27, 32), 8, (1, 32, 4)),
    line(10, (28, 33), 8, (1, 33, 6)),
    line(11, (29, 34), 9, (1, 34, 1)),
    line(12, (30, 35), 10, (1, 35, 4)),
    line(13, (31, 36), 11, (1, 36, 3)),
    line(14, (32, 37), 12, (1, 37, 0)),
];

/// What a description without `talos_version` gets: the newest release of the newest line that has one.
pub const DEFAULT_TALOS: Version = Version::new(1, 13, 9);

/// The newest contract in which patches of the layout everybody has still apply. 1.14 moves most sections into
/// documents of their own, and such a document conflicts with any patch of the old section.
pub const NEWEST_LEGACY_CONTRACT: Contract = Contract::new(1, 13);

/// The line a Talos version belongs to, if talmox knows it.
pub fn line_of(talos: &Version) -> Option<&'static TalosLine> {
    LINES.iter().find(|line| line.talos == talos.contract())
}

impl TalosLine {
    pub fn supports(&self, kubernetes: &Version) -> bool {
        (self.kubernetes_from..=self.kubernetes_to).contains(&kubernetes.contract())
    }

    pub fn default_kubernetes(&self) -> Version {
        let (major, minor, patch) = self.default_kubernetes;
        Version::new(major, minor, patch)
    }
}

/// The contract for a cluster whose description names none: that of its Talos version, but none in which patches
/// of the legacy layout would be refused.
pub fn default_contract(talos: &Version) -> Contract {
    talos.contract().min(NEWEST_LEGACY_CONTRACT)
}

/// Lines of Talos and Kubernetes that run together, or are to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    pub talos: Contract,
    pub kubernetes: Contract,
}

impl Pair {
    pub fn of(talos: &Version, kubernetes: &Version) -> Self {
        Self { talos: talos.contract(), kubernetes: kubernetes.contract() }
    }

    /// Whether this Talos runs this Kubernetes.
    pub fn is_supported(self) -> bool {
        let line = LINES.iter().find(|line| line.talos == self.talos);
        line.is_some_and(|line| (line.kubernetes_from..=line.kubernetes_to).contains(&self.kubernetes))
    }

    /// The supported pairs one upgrade of either leads to: of Talos first, the farthest first.
    fn next(self) -> impl Iterator<Item = Self> {
        let reached = move |line: &&TalosLine| line.talos > self.talos && line.upgrade_from <= self.talos;
        let talos = LINES.iter().rev().filter(reached).map(move |line| Self { talos: line.talos, ..self });
        let above = Contract { minor: self.kubernetes.minor.saturating_add(1), ..self.kubernetes };
        talos.chain([Self { kubernetes: above, ..self }]).filter(|pair| pair.is_supported())
    }
}

/// The pairs a cluster passes through on its way, the last of them `to`: each by an upgrade of one of the two, Kubernetes
/// one minor version at a time, and each supported. The fewest there are; where either may go first, Talos does. None if there is
/// no way, as down.
pub fn upgrade_path(from: Pair, to: Pair) -> Option<Vec<Pair>> {
    let mut came_from: BTreeMap<Pair, Pair> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            let back = std::iter::successors(Some(at), |pair| came_from.get(pair).copied());
            let mut path: Vec<Pair> = back.take_while(|pair| *pair != from).collect();
            path.reverse();
            return Some(path);
        }
        for next in at.next() {
            if next != from && !came_from.contains_key(&next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

/// The same as what a description has to say one after the other: one `apply` upgrades Talos once and Kubernetes by one
/// minor version, in the order that is supported.
pub fn stations(from: Pair, to: Pair) -> Option<Vec<Pair>> {
    let mut stations: Vec<Pair> = Vec::new();
    let mut begun = from;
    for pair in upgrade_path(from, to)? {
        let last = stations.last().copied();
        let moved = |one: Pair, other: Pair| (one.talos != other.talos, one.kubernetes != other.kubernetes);
        match last {
            // The station so far moved only the other one of the two.
            Some(at)
                if matches!(
                    (moved(begun, at), moved(at, pair)),
                    ((true, false), (_, true)) | ((false, true), (true, _))
                ) =>
            {
                stations.pop();
                stations.push(pair);
            }
            Some(at) => {
                begun = at;
                stations.push(pair);
            }
            None => stations.push(pair),
        }
    }
    Some(stations)
}

/// The release of a minor version of Kubernetes that talmox installs unless told otherwise.
pub fn release_of(kubernetes: Contract) -> Option<Version> {
    LINES.iter().map(TalosLine::default_kubernetes).find(|version| version.contract() == kubernetes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs() -> Vec<Pair> {
        let all = LINES.iter().flat_map(|line| {
            (line.kubernetes_from.minor..=line.kubernetes_to.minor)
                .map(|minor| Pair { talos: line.talos, kubernetes: Contract::new(1, minor) })
        });
        all.collect()
    }

    fn pair(talos: u16, kubernetes: u16) -> Pair {
        Pair { talos: Contract::new(1, talos), kubernetes: Contract::new(1, kubernetes) }
    }

    /// Whether one upgrade leads from one to the other, told from the tables alone.
    fn is_one_upgrade(from: Pair, to: Pair) -> bool {
        let line = LINES.iter().find(|line| line.talos == to.talos).unwrap();
        let supported = line.kubernetes_from <= to.kubernetes && to.kubernetes <= line.kubernetes_to;
        let talos =
            to.kubernetes == from.kubernetes && to.talos > from.talos && from.talos >= line.upgrade_from;
        let kubernetes = to.talos == from.talos && to.kubernetes.minor == from.kubernetes.minor + 1;
        supported && (talos || kubernetes)
    }

    #[test]
    fn every_pair_on_the_way_is_supported_and_one_upgrade_from_the_last() {
        let all = pairs();
        let mut ways = 0;
        for from in &all {
            // What can be reached at all, found without the search that is tested.
            let mut reached = std::collections::BTreeSet::from([*from]);
            while let Some(new) = all
                .iter()
                .find(|to| !reached.contains(*to) && reached.iter().any(|at| is_one_upgrade(*at, **to)))
            {
                reached.insert(*new);
            }
            for to in &all {
                let Some(path) = upgrade_path(*from, *to) else {
                    assert!(!reached.contains(to), "{from:?} {to:?}");
                    continue;
                };
                assert!(reached.contains(to), "{from:?} {to:?}");
                let whole: Vec<Pair> = [*from].into_iter().chain(path).collect();
                assert!(whole.windows(2).all(|step| is_one_upgrade(step[0], step[1])), "{whole:?}");
                assert_eq!(whole.last(), Some(to));
                ways += 1;
            }
        }
        assert!(ways > 200, "{ways}");
    }

    #[test]
    fn a_station_moves_each_of_the_two_once_at_most() {
        for from in pairs() {
            for to in pairs() {
                let Some(stations) = stations(from, to) else { continue };
                let whole: Vec<Pair> = [from].into_iter().chain(stations).collect();
                assert_eq!(whole.last(), Some(&to));
                for step in whole.windows(2) {
                    let path = upgrade_path(step[0], step[1]).unwrap();
                    assert!(path.len() <= 2, "{step:?}: {path:?}");
                    assert!(step[1].kubernetes.minor - step[0].kubernetes.minor <= 1, "{step:?}");
                }
            }
        }
    }

    #[test]
    fn talos_goes_first_unless_it_would_leave_kubernetes_behind() {
        assert_eq!(upgrade_path(pair(12, 35), pair(13, 36)), Some(vec![pair(13, 35), pair(13, 36)]));
        assert_eq!(upgrade_path(pair(11, 30), pair(13, 31)), Some(vec![pair(11, 31), pair(13, 31)]));
        assert_eq!(upgrade_path(pair(13, 36), pair(13, 35)), None, "down");
        assert_eq!(stations(pair(12, 34), pair(13, 36)), Some(vec![pair(13, 35), pair(13, 36)]));
        assert_eq!(upgrade_path(pair(13, 36), pair(13, 36)), Some(Vec::new()));
    }

    #[test]
    fn every_default_is_supported_by_its_line() {
        for line in LINES {
            assert!(line.supports(&line.default_kubernetes()), "{}", line.talos);
            assert!(line.upgrade_from < line.talos);
        }
        assert!(line_of(&DEFAULT_TALOS).is_some());
    }

    #[test]
    fn the_default_contract_never_outruns_talos_nor_legacy_patches() {
        assert_eq!(default_contract(&Version::new(1, 12, 6)), Contract::new(1, 12));
        assert_eq!(default_contract(&Version::new(1, 14, 1)), Contract::new(1, 13));
    }
}
