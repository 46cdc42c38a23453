//! Processes of runs, and what another run sees of them.

use std::collections::BTreeMap;

use talmox_exec::{FoundProcess, ProcessHome, ProcessId, Processes};

/// The processes one run sees, and which process each run is. Empty: the system tells nothing.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    /// The machine, or container, that looks.
    pub here: Option<ProcessHome>,
    /// Processes that run there, and when they were started.
    pub running: BTreeMap<u32, u64>,
    /// What runs, by number, write into leases.
    pub runs: BTreeMap<u32, ProcessId>,
}

impl ProcessTable {
    pub(super) fn of(&self, number: u32) -> Option<ProcessId> {
        self.runs.get(&number).cloned()
    }
}

impl Processes for ProcessTable {
    fn home(&self) -> Option<ProcessHome> {
        self.here.clone()
    }

    fn find(&self, pid: u32) -> FoundProcess {
        self.running.get(&pid).map_or(FoundProcess::Gone, |started| FoundProcess::Started(*started))
    }
}
