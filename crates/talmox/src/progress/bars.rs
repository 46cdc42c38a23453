//! One bar for each node, on a terminal.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use talmox_exec::{Event, Reporter};
use talmox_plan::{Plan, Planned};
use talmox_pve::client::Waiting;

use super::patience::{Patience, wait, waits_for};
use super::subject;
use crate::screens::{could, doing, done, safe};

/// Thousandths: fine enough for a bar of 20 characters.
const STEP: u64 = 1000;
/// How often the time moves on while nothing else does.
const TICK: Duration = Duration::from_millis(200);

pub(crate) struct Bars {
    screen: MultiProgress,
    nodes: Mutex<BTreeMap<String, Node>>,
    totals: BTreeMap<String, u64>,
    width: usize,
    patience: Patience,
}

/// Where the bars are drawn.
#[derive(Clone)]
pub(crate) struct Screen(MultiProgress);

impl Screen {
    /// Says something above the bars.
    pub(crate) fn above(&self, say: impl FnOnce()) {
        self.0.suspend(say);
    }

    /// Takes the bars away while somebody is asked. Whatever they show goes on behind it: a question may stand for hours,
    /// and must keep neither the work nor Ctrl-C waiting.
    pub(crate) fn hide(&self) {
        // A terminal that cannot be cleared shows a line too much.
        let _ = self.0.clear();
        self.0.set_draw_target(ProgressDrawTarget::hidden());
    }

    pub(crate) fn show(&self) {
        self.0.set_draw_target(ProgressDrawTarget::stderr());
    }
}

struct Node {
    bar: ProgressBar,
    total: u64,
    done: u64,
    task: String,
    /// The last word stands: something failed, or is not done any more.
    settled: bool,
}

impl Bars {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut totals: BTreeMap<String, u64> = BTreeMap::new();
        for step in &plan.steps {
            *totals.entry(subject(step).into_owned()).or_default() += 1;
        }
        for node in plan.later.iter().filter_map(|intent| intent.node.as_ref()) {
            *totals.entry(node.to_string()).or_default() += 1;
        }
        let width = totals.keys().map(String::len).max().unwrap_or_default();
        Self {
            screen: MultiProgress::new(),
            nodes: Mutex::default(),
            totals,
            width,
            patience: Patience::default(),
        }
    }

    /// The bars, for whoever has to say something in between.
    pub(crate) fn screen(&self) -> Screen {
        Screen(self.screen.clone())
    }

    /// Leaves the bars as they stand.
    pub(crate) fn finish(&self) {
        let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        for node in nodes.values().filter(|node| !node.bar.is_finished()) {
            node.bar.abandon();
        }
    }

    fn with(&self, step: &Planned, act: impl FnOnce(&mut Node)) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let name = subject(step);
        if !nodes.contains_key(&*name) {
            nodes.insert(name.clone().into_owned(), self.node(&name));
        }
        if let Some(node) = nodes.get_mut(&*name) {
            act(node);
        }
    }

    fn node(&self, name: &str) -> Node {
        let total = self.totals.get(name).copied().unwrap_or(1).max(1);
        let bar = self.screen.add(ProgressBar::new(total * STEP));
        let style = ProgressStyle::with_template("  {prefix} {bar:20} {elapsed:>4}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("██░"));
        bar.set_prefix(format!("{:<width$}", safe(name), width = self.width));
        bar.enable_steady_tick(TICK);
        Node { bar, total, done: 0, task: String::new(), settled: false }
    }
}

impl Node {
    fn finish_step(&mut self, step: &Planned) {
        self.done += 1;
        self.task.clear();
        // What comes next may have to wait for others: until then this is the last that happened.
        self.tell(&done(step));
        self.bar.set_length(self.total.max(self.done) * STEP);
        self.bar.set_position(self.done * STEP);
        if self.done >= self.total {
            self.bar.finish_with_message("done");
        }
    }

    /// What became of the node, unless something became of it before.
    fn settle(&mut self, words: &str) {
        if !self.settled {
            self.bar.set_message(safe(words));
            self.settled = true;
        }
    }

    fn progress(&self, step: &Planned, name: &str, detail: &str) {
        let part = percent(detail).unwrap_or_default();
        self.bar.set_position(self.done * STEP + part * STEP / 100);
        // Terminals are narrow: of a wait what is waited for comes first.
        let words = if self.task.is_empty() { wait(name, detail) } else { message(step, detail, &self.task) };
        self.tell(&words);
    }

    fn tell(&self, words: &str) {
        if !self.settled {
            self.bar.set_message(safe(words));
        }
    }
}

/// What is done, how far Proxmox says it is, and the beginning of the task's id.
fn message(step: &Planned, detail: &str, task: &str) -> String {
    let parts = [doing(step), safe(detail), task.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// `transferred 1.2 GiB of 8.0 GiB (15.00%)` is 15.
fn percent(detail: &str) -> Option<u64> {
    let (before, _) = detail.split_once('%')?;
    let number = before.rsplit(|c: char| !c.is_ascii_digit() && c != '.').next()?;
    number.split('.').next()?.parse().ok().filter(|percent| *percent <= 100)
}

/// Enough of a task's id to find it by: `UPID:pve:0003A1…`.
fn short(upid: &str) -> String {
    upid.chars().take(16).chain(['…']).collect()
}

impl Reporter for Bars {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Started { step } => self.with(step, |node| node.tell(&doing(step))),
            Event::Task { step, upid } => self.with(step, |node| {
                node.task = short(upid.as_str());
                node.tell(&message(step, "", &node.task));
            }),
            // The bar's own time goes on between the words of a wait.
            Event::Still { .. } => {}
            Event::Waiting { step, name, detail, .. } => {
                self.with(step, |node| node.progress(step, name, detail));
            }
            Event::Warned { step, words } => {
                let line = format!("  {}: warning: {}", safe(&subject(step)), safe(words));
                // A terminal that cannot be written to is nothing to report on it.
                let _ = self.screen.println(line);
            }
            Event::OtherId { step, vmid } => {
                self.with(step, |node| {
                    node.tell(&format!("made as {vmid}: the planned id is taken"));
                });
            }
            Event::Done { step, .. } => self.with(step, |node| node.finish_step(step)),
            Event::Failed { step, .. } => {
                self.with(step, |node| node.settle(&format!("failed: {}", could(&step.step))));
            }
            Event::Skipped { step, because } => {
                self.with(step, |node| node.settle(&format!("not done: {}", safe(because))));
            }
        }
    }

    fn waiting(&self, waiting: &Waiting<'_>) {
        if self.patience.is_over(waiting.name, waiting.elapsed) {
            let _ = self.screen.println(format!("  {}", waits_for(waiting)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_in_the_words_of_proxmox() {
        assert_eq!(percent("transferred 1.2 GiB of 8.0 GiB (15.00%)"), Some(15));
        assert_eq!(percent("100%"), Some(100));
        assert_eq!(percent("create full clone of drive scsi0"), None);
        assert_eq!(percent("999%"), None);
        assert_eq!(short("UPID:pve:0003A1C2:00000000:0:qmclone"), "UPID:pve:0003A1C…");
    }
}
