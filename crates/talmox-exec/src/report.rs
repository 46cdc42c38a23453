//! What happens while a plan is carried out, for whoever shows it.

use std::time::Duration;

use talmox_plan::Planned;
use talmox_pve::client::{Upid, Waiting};
use talmox_types::VmId;

/// Hears what happens.
pub trait Reporter: Send + Sync {
    fn event(&self, event: Event<'_>);

    /// Something is waited for that belongs to no step: a VM that somebody else is making, or keeps locked.
    fn waiting(&self, waiting: &Waiting<'_>) {
        let _ = waiting;
    }
}

/// Something that happened to a step.
#[derive(Debug)]
pub enum Event<'a> {
    Started {
        step: &'a Planned,
    },
    /// A Proxmox task does the work from here on.
    Task {
        step: &'a Planned,
        upid: &'a Upid,
    },
    /// Something is waited for: a task, a lock, a turn at the gate.
    Waiting {
        step: &'a Planned,
        name: &'a str,
        /// The last words seen, Proxmox's own progress among them: `transferred 1.2 GiB of 8.0 GiB (15.00%)`.
        detail: &'a str,
        elapsed: Duration,
        limit: Duration,
    },
    /// The step is at work for so long, and waits for this if it said so: what is told every thirty seconds of every step.
    Still {
        step: &'a Planned,
        /// Empty where nothing is known to be waited for.
        name: &'a str,
        detail: &'a str,
        /// Since the step began.
        elapsed: Duration,
        /// How long the wait may take in all; zero where that is not known.
        limit: Duration,
    },
    /// Proxmox did it and warned.
    Warned {
        step: &'a Planned,
        words: &'a str,
    },
    /// The VM was made on another id than planned, because somebody else has that one by now.
    OtherId {
        step: &'a Planned,
        vmid: VmId,
    },
    Done {
        step: &'a Planned,
        elapsed: Duration,
    },
    Failed {
        step: &'a Planned,
        error: &'a crate::StepError,
    },
    /// Not done, and why: a step it needs failed, or the run was interrupted.
    Skipped {
        step: &'a Planned,
        because: &'a str,
    },
}
