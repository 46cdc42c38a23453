//! From two configs to the patches that lead from one to the other.
//!
//! ```text
//!  base ─┐                       ┌─ removed: what has to go       ┐
//!        ├─ compare ─▶ Between ──▶│                                ├─ applied to base: wanted
//!  wanted┘    steps, by place    └─ set: what is merged over it   ┘
//! ```
//!
//! A merge never unsets and appends to lists, so what a step has to be follows from the type of the field. What several
//! changes have in common is a change itself: shared by all, it goes into a patch for all of them.

mod compare;
mod write;

use crate::document::{Config, Document};
use crate::patch::PatchError;
use crate::print::print;
use crate::schema::Kind;
use crate::value::{Map, Value};

pub use write::Hide;

/// What leads from one config to another. It may hold secrets, so `Debug` counts.
#[derive(Clone, Default)]
pub struct Between {
    steps: Vec<Step>,
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Between").field("steps", &self.steps.len()).finish()
    }
}

/// A place, and what is done there.
#[derive(Clone)]
struct Step {
    kind: &'static Kind,
    name: Option<String>,
    /// Keys of structures and mappings; empty for the document itself.
    path: Vec<String>,
    deed: Deed,
}

#[derive(Clone, PartialEq)]
enum Deed {
    /// The document or field has to go.
    Remove,
    /// Merged over what is there.
    Set(Value),
    /// Items at the end of a list.
    Append(Vec<Value>),
    /// Taken out, and written anew.
    Replace(Value),
}

impl Step {
    fn is_at(&self, other: &Self) -> bool {
        self.kind.name == other.kind.name && self.name == other.name && self.path == other.path
    }
}

impl Config {
    /// What leads from this config to another. What no patch can say is left out: apply it and compare.
    pub fn change_to(&self, wanted: &Self) -> Between {
        let mut steps = Vec::new();
        for base in self.documents() {
            match wanted.documents().iter().find(|one| one.id() == base.id()) {
                None => steps.push(step(base, Deed::Remove)),
                Some(wanted) if wanted == base => {}
                Some(wanted) => steps.extend(compare::document(base, wanted)),
            }
        }
        for added in wanted.documents() {
            if !self.documents().iter().any(|one| one.id() == added.id()) {
                steps.push(step(added, Deed::Set(Value::Map(write::said(&added.body, added.kind.body)))));
            }
        }
        Between { steps }
    }
}

/// What is done to a whole document.
fn step(document: &Document, deed: Deed) -> Step {
    Step { kind: document.kind, name: document.name().map(str::to_owned), path: Vec::new(), deed }
}

impl Between {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many places it touches.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// What all of them do; of items that each appends to a list, those all begin with.
    pub fn shared<'a>(mut changes: impl Iterator<Item = &'a Self>) -> Self {
        let Some(first) = changes.next() else { return Self::default() };
        let mut steps = first.steps.clone();
        for other in changes {
            steps.retain_mut(|step| {
                let found = other.steps.iter().find(|one| one.is_at(step));
                found.is_some_and(|found| narrow(&mut step.deed, &found.deed))
            });
        }
        Self { steps }
    }
}

impl Between {
    /// The config it leads to, from one it is for.
    pub fn apply(&self, config: Config) -> Result<Config, PatchError> {
        let patches = self.patches("the change").map_err(PatchError::Config)?;
        let done = crate::patch::apply(config, "the base", &patches)?;
        done.into_config("the base").map_err(PatchError::Config)
    }

    /// The same without steps that have one of these words in what they write, or in the name of their document.
    #[must_use]
    pub fn without(mut self, words: &[String]) -> Self {
        self.steps.retain(|step| {
            let value = match &step.deed {
                Deed::Remove => String::new(),
                Deed::Set(value) | Deed::Replace(value) => print(value),
                Deed::Append(items) => print(&Value::List(items.clone())),
            };
            let name = step.name.as_deref().unwrap_or_default();
            !words.iter().any(|word| value.contains(word.as_str()) || name.contains(word.as_str()))
        });
        self
    }
}

/// Reduces a deed to what another does too; false if that is nothing.
fn narrow(deed: &mut Deed, other: &Deed) -> bool {
    if let (Deed::Append(items), Deed::Append(others)) = (&mut *deed, other) {
        let common = items.iter().zip(others).take_while(|(one, other)| one == other).count();
        items.truncate(common);
        return common > 0;
    }
    deed == other
}

/// Sets what a path leads to, with the mappings on the way there.
fn put(map: &mut Map, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else { return };
    if rest.is_empty() {
        map.set(first.as_str(), value);
        return;
    }
    if !matches!(map.get(first), Some(Value::Map(_))) {
        map.set(first.as_str(), Map::new());
    }
    if let Some(Value::Map(inner)) = map.get_mut(first) {
        put(inner, rest, value);
    }
}
