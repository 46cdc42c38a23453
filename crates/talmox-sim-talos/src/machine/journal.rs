//! What a node reports as it happens: the source of the events API.

use serde::{Deserialize, Serialize};

use super::status::Status;
use crate::hardware::MachineId;
use crate::nodes::Nodes;
use crate::services::{Health, State};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    /// Counts entries of a boot.
    pub(crate) number: u64,
    /// Who asked for it; empty if nobody did.
    pub(crate) actor: String,
    pub(crate) what: Happened,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Happened {
    Sequence {
        name: String,
        action: Action,
        error: Option<(Failure, String)>,
    },
    Phase {
        name: String,
        begins: bool,
    },
    Task {
        name: String,
        begins: bool,
    },
    Service {
        id: String,
        state: State,
        message: String,
        health: Health,
        health_changed: Option<u64>,
    },
    /// The first one of a boot has no stage yet.
    Status {
        status: Status,
        unknown: bool,
    },
    Address {
        hostname: String,
        addresses: Vec<String>,
    },
    ConfigLoadError(String),
    ConfigValidationError(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    Noop,
    Start,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Failure {
    Fatal,
    Locked,
    Canceled,
}

/// Entries that are kept: the ring of genuine nodes holds as many.
const KEPT: usize = 1000;

impl Nodes {
    pub(crate) fn note(&mut self, machine: MachineId, what: Happened) {
        let actor = self.run(machine).and_then(|run| run.sequence.as_ref()).map(|one| one.actor.clone());
        self.note_by(machine, actor.unwrap_or_default(), what);
    }

    pub(crate) fn note_by(&mut self, machine: MachineId, actor: String, what: Happened) {
        let at = self.clock;
        if let Some(run) = self.run_mut(machine) {
            let number = run.journal.last().map_or(0, |entry| entry.number + 1);
            run.journal.push(Entry { at, number, actor, what });
            if run.journal.len() > KEPT {
                run.journal.remove(0);
            }
        }
    }

    /// A line on the console, as `dmesg` shows it.
    pub(crate) fn print(&mut self, machine: MachineId, line: impl Into<String>) {
        let at = self.clock;
        if let Some(run) = self.run_mut(machine) {
            run.console.push((at, line.into()));
        }
    }

    pub(crate) fn note_phases(&mut self, machine: MachineId, phases: &[(&str, &[&str])]) {
        for (phase, tasks) in phases {
            self.note(machine, Happened::Phase { name: (*phase).to_owned(), begins: true });
            for task in *tasks {
                self.note(machine, Happened::Task { name: (*task).to_owned(), begins: true });
                self.note(machine, Happened::Task { name: (*task).to_owned(), begins: false });
            }
            self.note(machine, Happened::Phase { name: (*phase).to_owned(), begins: false });
        }
    }

    pub(crate) fn note_sequence(&mut self, machine: MachineId, name: &str, action: Action) {
        self.note(machine, Happened::Sequence { name: name.to_owned(), action, error: None });
    }
}
