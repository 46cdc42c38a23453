//! Remembers what happened, for the last screen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use talmox_exec::{Event, Reporter};
use talmox_plan::{Plan, Planned};
use talmox_pve::client::Waiting;
use talmox_types::NodeName;

/// Hands everything on, and keeps what the last screen needs.
pub(crate) struct Ledger<'a> {
    inner: &'a dyn Reporter,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// What was planned for each node when the run began.
    planned: BTreeMap<NodeName, BTreeSet<&'static str>>,
    done: BTreeMap<NodeName, Vec<&'static str>>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(plan: &Plan, inner: &'a dyn Reporter) -> Self {
        let mut books = Books::default();
        for step in &plan.steps {
            books.plan(step);
        }
        Self { inner, books: Mutex::new(books) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Books) -> T) -> T {
        act(&mut self.books.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the VM a node had is gone or another has taken its place, so that what is left is to make or to finish one. That a
    /// node was forgotten is not enough: where its host is gone for good, only the same words make another elsewhere.
    pub(crate) fn is_replaced(&self, node: &NodeName) -> bool {
        self.with(|books| books.done.get(node).is_some_and(|done| has_another(done)))
    }

    /// Where every node stands that something was planned for.
    pub(crate) fn state(&self) -> BTreeMap<NodeName, &'static str> {
        self.with(|books| {
            let phrase = |(node, planned): (&NodeName, &BTreeSet<&'static str>)| {
                let done = books.done.get(node).map(Vec::as_slice).unwrap_or_default();
                (node.clone(), standing(planned, done))
            };
            books.planned.iter().map(phrase).collect()
        })
    }
}

impl Books {
    fn plan(&mut self, step: &Planned) {
        if let Some(node) = &step.node {
            self.planned.entry(node.clone()).or_default().insert(step.step.word());
        }
    }
}

/// Whether what was done to a node leaves nothing of the VM it had to be built anew.
fn has_another(done: &[&'static str]) -> bool {
    done.iter().any(|word| matches!(*word, "remove" | "clone" | "create"))
}

/// A node in a phrase, by what was planned for it and the last thing that was done.
fn standing(planned: &BTreeSet<&'static str>, done: &[&'static str]) -> &'static str {
    let is_new = planned.contains("clone") || planned.contains("create");
    let (left, gone) = (done.contains(&"retire"), done.contains(&"remove"));
    let is_made = done.contains(&"clone") || done.contains(&"create");
    let only_looked_after = done.iter().all(|word| matches!(*word, "drain" | "return"));
    match done.last().copied() {
        None if planned.contains("remove") => "is still there",
        None if is_new => "was not created",
        None => "is as it was",
        // Whatever was to be done in between failed.
        Some("return") if only_looked_after => "runs as before and takes pods",
        Some("return") if done.contains(&"upgrade-node") => "is upgraded and takes pods",
        Some("upgrade-node") => "is upgraded and not back yet",
        Some("drain") => "is drained and not back yet",
        Some(_) if gone && is_new && !is_made => "is removed and not built anew",
        Some(_) if gone && !is_new => "is gone",
        Some(_) if left && !gone => "has left the cluster, and its VM is still there",
        Some("stop") => "is stopped",
        Some("start" | "reboot") => "runs",
        Some("configure-node" | "eject-seed" | "withdraw-config") => "is configured",
        Some("bootstrap") => "is bootstrapped",
        Some("clone") => "is cloned and not configured",
        Some("create") => "is created and not configured",
        Some(_) if is_new => "is made and does not run yet",
        Some(_) => "is changed",
    }
}

impl Reporter for Ledger<'_> {
    fn event(&self, event: Event<'_>) {
        match &event {
            Event::Started { step } => self.with(|books| books.plan(step)),
            Event::Done { step, .. } => self.with(|books| {
                if let Some(node) = &step.node {
                    books.done.entry(node.clone()).or_default().push(step.step.word());
                }
            }),
            Event::Failed { .. }
            | Event::Task { .. }
            | Event::Waiting { .. }
            | Event::Still { .. }
            | Event::Warned { .. }
            | Event::OtherId { .. }
            | Event::Skipped { .. } => {}
        }
        self.inner.event(event);
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        self.inner.waiting(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_built_anew_once_its_vm_is_gone_or_another_is_there() {
        assert!(!has_another(&[]));
        // Its host is gone for good, and nothing was made elsewhere yet.
        assert!(!has_another(&["snapshot-etcd", "forget"]));
        assert!(has_another(&["forget", "clone"]));
        assert!(has_another(&["forget", "create"]));
        assert!(has_another(&["drain", "retire", "stop", "remove"]));
    }
}
