//! How an apply ended.

use std::error::Error;
use std::fmt;

use talmox_plan::{Intent, Refusal, StepId, Violation, Waiting};

use crate::{ObserveError, Outcome, StepError};

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Plans that were carried out.
    pub rounds: usize,
    /// Steps that were done, those that found their work done included.
    pub done: usize,
    /// Steps that changed something.
    pub wrote: usize,
    /// VMs that were made, and VMs that were removed.
    pub made: usize,
    pub removed: usize,
    /// Templates that became ready, and templates that were removed.
    pub templates: usize,
    pub removed_templates: usize,
    /// Steps that were not begun.
    pub skipped: usize,
    /// What is still waited for: restarts nobody has allowed, hosts that are down.
    pub waiting: Vec<Waiting>,
    /// What was to follow at the last look and did not come about.
    pub later: Vec<Intent>,
    /// Steps that are left for another time, because nothing may be interrupted now.
    pub left: Vec<StepId>,
}

impl Summary {
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.rounds += 1;
        self.done += outcome.done.len();
        self.skipped += outcome.skipped.len();
        for done in outcome.done.iter().filter(|done| done.wrote) {
            self.wrote += 1;
            self.made += usize::from(matches!(done.kind, "clone" | "create"));
            self.removed += usize::from(done.kind == "remove");
            self.templates += usize::from(done.kind == "convert-template");
            self.removed_templates += usize::from(done.kind == "remove-template");
        }
    }
}

/// Why an apply ended before the cluster was as described. Whatever it is, running it again is safe.
#[derive(Debug)]
pub enum ApplyError {
    /// There is something that cannot be done; nothing of this plan was.
    Refused { refusals: Vec<Refusal>, summary: Summary },
    /// A plan breaks a safety rule and was not carried out.
    Unsafe { violations: Vec<Violation>, summary: Summary },
    /// Steps failed; the others of their plan were done.
    Failed { outcome: Outcome, summary: Summary },
    /// Told to stop; what was under way was finished.
    Interrupted { outcome: Outcome, summary: Summary },
    /// What is left to do was not part of what was approved.
    OutsideApproval { beyond: Vec<Intent>, summary: Summary },
    /// Proxmox could not be looked at again.
    Observe { source: ObserveError, summary: Summary },
    /// What somebody else is busy with did not come to an end.
    Blocked { source: StepError, summary: Summary },
    /// Every round leaves something to do.
    Endless { left: Vec<StepId>, summary: Summary },
}

impl ApplyError {
    /// A wait that did not end.
    pub(super) fn blocked(source: StepError, summary: Summary) -> Self {
        if matches!(source, StepError::Interrupted { .. }) {
            let outcome = Outcome { interrupted: true, ..Outcome::default() };
            return Self::Interrupted { outcome, summary };
        }
        Self::Blocked { source, summary }
    }

    /// What was done before.
    pub fn summary(&self) -> &Summary {
        match self {
            Self::Refused { summary, .. }
            | Self::Unsafe { summary, .. }
            | Self::Failed { summary, .. }
            | Self::Interrupted { summary, .. }
            | Self::OutsideApproval { summary, .. }
            | Self::Observe { summary, .. }
            | Self::Blocked { summary, .. }
            | Self::Endless { summary, .. } => summary,
        }
    }

    /// What came of the last plan, if it was carried out.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Failed { outcome, .. } | Self::Interrupted { outcome, .. } => Some(outcome),
            Self::Refused { .. }
            | Self::Unsafe { .. }
            | Self::OutsideApproval { .. }
            | Self::Observe { .. }
            | Self::Blocked { .. }
            | Self::Endless { .. } => None,
        }
    }

    /// The next things to look at or do, most useful first.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Refused { refusals, .. } => {
                refusals.iter().flat_map(|refusal| refusal.choices.clone()).collect()
            }
            Self::Failed { outcome, .. } => {
                outcome.failed.iter().flat_map(|failure| failure.error.hints()).collect()
            }
            Self::Observe { source, .. } => source.hints(),
            Self::Blocked { source, .. } => source.hints(),
            Self::OutsideApproval { .. } => vec!["plan again, and approve what it shows".to_owned()],
            Self::Endless { .. } => {
                vec![
                    "plan again: something else changes what was done, and the plan shows what".to_owned(),
                    "talmox status shows what each machine says".to_owned(),
                ]
            }
            Self::Unsafe { .. } | Self::Interrupted { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { refusals, .. } => {
                let all = refusals.iter().map(|refusal| match &refusal.node {
                    Some(node) => format!("{node}: {}", refusal.problem),
                    None => refusal.problem.clone(),
                });
                write!(f, "cannot be done: {}", list(all))
            }
            Self::Unsafe { violations, .. } => {
                write!(
                    f,
                    "the plan breaks a safety rule: {}",
                    list(violations.iter().map(ToString::to_string))
                )
            }
            Self::Failed { outcome, .. } => {
                write!(f, "not done: {}", list(outcome.failed.iter().map(|failure| failure.step.to_string())))
            }
            Self::Interrupted { outcome, .. } => {
                write!(f, "interrupted, with {} steps left", outcome.skipped.len())
            }
            Self::OutsideApproval { beyond, .. } => {
                let all = beyond.iter().map(|intent| match &intent.node {
                    Some(node) => format!("{} {node} ({})", intent.step, intent.reason),
                    None => format!("{} ({})", intent.step, intent.reason),
                });
                write!(f, "what is left was not approved: {}", list(all))
            }
            Self::Observe { .. } => f.write_str("could not look at what is there now"),
            Self::Blocked { .. } => f.write_str("could not wait until others are done"),
            Self::Endless { left, summary } => {
                let left = list(left.iter().map(ToString::to_string));
                write!(f, "after {} rounds there is still something left: {left}", summary.rounds)
            }
        }
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join("; ")
}

impl Error for ApplyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Failed { outcome, .. } => {
                outcome.failed.first().map(|failure| &failure.error as &(dyn Error + 'static))
            }
            Self::Observe { source, .. } => Some(source),
            Self::Blocked { source, .. } => Some(source),
            Self::Refused { .. }
            | Self::Unsafe { .. }
            | Self::Interrupted { .. }
            | Self::OutsideApproval { .. }
            | Self::Endless { .. } => None,
        }
    }
}
