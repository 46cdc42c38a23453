//! What came of the checks, as data.

use serde::Serialize;
use talmox_types::NodeName;

/// All checks, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Health {
    pub checks: Vec<Check>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// `etcd to be healthy`.
    pub name: &'static str,
    #[serde(flatten)]
    pub state: CheckState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CheckState {
    Ok,
    /// Not yet, and what is missing.
    Waiting(Missing),
    /// It is not asked of this cluster.
    Skipped {
        why: String,
    },
    /// One before it does not hold yet.
    NotAsked,
}

/// What a check still waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub why: String,
    /// Where it is missing; none where it is the cluster's as a whole.
    pub nodes: Vec<NodeName>,
    /// The service whose log may say more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<&'static str>,
}

impl CheckState {
    pub(crate) fn waiting(why: impl Into<String>) -> Self {
        Self::Waiting(Missing { why: why.into(), ..Missing::default() })
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Self {
        Self::Skipped { why: why.into() }
    }

    /// Whether it is no reason to wait.
    pub fn holds(&self) -> bool {
        match self {
            Self::Ok | Self::Skipped { .. } => true,
            Self::Waiting(_) | Self::NotAsked => false,
        }
    }
}

impl Health {
    pub fn is_healthy(&self) -> bool {
        self.checks.iter().all(|check| check.state.holds())
    }

    /// The first check that does not hold, and what it waits for.
    pub fn missing(&self) -> Option<(&'static str, &Missing)> {
        self.checks.iter().find_map(|check| match &check.state {
            CheckState::Waiting(missing) => Some((check.name, missing)),
            CheckState::Ok | CheckState::Skipped { .. } | CheckState::NotAsked => None,
        })
    }
}

/// What nodes are missing, in few words: a cluster of three hundred would fill a screen.
#[derive(Default)]
pub(crate) struct Collected {
    service: Option<&'static str>,
    lines: Vec<String>,
    nodes: Vec<NodeName>,
}

/// So many are named; of the others, how many they are.
const NAMED: usize = 3;

impl Collected {
    pub(crate) fn about(service: Option<&'static str>) -> Self {
        Self { service, ..Self::default() }
    }

    pub(crate) fn add(&mut self, node: &NodeName, why: impl std::fmt::Display) {
        self.lines.push(format!("{node}: {why}"));
        self.nodes.push(node.clone());
    }

    /// Nothing is missing, or all that is.
    pub(crate) fn state(self) -> CheckState {
        if self.lines.is_empty() {
            return CheckState::Ok;
        }
        let rest = self.lines.len().saturating_sub(NAMED);
        let mut why = self.lines.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
        if rest > 0 {
            why.push_str(&format!("; and {rest} more"));
        }
        CheckState::Waiting(Missing { why, nodes: self.nodes, service: self.service })
    }
}
