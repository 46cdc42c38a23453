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

use talmox_plan::Planned;

/// Where lines go.
pub(crate) type Sink<'a> = Box<dyn Fn(&str) + Send + Sync + 'a>;

/// Whom a step is about, as a line begins with it.
fn subject(step: &Planned) -> &str {
    step.node.as_ref().map_or("cluster", talmox_types::NodeName::as_str)
}

#[cfg(test)]
mod tests;
