//! How a run is told while it goes: bars on a terminal, lines elsewhere, JSON for programs.

mod bars;
mod json;
mod ledger;
mod lines;
mod patience;

pub(crate) use bars::{Bars, Screen};
pub(crate) use json::JsonLines;
pub(crate) use ledger::Ledger;
pub(crate) use lines::Lines;

use std::borrow::Cow;

use talmox_plan::{Planned, Step};

/// Where lines go.
pub(crate) type Sink<'a> = Box<dyn Fn(&str) + Send + Sync + 'a>;

/// Whom a step is about, as a line begins with it.
fn subject(step: &Planned) -> Cow<'_, str> {
    if let Some(node) = &step.node {
        return Cow::Borrowed(node.as_str());
    }
    match &step.step {
        Step::RegisterSchematic { .. } => Cow::Borrowed("factory"),
        Step::FetchImage { host, .. } | Step::RemoveImage { host, .. } => Cow::Owned(format!("image {host}")),
        Step::BuildTemplate { host, .. } => Cow::Owned(format!("template {host}")),
        other => match other.template() {
            Some(template) => Cow::Owned(format!("template {}", template.host)),
            None => Cow::Borrowed("cluster"),
        },
    }
}

#[cfg(test)]
mod tests;
