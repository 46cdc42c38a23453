//! Which Talos runs which Kubernetes, and what can be upgraded to what.
//!
//! Compared on major and minor version; pre-releases count as their release.

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

#[cfg(test)]
mod tests {
    use super::*;

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
