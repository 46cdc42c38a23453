//! The result of a preflight: a list of checks, each with its verdict.

use serde::Serialize;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    /// It works, but not as well as it could, or not for long.
    Warning,
    /// A run would fail.
    Problem,
    /// Nobody could tell; the message says why.
    NotChecked,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What kind of thing: `endpoint`, `privilege`, `storage`.
    pub name: &'static str,
    pub verdict: Verdict,
    /// What is the case, and for whom that matters.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, message: message.into(), remedy: None }
    }

    pub(crate) fn warning(name: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, message: message.into(), remedy: Some(remedy.into()) }
    }

    pub(crate) fn problem(name: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Problem, message: message.into(), remedy: Some(remedy.into()) }
    }

    /// A check that could not be made, with the reason and, where there is one, the way to look oneself.
    pub(crate) fn not_checked(
        name: &'static str,
        message: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self { name, verdict: Verdict::NotChecked, message: message.into(), remedy }
    }
}

/// Every check, in the order one would look oneself: reach, rights, resources, nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub checks: Vec<Check>,
}

impl Report {
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    pub fn has_problem(&self) -> bool {
        self.count(Verdict::Problem) > 0
    }
}
