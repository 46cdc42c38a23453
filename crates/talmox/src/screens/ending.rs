//! How a run ended: what is there now, or what stands in the way, and what to type next.

use std::collections::BTreeMap;
use std::time::Duration;

use talmox_exec::{ApplyError, StepError};
use talmox_plan::Refusal;
use talmox_types::NodeName;

use super::plan_text::{RED, YELLOW};
use super::text::{duration, listed, plural, safe};
use crate::commands::Left;
use crate::failure::causes;
use crate::printer::{BOLD, DIM, GREEN};

/// A run that did all it could.
pub(crate) struct Finish<'a> {
    pub(crate) cluster: &'a str,
    /// `6 VMs run`, or what else is the case now.
    pub(crate) result: String,
    pub(crate) steps: usize,
    pub(crate) elapsed: Duration,
    pub(crate) simulated: bool,
    /// Whether everything that was asked for is so.
    pub(crate) complete: bool,
    /// What to type next, with what it is for.
    pub(crate) next: Vec<(&'static str, String)>,
}

pub(crate) fn finished(finish: &Finish<'_>) -> String {
    let Finish { cluster, result, steps, elapsed, simulated, complete, next } = finish;
    let aside = if *simulated { " (simulated)" } else { "" };
    let (word, style) = if *complete { ("Done", GREEN) } else { ("Incomplete", YELLOW) };
    let mut text = format!(
        "{style}{word}{style:#}{aside}. {BOLD}{cluster}{BOLD:#}: {result} ({} in {}).\n",
        plural(*steps, "step"),
        duration(*elapsed)
    );
    let width = next.iter().map(|(what, _)| what.len()).max().unwrap_or_default() + 1;
    for (what, command) in next {
        text.push_str(&format!("  {:<width$} {command}\n", format!("{what}:")));
    }
    text
}

/// A line for each thing that is left, and below those with the same remedy the command for it.
pub(crate) fn left_lines(left: &[Left]) -> String {
    let mut text = String::new();
    for alike in left.chunk_by(|one, other| one.command == other.command) {
        for one in alike {
            text.push_str(&format!("{YELLOW}left{YELLOW:#}: {}\n", one.what));
        }
        if let Some(first) = alike.first() {
            text.push_str(&format!("      {}\n", first.command));
        }
    }
    text
}

/// A run that stopped short.
pub(crate) struct Broken {
    /// Each failure: what could not be done, Proxmox's words, hints.
    pub(crate) failures: Vec<Failed>,
    /// Where each node stands: a phrase, and who it is true of.
    pub(crate) state: BTreeMap<NodeName, &'static str>,
    pub(crate) interrupted: bool,
    /// The command that goes on.
    pub(crate) again: String,
}

pub(crate) struct Failed {
    pub(crate) what: String,
    /// `Proxmox said: …`, or what else lies behind it.
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
    pub(crate) retry_is_safe: bool,
}

impl Failed {
    pub(crate) fn step(error: &StepError) -> Self {
        let unsettled = matches!(
            error,
            StepError::NotOurs { .. }
                | StepError::Stuck { .. }
                | StepError::Double { .. }
                | StepError::WouldLose { .. }
        );
        let causes = causes(error);
        Self { what: error.to_string(), causes, hints: error.hints(), retry_is_safe: !unsettled }
    }

    /// Something a later round found impossible.
    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        let about = refusal.node.as_ref().map_or_else(String::new, |node| format!("{node}: "));
        let what = format!("{about}{}", safe(&refusal.problem));
        Self { what, causes: Vec::new(), hints: refusal.choices.clone(), retry_is_safe: false }
    }

    /// A failure that concerns no single step.
    pub(crate) fn whole(error: &ApplyError) -> Self {
        Self { what: error.to_string(), causes: causes(error), hints: error.hints(), retry_is_safe: true }
    }
}

/// Failures on top; then how things stand, and how to go on.
pub(crate) fn broken(run: &Broken) -> String {
    let mut text = String::new();
    for failed in &run.failures {
        text.push_str(&format!("{RED}error{RED:#}: {}\n", failed.what));
        for cause in &failed.causes {
            text.push_str(&format!("  {cause}\n"));
        }
        for hint in &failed.hints {
            text.push_str(&format!("  {DIM}hint:{DIM:#} {hint}\n"));
        }
    }
    if run.interrupted {
        text.push_str("stopped as asked; what was under way has been finished\n");
    }
    let state = standing(&run.state);
    if !state.is_empty() {
        text.push_str(&format!("  state: {state}\n"));
    }
    let safe = run.failures.iter().all(|failed| failed.retry_is_safe);
    let retry = if safe {
        "safe. Nothing has to be undone; run"
    } else {
        "safe once the above is settled: what is there is looked at first. Then run"
    };
    text + &format!("  retry: {retry}\n         {}\n", run.again)
}

/// `cp-1 and cp-3 run, cp-2 was not created`: nodes that stand alike are told together.
fn standing(state: &BTreeMap<NodeName, &'static str>) -> String {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (node, phrase) in state {
        match groups.iter_mut().find(|(known, _)| known == phrase) {
            Some((_, nodes)) => nodes.push(node.to_string()),
            None => groups.push((phrase, vec![node.to_string()])),
        }
    }
    let told = groups.iter().map(|(phrase, nodes)| {
        let phrase = if nodes.len() == 1 { (*phrase).to_owned() } else { of_several(phrase) };
        format!("{} {phrase}", listed(nodes))
    });
    told.collect::<Vec<_>>().join(" · ")
}

/// `runs` becomes `run`, `is gone` becomes `are gone`, wherever a verb stands in the phrase.
fn of_several(phrase: &str) -> String {
    let word = |word: &str| match word {
        "is" => "are".to_owned(),
        "was" => "were".to_owned(),
        "runs" => "run".to_owned(),
        "does" => "do".to_owned(),
        "it" => "they".to_owned(),
        "takes" => "take".to_owned(),
        other => other.to_owned(),
    };
    phrase.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
