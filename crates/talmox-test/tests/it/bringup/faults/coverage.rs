//! Which fault hit which call, and what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::cases::Case;
use super::mishaps::{self, Layer};
use super::run::Ended;

/// What became of a fault at a kind of call, over all bring-ups and both the first and the last such call.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
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
            Self { .. } => ' ',
        }
    }

    fn add(&mut self, ended: &Ended) {
        match ended {
            Ended::Through => self.through += 1,
            Ended::Stopped => self.stopped += 1,
            Ended::Failed(_) => self.failed += 1,
        }
    }
}

#[derive(Default)]
pub(crate) struct Coverage {
    cells: BTreeMap<(Layer, String, String), Cell>,
    total: Cell,
    failures: Vec<(Layer, String)>,
}

impl Coverage {
    pub(crate) fn of(cases: &[Case], ended: &[Ended]) -> Self {
        let mut coverage = Self::default();
        for (case, ended) in cases.iter().zip(ended) {
            let key = (case.layer, case.kind.clone(), case.mishap.name.clone());
            coverage.cells.entry(key).or_default().add(ended);
            coverage.total.add(ended);
            if let Ended::Failed(words) = ended {
                coverage.failures.push((case.layer, format!("{}\n{words}", case.name())));
            }
        }
        coverage
    }

    fn kinds(&self, layer: Layer) -> BTreeSet<&str> {
        self.of_layer(layer).map(|(kind, _)| kind).collect()
    }

    fn of_layer(&self, layer: Layer) -> impl Iterator<Item = (&str, &str)> {
        let own = self.cells.keys().filter(move |(of, _, _)| *of == layer);
        own.map(|(_, kind, name)| (kind.as_str(), name.as_str()))
    }

    pub(crate) fn calls(&self, layer: Layer) -> usize {
        self.kinds(layer).len()
    }

    pub(crate) fn faults(&self, layer: Layer) -> usize {
        self.of_layer(layer).map(|(_, name)| name).collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn failures(&self) -> usize {
        self.failures.len()
    }

    pub(crate) fn failures_of(&self, layer: Layer) -> usize {
        self.failures.iter().filter(|(of, _)| *of == layer).count()
    }

    /// The first few, whole: logs are long.
    pub(crate) fn told_failures(&self) -> String {
        let told = self.failures.iter().take(5).map(|(_, words)| words.as_str());
        told.collect::<Vec<_>>().join("\n\n")
    }

    fn table(&self, layer: Layer, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = mishaps::once(layer).into_iter().chain(mishaps::lasting(layer));
        let names: Vec<String> = all.map(|mishap| mishap.name).collect();
        for (index, name) in names.iter().enumerate() {
            writeln!(f, "{:>3} {name}", index + 1)?;
        }
        let numbers: String = (1..=names.len()).map(|number| format!("{number:>3}")).collect();
        writeln!(f, "{:<78}{numbers}", layer.name())?;
        for kind in self.kinds(layer) {
            let cell = |name: &String| {
                let key = (layer, kind.to_owned(), name.clone());
                self.cells.get(&key).copied().unwrap_or_default().letter()
            };
            let row: String = names.iter().map(|name| format!("  {}", cell(name))).collect();
            writeln!(f, "{kind:<78}{row}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "t: went through · s: stopped with a next step, then went through")?;
        self.table(Layer::Talos, f)?;
        self.table(Layer::Kubernetes, f)?;
        let Cell { through, stopped, failed } = self.total;
        writeln!(f, "{through} went through, {stopped} stopped with a next step, {failed} failed")?;
        for (_, failure) in &self.failures {
            writeln!(f, "failed: {}", failure.lines().take(3).collect::<Vec<_>>().join(" | "))?;
        }
        Ok(())
    }
}
