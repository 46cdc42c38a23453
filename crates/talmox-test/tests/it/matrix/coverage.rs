//! Which fault hit which call, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::matrix::cases::Case;
use crate::matrix::faults::{self, why_it_may_miss};
use crate::matrix::run::Ended;

/// What became of a fault at a kind of call, over all work and both the first and the last such call.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    missed: usize,
    through: usize,
    stopped: usize,
    failed: usize,
}

impl Cell {
    fn letter(self) -> char {
        match self {
            Self { failed: 1.., .. } => 'F',
            Self { stopped: 1.., .. } => 's',
            Self { through: 1.., .. } => 't',
            Self { missed: 1.., .. } => '-',
            Self { .. } => ' ',
        }
    }
}

pub(crate) struct Coverage {
    names: Vec<&'static str>,
    cells: BTreeMap<(String, &'static str), Cell>,
    total: Cell,
    volumes_left: usize,
    failures: Vec<String>,
}

impl Coverage {
    pub(crate) fn of(cases: &[Case], ended: &[Ended]) -> Self {
        let names = faults::all().iter().chain(&faults::lasting()).map(|mishap| mishap.name).collect();
        let mut coverage = Self {
            names,
            cells: BTreeMap::new(),
            total: Cell::default(),
            volumes_left: 0,
            failures: Vec::new(),
        };
        for (case, ended) in cases.iter().zip(ended) {
            coverage.add(case, ended);
        }
        coverage
    }

    fn add(&mut self, case: &Case, ended: &Ended) {
        let cell = self.cells.entry((case.kind.clone(), case.mishap.name)).or_default();
        for cell in [cell, &mut self.total] {
            match ended {
                Ended::Missed => cell.missed += 1,
                Ended::Through => cell.through += 1,
                Ended::Stopped { .. } => cell.stopped += 1,
                Ended::Failed(_) => cell.failed += 1,
            }
        }
        match ended {
            Ended::Failed(words) => self.failures.push(format!("{}\n{words}", case.name())),
            Ended::Stopped { volume_left: true } => self.volumes_left += 1,
            Ended::Missed if why_it_may_miss(&case.mishap.fault).is_none() => {
                self.failures.push(format!("{}: the fault did not strike", case.name()));
            }
            Ended::Missed | Ended::Through | Ended::Stopped { .. } => {}
        }
    }

    fn kinds(&self) -> BTreeSet<&str> {
        self.cells.keys().map(|(kind, _)| kind.as_str()).collect()
    }

    pub(crate) fn calls(&self) -> usize {
        self.kinds().len()
    }

    pub(crate) fn faults(&self) -> usize {
        self.cells.keys().map(|(_, name)| name).collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// The first few, whole: logs are long.
    pub(crate) fn told_failures(&self) -> String {
        self.failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n")
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "t: went through · s: stopped with a next step, then went through · -: could not strike"
        )?;
        for (index, name) in self.names.iter().enumerate() {
            writeln!(f, "{:>3} {name}", index + 1)?;
        }
        let numbers: String = (1..=self.names.len()).map(|number| format!("{number:>3}")).collect();
        writeln!(f, "{:<52}{numbers}", "")?;
        for kind in self.kinds() {
            let cell = |name: &&'static str| {
                self.cells.get(&(kind.to_owned(), *name)).copied().unwrap_or_default().letter()
            };
            let row: String = self.names.iter().map(|name| format!("  {}", cell(name))).collect();
            writeln!(f, "{kind:<52}{row}")?;
        }
        for mishap in faults::all() {
            let missed: usize = self
                .cells
                .iter()
                .filter(|((_, name), _)| *name == mishap.name)
                .map(|(_, cell)| cell.missed)
                .sum();
            if let (1.., Some(why)) = (missed, why_it_may_miss(&mishap.fault)) {
                writeln!(f, "{}: {missed} runs not counted: {why}", mishap.name)?;
            }
        }
        let Cell { missed, through, stopped, failed } = self.total;
        writeln!(
            f,
            "{through} went through, {stopped} stopped with a next step ({} of them left a volume and said so), \
             {missed} could not strike, {failed} failed",
            self.volumes_left
        )?;
        for failure in &self.failures {
            writeln!(f, "failed: {}", failure.lines().take(3).collect::<Vec<_>>().join(" | "))?;
        }
        Ok(())
    }
}
