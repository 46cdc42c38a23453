//! How far a machine is when an authority of its cluster is replaced by another.
//!
//! ```text
//!  Before ─▶ Accepted ─▶ Issuing ─▶ Alone
//!  old signs  old signs   new signs  new signs
//!             new is believed too   old is believed too
//! ```
//!
//! Two phases that follow each other get on with each other, others do not: a phase begins nowhere before the one before it is
//! reached everywhere.

use serde::{Deserialize, Serialize};

/// Whose authority it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Realm {
    Talos,
    Kubernetes,
}

impl Realm {
    /// In the order they are replaced.
    pub const ALL: [Self; 2] = [Self::Talos, Self::Kubernetes];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Talos => "Talos",
            Self::Kubernetes => "Kubernetes",
        }
    }

    /// The same in ids.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Talos => "talos",
            Self::Kubernetes => "kubernetes",
        }
    }
}

/// How far a machine is with one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It knows the old one only.
    #[default]
    Before,
    /// The old one signs, and the new one is believed too.
    Accepted,
    /// The new one signs, and the old one is believed too.
    Issuing,
    /// It knows the new one only.
    Alone,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Before, Self::Accepted, Self::Issuing, Self::Alone];

    /// The one before; the first has none.
    pub const fn previous(self) -> Option<Self> {
        match self {
            Self::Before => None,
            Self::Accepted => Some(Self::Before),
            Self::Issuing => Some(Self::Accepted),
            Self::Alone => Some(Self::Issuing),
        }
    }

    /// Those that are still to come.
    pub fn rest(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |phase| *phase > self)
    }

    pub const fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::Accepted => "accepted",
            Self::Issuing => "issuing",
            Self::Alone => "alone",
        }
    }
}

/// How far a machine is with all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Phases {
    pub talos: Phase,
    pub kubernetes: Phase,
}

impl Phases {
    pub const fn of(self, realm: Realm) -> Phase {
        match realm {
            Realm::Talos => self.talos,
            Realm::Kubernetes => self.kubernetes,
        }
    }

    #[must_use]
    pub const fn with(self, realm: Realm, phase: Phase) -> Self {
        match realm {
            Realm::Talos => Self { talos: phase, ..self },
            Realm::Kubernetes => Self { kubernetes: phase, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_each_other() {
        for pair in Phase::ALL.windows(2) {
            assert_eq!(pair[1].previous(), Some(pair[0]));
        }
        assert_eq!(Phase::Accepted.rest().collect::<Vec<_>>(), [Phase::Issuing, Phase::Alone]);
        let phases = Phases::default().with(Realm::Kubernetes, Phase::Issuing);
        assert_eq!((phases.of(Realm::Talos), phases.of(Realm::Kubernetes)), (Phase::Before, Phase::Issuing));
    }
}
