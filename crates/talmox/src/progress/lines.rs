//! Plain lines, for logs and pipes.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use talmox_exec::{Event, Reporter};
use talmox_plan::{Plan, Planned, StepId};

use super::{Sink, subject};
use crate::screens::{could, doing, done, duration, safe};

/// A wait that takes longer is mentioned, and again after as long.
const STILL: Duration = Duration::from_secs(30);

pub(crate) struct Lines<'a> {
    sink: Sink<'a>,
    width: usize,
    /// How often each wait was mentioned.
    mentioned: Mutex<BTreeMap<StepId, u64>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(plan: &Plan, sink: Sink<'a>) -> Self {
        let width = plan.steps.iter().map(|step| subject(step).len()).max().unwrap_or_default();
        Self { sink, width, mentioned: Mutex::new(BTreeMap::new()) }
    }

    fn line(&self, step: &Planned, words: &str) {
        (self.sink)(&format!("{:<width$}  {words}", subject(step), width = self.width));
    }

    /// Whether so long a wait has not been mentioned yet.
    fn is_news(&self, step: &Planned, elapsed: Duration) -> bool {
        let times = elapsed.as_secs() / STILL.as_secs();
        let mut mentioned = self.mentioned.lock().unwrap_or_else(PoisonError::into_inner);
        let before = mentioned.entry(step.id.clone()).or_default();
        let news = times > *before;
        *before = times.max(*before);
        news
    }
}

impl Reporter for Lines<'_> {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { .. } | Event::Task { .. } => {}
            Event::Waiting { step, detail, elapsed, .. } => {
                if self.is_news(step, elapsed) {
                    self.line(
                        step,
                        &format!("still {}: {}   {}", doing(step), safe(detail), duration(elapsed)),
                    );
                }
            }
            Event::Warned { step, words } => self.line(step, &format!("Proxmox warns: {}", safe(words))),
            Event::OtherId { step, vmid } => {
                self.line(step, &format!("made as {vmid}: somebody else has the id that was planned"));
            }
            Event::Done { step, elapsed } => {
                self.line(step, &format!("{}   {}", done(step), duration(elapsed)));
            }
            Event::Failed { step, error } => {
                self.line(step, &format!("could not {}: {}", could(&step.step), safe(&error.to_string())));
            }
            Event::Skipped { step, because } => {
                self.line(step, &format!("did not {}: {}", could(&step.step), safe(because)));
            }
        }
    }
}
