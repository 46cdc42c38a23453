//! Plain lines, for logs and pipes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_exec::{Event, Reporter};
use talmox_plan::{Plan, Planned, StepId};
use talmox_pve::client::Waiting;

use super::patience::{Patience, at_most, wait, waits_for};
use super::{Sink, subject};
use crate::screens::{could, doing, done, duration, safe};

pub(crate) struct Lines<'a> {
    sink: Sink<'a>,
    width: usize,
    patience: Patience,
    /// Of whom it was told that something did not come about.
    left: Mutex<BTreeSet<String>>,
    /// Steps that Proxmox works on: it says itself how far it is.
    tasks: Mutex<BTreeSet<StepId>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(plan: &Plan, sink: Sink<'a>) -> Self {
        let now = plan.steps.iter().map(|step| subject(step).len());
        let later = plan.later.iter().filter_map(|intent| Some(intent.node.as_ref()?.as_str().len()));
        let width = now.chain(later).max().unwrap_or_default();
        Self { sink, width, patience: Patience::default(), left: Mutex::default(), tasks: Mutex::default() }
    }

    /// Whether nothing was told yet of what did not come about: everything that was to follow would say the same again.
    fn is_news(&self, step: &Planned) -> bool {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).insert(subject(step).into_owned())
    }

    fn how_it_goes(&self, step: &Planned, (name, detail): (&str, &str), limit: Duration) -> String {
        let is_task = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).contains(&step.id);
        match (is_task, name) {
            (_, "") => String::new(),
            (true, _) if detail.is_empty() => String::new(),
            (true, _) => format!(": {}", safe(detail)),
            (false, _) => format!(", {}{}", wait(name, detail), at_most(limit)),
        }
    }

    fn line(&self, step: &Planned, words: &str) {
        (self.sink)(&format!("{:<width$}  {words}", subject(step), width = self.width));
    }
}

impl Reporter for Lines<'_> {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { .. } | Event::Waiting { .. } => {}
            Event::Task { step, .. } => {
                self.tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(step.id.clone());
            }
            Event::Still { step, name, detail, elapsed, limit } => {
                let how = self.how_it_goes(step, (name, detail), limit);
                self.line(step, &format!("still {}{how}   {}", doing(step), duration(elapsed)));
            }
            Event::Warned { step, words } => self.line(step, &format!("warning: {}", safe(words))),
            Event::OtherId { step, vmid } => {
                self.line(step, &format!("made as {vmid}: somebody else has the id that was planned"));
            }
            Event::Done { step, elapsed } => {
                self.line(step, &format!("{}   {}", done(step), duration(elapsed)));
            }
            Event::Failed { step, error } => {
                self.is_news(step);
                self.line(step, &format!("could not {}: {}", could(&step.step), safe(&error.to_string())));
            }
            Event::Skipped { step, because } => {
                if self.is_news(step) {
                    self.line(step, &format!("did not {}: {}", could(&step.step), safe(because)));
                }
            }
        }
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        if self.patience.is_over(waiting.name, waiting.elapsed) {
            (self.sink)(&waits_for(waiting));
        }
    }
}
