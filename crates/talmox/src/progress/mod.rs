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
    if let Some(template) = step.step.template() {
        return Cow::Owned(format!("template {}", template.host));
    }
    if let Step::FetchImage { host, .. } | Step::RemoveImage { host, .. } = &step.step {
        Cow::Owned(format!("image {host}"))
    } else if let Step::BuildTemplate { host, .. } = &step.step {
        Cow::Owned(format!("template {host}"))
    } else if let Step::RegisterSchematic { .. } = &step.step {
        Cow::Borrowed("factory")
    } else {
        Cow::Borrowed("cluster")
    }
}

#[cfg(test)]
mod tests;
