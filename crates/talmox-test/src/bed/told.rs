//! What a run says, kept for whoever tests it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

use talmox_exec::{Event, Reporter};
use talmox_plan::{Planned, StepId};
use talmox_pve::client::Waiting;
use tokio::time::Instant;

/// Hears everything, a line for each.
#[derive(Default)]
pub struct Told {
    lines: Mutex<Vec<String>>,
    voices: Mutex<Voices>,
}

/// When steps spoke, as a person who reads plain lines hears them.
#[derive(Default)]
struct Voices {
    last: BTreeMap<StepId, Instant>,
    /// Kinds of steps that spoke in between.
    long: BTreeSet<&'static str>,
}

/// How long a step may be silent.
const SILENCE: Duration = Duration::from_secs(30);

impl Told {
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Kinds of steps that took so long that they had to speak in between.
    pub fn long_steps(&self) -> BTreeSet<&'static str> {
        self.voices.lock().unwrap().long.clone()
    }

    /// A step spoke: never longer than thirty seconds after it did before, whichever step it is, in every test.
    fn spoke(&self, step: &Planned) {
        let (now, mut voices) = (Instant::now(), self.voices.lock().unwrap());
        if let Some(last) = voices.last.insert(step.id.clone(), now) {
            let silence = now - last;
            assert!(
                silence <= SILENCE + Duration::from_millis(50),
                "{} said nothing for {silence:?}",
                step.id
            );
        }
    }

    fn ended(&self, step: &Planned) {
        self.spoke(step);
        self.voices.lock().unwrap().last.remove(&step.id);
    }

    fn keep(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl Reporter for Told {
    fn event(&self, event: Event<'_>) {
        match &event {
            Event::Started { step } => {
                // A run that was killed with it under way said no more.
                self.voices.lock().unwrap().last.remove(&step.id);
                self.spoke(step);
            }
            Event::Still { step, .. } => {
                self.spoke(step);
                self.voices.lock().unwrap().long.insert(step.step.word());
            }
            Event::Warned { step, .. } => self.spoke(step),
            Event::Done { step, .. } | Event::Failed { step, .. } => self.ended(step),
            // One that did not begin may have done so in a run that was killed.
            Event::Skipped { step, .. } => drop(self.voices.lock().unwrap().last.remove(&step.id)),
            Event::Waiting { .. } | Event::Task { .. } | Event::OtherId { .. } => {}
        }
        let line = match event {
            Event::Started { step } => format!("{} begins", step.id),
            Event::Done { step, .. } => format!("{} done", step.id),
            Event::Failed { step, error } => format!("{} failed: {}", step.id, told(error)),
            Event::Skipped { step, because } => format!("{} skipped: {because}", step.id),
            Event::Warned { step, words } => format!("{} warns: {words}", step.id),
            Event::Waiting { step, name, detail, .. } => format!("{} waits for {name}: {detail}", step.id),
            Event::Still { .. } | Event::Task { .. } | Event::OtherId { .. } => return,
        };
        self.keep(line);
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        self.keep(format!("waits for {}: {}", waiting.name, waiting.detail));
    }
}

/// An error and everything that led to it.
pub fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, "\nbecause: {error}");
        cause = error.source();
    }
    text
}
