//! What is wrong with a text, and where.

use std::fmt;

use talmox_yaml::{Entry, Node, NodeKind, Span};

/// A text with the name its places are reported under: a file, or where in a file it was written.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    pub(crate) fn place(&self, span: Span, path: &Path) -> Place {
        // What was made rather than written has no lines.
        if self.text.is_empty() {
            return Place { source: self.name.to_owned(), line: 0, column: 0, path: path.to_string() };
        }
        let start = (span.start as usize).min(self.text.len());
        let before = &self.text.as_bytes()[..start];
        let line = before.split(|byte| *byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Place { source: self.name.to_owned(), line, column, path: path.to_string() }
    }
}

/// A place in a text, and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub source: String,
    /// Counted from 1; 0 if it is no text with lines.
    pub line: usize,
    pub column: usize,
    /// `machine.network.interfaces[0]`; empty for a whole document.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, ": {}", self.path) }
    }
}

/// Something that is wrong. It never repeats a value: any value may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub place: Place,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// How many faults of one text are told with their places. A text of a few MiB can have a million.
pub(crate) const MOST_FAULTS: usize = 100;

/// Adds a fault, or counts it: `more` is how many were only counted, and the last fault says so.
pub(crate) fn add(faults: &mut Vec<Fault>, more: &mut usize, fault: impl FnOnce() -> Fault) {
    if faults.len() < MOST_FAULTS {
        faults.push(fault());
        return;
    }
    *more += 1;
    let message = format!("{more} more mistakes are not shown");
    match faults.get_mut(MOST_FAULTS) {
        Some(last) => last.message = message,
        None => {
            let source = faults.first().map(|first| first.place.source.clone()).unwrap_or_default();
            faults.push(Fault { place: Place { source, line: 0, column: 0, path: String::new() }, message });
        }
    }
}

/// Everything that is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(.0))]
pub struct Faults(pub Vec<Fault>);

fn list(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

/// Keys and positions that lead to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Path(pub Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Item(usize),
}

impl Path {
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Key(key.to_owned()));
        Self(steps)
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        let mut steps = self.0.clone();
        steps.push(Step::Item(index));
        Self(steps)
    }

    /// The node the path leads to, or the last one on the way there.
    pub(crate) fn find<'a>(&self, root: &'a Node) -> &'a Node {
        let mut node = root;
        for step in &self.0 {
            let next = match (step, &node.kind) {
                (Step::Key(key), NodeKind::Mapping(entries)) => {
                    entries.iter().find(|entry| is_key(entry, key)).map(|entry| &entry.value)
                }
                (Step::Item(index), NodeKind::Sequence(items)) => items.get(*index),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }
}

/// A path on the way along a tree. Every step knows the one before it, and nothing is copied until there is something to
/// report: walks pass thousands of fields, and hardly ever report one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trail<'a>(Option<(&'a Trail<'a>, Mark<'a>)>);

#[derive(Clone, Copy, Debug)]
enum Mark<'a> {
    Key(&'a str),
    Item(usize),
}

impl Trail<'_> {
    pub(crate) fn key<'a>(&'a self, key: &'a str) -> Trail<'a> {
        Trail(Some((self, Mark::Key(key))))
    }

    pub(crate) fn item(&self, index: usize) -> Trail<'_> {
        Trail(Some((self, Mark::Item(index))))
    }

    pub(crate) fn to_path(self) -> Path {
        let mut steps = Vec::new();
        let mut trail = &self;
        while let Some((before, mark)) = &trail.0 {
            steps.push(match mark {
                Mark::Key(key) => Step::Key((*key).to_owned()),
                Mark::Item(index) => Step::Item(*index),
            });
            trail = before;
        }
        steps.reverse();
        Path(steps)
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_path().fmt(f)
    }
}

fn is_key(entry: &Entry, key: &str) -> bool {
    entry.key.as_scalar().is_some_and(|scalar| scalar.text == key)
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if index == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Item(item) => write!(f, "[{item}]")?,
            }
        }
        Ok(())
    }
}
