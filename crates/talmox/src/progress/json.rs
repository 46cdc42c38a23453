//! One JSON object per event, for programs that watch.

use std::time::{Duration, Instant};

use serde::Serialize;
use talmox_exec::{Event, Reporter};
use talmox_plan::Planned;
use talmox_pve::client::Waiting;

use super::Sink;
use crate::failure::causes;

pub(crate) struct JsonLines<'a> {
    sink: Sink<'a>,
    start: Instant,
}

#[derive(Serialize)]
struct Line<'e> {
    event: &'static str,
    /// Seconds since the run began.
    at: f64,
    step: Option<&'e str>,
    node: Option<&'e str>,
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upid: Option<&'e str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vmid: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
}

impl<'a> JsonLines<'a> {
    pub(crate) fn new(sink: Sink<'a>) -> Self {
        Self { sink, start: Instant::now() }
    }

    fn write(&self, line: Line<'_>) {
        // A line of texts and numbers can always be written as JSON.
        if let Ok(text) = serde_json::to_string(&Line { at: rounded(self.start.elapsed()), ..line }) {
            (self.sink)(&text);
        }
    }
}

/// What every event has, told of a step.
fn line<'e>(event: &'static str, step: &'e Planned) -> Line<'e> {
    Line {
        event,
        at: 0.0,
        step: Some(step.id.as_str()),
        node: step.node.as_ref().map(talmox_types::NodeName::as_str),
        action: Some(step.step.word()),
        seconds: None,
        upid: None,
        detail: None,
        vmid: None,
        causes: Vec::new(),
    }
}

/// Seconds, as fine as anybody needs them.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn told<'e>(event: &Event<'e>) -> Line<'e> {
    let seconds = |time: &Duration| Some(rounded(*time));
    match event {
        Event::Started { step } => line("started", step),
        Event::Task { step, upid } => Line { upid: Some(upid.as_str()), ..line("task", step) },
        Event::Waiting { step, name, detail, elapsed, .. } => Line {
            seconds: seconds(elapsed),
            detail: Some(format!("{name}: {detail}")),
            ..line("waiting", step)
        },
        Event::Still { step, name, detail, elapsed, .. } => Line {
            seconds: seconds(elapsed),
            detail: Some(format!("{name}: {detail}")).filter(|_| !name.is_empty()),
            ..line("still", step)
        },
        Event::Warned { step, words } => Line { detail: Some((*words).to_owned()), ..line("warned", step) },
        Event::OtherId { step, vmid } => Line { vmid: Some(vmid.get()), ..line("other_id", step) },
        Event::Done { step, elapsed } => Line { seconds: seconds(elapsed), ..line("done", step) },
        Event::Failed { step, error } => {
            Line { detail: Some(error.to_string()), causes: causes(*error), ..line("failed", step) }
        }
        Event::Skipped { step, because } => {
            Line { detail: Some((*because).to_owned()), ..line("skipped", step) }
        }
    }
}

impl Reporter for JsonLines<'_> {
    fn event(&self, event: Event<'_>) {
        self.write(told(&event));
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        self.write(Line {
            event: "waiting",
            at: 0.0,
            step: None,
            node: None,
            action: None,
            seconds: Some(rounded(waiting.elapsed)),
            upid: None,
            detail: Some(format!("{}: {}", waiting.name, waiting.detail)),
            vmid: None,
            causes: Vec::new(),
        });
    }
}
