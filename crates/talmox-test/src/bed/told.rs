//! What a run says, kept for whoever tests it.

use std::fmt::Write as _;
use std::sync::Mutex;

use talmox_exec::{Event, Reporter};

/// Hears everything, a line for each.
#[derive(Default)]
pub struct Told(Mutex<Vec<String>>);

impl Told {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Reporter for Told {
    fn event(&self, event: Event<'_>) {
        let line = match event {
            Event::Started { step } => format!("{} begins", step.id),
            Event::Done { step, .. } => format!("{} done", step.id),
            Event::Failed { step, error } => format!("{} failed: {}", step.id, told(error)),
            Event::Skipped { step, because } => format!("{} skipped: {because}", step.id),
            Event::Warned { step, words } => format!("{} warns: {words}", step.id),
            Event::Waiting { step, name, detail, .. } => format!("{} waits for {name}: {detail}", step.id),
            Event::Task { .. } | Event::OtherId { .. } => return,
        };
        self.0.lock().unwrap().push(line);
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
