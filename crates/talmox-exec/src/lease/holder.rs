//! Who holds a lease: a name for people, and the process, so that another run on the same machine can see that it is gone.
//!
//! ```text
//!  ann@laptop-4711;boot=8c1f6a2b90d347e5;pidns=4026531836;pid=4711;start=918273
//!  └── for people ┘ └──────────────── which process, of which kernel ─────────┘
//! ```
//!
//! A process id means something only within one PID namespace of one boot of one kernel. Two containers have the same host name
//! now and then, and a host that restarts counts from 1 again. So a process is judged only where boot and namespace are our
//! own; everywhere else the lease is watched.

use std::fmt;

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    name: String,
    process: Option<ProcessId>,
}

/// A process, told from every other one that ever ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessId {
    pub home: ProcessHome,
    pub pid: u32,
    /// When it was started, in ticks since the kernel was: its id may be another's by now.
    pub started: u64,
}

/// Where an id of a process means something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessHome {
    /// One boot of one kernel.
    pub boot: String,
    /// The number of the PID namespace.
    pub namespace: u64,
}

/// The processes of the machine this run is on.
pub trait Processes: Send + Sync {
    /// Where this run's own id means something; none where the system does not tell.
    fn home(&self) -> Option<ProcessHome>;

    /// What is known of the process with an id, in that namespace.
    fn find(&self, pid: u32) -> FoundProcess;
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundProcess {
    /// There is none with that id, or it has ended and its parent has not collected it.
    Gone,
    /// It was started then.
    Started(u64),
    /// There is one, and the system does not say more.
    Unknown,
}

impl LeaseHolder {
    /// `name` is for people and names one run; `process` is what tells whether it still runs.
    pub fn new(name: impl Into<String>, process: Option<ProcessId>) -> Self {
        let name: String = name.into();
        Self { name: name.replace(SEPARATOR, "-"), process }
    }

    /// Reads what stands in a lease. An earlier talmox wrote the name alone.
    pub(super) fn read(text: &str) -> Self {
        let (name, rest) = text.split_once(SEPARATOR).unwrap_or((text, ""));
        Self { name: name.to_owned(), process: ProcessId::read(rest) }
    }

    /// The name people are told.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its process is proven to have ended.
    pub(super) fn is_gone(&self, processes: &dyn Processes) -> bool {
        let Some(process) = &self.process else { return false };
        if processes.home().as_ref() != Some(&process.home) {
            return false;
        }
        match processes.find(process.pid) {
            FoundProcess::Gone => true,
            FoundProcess::Started(started) => started != process.started,
            FoundProcess::Unknown => false,
        }
    }
}

/// Between the name and what follows, in every place a lease is kept.
const SEPARATOR: char = ';';

impl ProcessId {
    fn read(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let mut words = text.split(SEPARATOR);
            words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        };
        let home = ProcessHome {
            boot: value("boot").filter(|boot| !boot.is_empty())?.to_owned(),
            namespace: value("pidns")?.parse().ok()?,
        };
        Some(Self { home, pid: value("pid")?.parse().ok()?, started: value("start")?.parse().ok()? })
    }
}

/// As it is written into a lease.
impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(ProcessId { home: ProcessHome { boot, namespace }, pid, started }) = &self.process {
            write!(f, ";boot={boot};pidns={namespace};pid={pid};start={started}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one process.
    struct Machine(Option<ProcessHome>, u32, FoundProcess);

    impl Processes for Machine {
        fn home(&self) -> Option<ProcessHome> {
            self.0.clone()
        }

        fn find(&self, pid: u32) -> FoundProcess {
            if pid == self.1 { self.2 } else { FoundProcess::Gone }
        }
    }

    fn home(boot: &str, namespace: u64) -> ProcessHome {
        ProcessHome { boot: boot.to_owned(), namespace }
    }

    fn holder() -> LeaseHolder {
        LeaseHolder::new("ann@laptop-7", Some(ProcessId { home: home("b1", 1), pid: 7, started: 100 }))
    }

    #[test]
    fn a_holder_is_read_as_it_was_written() {
        let text = holder().to_string();
        assert_eq!(text, "ann@laptop-7;boot=b1;pidns=1;pid=7;start=100");
        assert_eq!(LeaseHolder::read(&text), holder());
        // A mark has no room for `@`.
        let marked = LeaseHolder::read(&talmox_types::LeaseWord::holder(&text));
        assert_eq!((marked.name(), &marked.process), ("ann-laptop-7", &holder().process));
        assert_eq!(LeaseHolder::new("a;b", None).to_string(), "a-b");
    }

    #[test]
    fn what_an_earlier_talmox_wrote_is_a_name_and_nothing_more() {
        for text in ["ann@laptop-7", "ann@laptop-7;boot=b1;pid=7", "ann@laptop-7;boot=;pidns=1;pid=7;start=1"]
        {
            let holder = LeaseHolder::read(text);
            assert_eq!((holder.name(), &holder.process), ("ann@laptop-7", &None));
            assert!(!holder.is_gone(&Machine(Some(home("b1", 1)), 1, FoundProcess::Gone)));
        }
    }

    #[test]
    fn a_process_is_judged_only_where_its_id_means_something() {
        use FoundProcess::{Gone, Started, Unknown};
        let here = || Some(home("b1", 1));
        for (machine, gone) in [
            (Machine(here(), 7, Started(100)), false),
            (Machine(here(), 7, Gone), true),
            // Another process has the id by now.
            (Machine(here(), 7, Started(101)), true),
            (Machine(here(), 7, Unknown), false),
            // Another container, another boot, a system that does not tell.
            (Machine(Some(home("b1", 2)), 7, Gone), false),
            (Machine(Some(home("b2", 1)), 7, Gone), false),
            (Machine(None, 7, Gone), false),
        ] {
            assert_eq!(holder().is_gone(&machine), gone, "{:?} {:?}", machine.0, machine.2);
        }
    }
}
