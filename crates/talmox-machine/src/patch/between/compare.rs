//! What has to be done to a document so that it says what another does.

use super::write::said_value;
use super::{Deed, Step, step};
use crate::document::Document;
use crate::fault::Trail;
use crate::patch::merge;
use crate::read::is_zero;
use crate::schema::{Field, Struct, Type};
use crate::value::{Map, Value};
use crate::view;

/// The steps from one document to another of the same name.
pub(super) fn document(base: &Document, wanted: &Document) -> Vec<Step> {
    let mut walk = Walk { found: Vec::new() };
    walk.structure(&base.body, &wanted.body, base.kind.body, &mut Vec::new());
    let mut steps: Vec<Step> =
        walk.found.into_iter().map(|(path, deed)| Step { path, ..step(base, deed) }).collect();
    if steps.iter().any(|step| step.deed != Deed::Remove) {
        repeat(base, wanted, &mut steps);
    }
    // Merged field by field it may not come out right; a document of its own can be taken out and written anew.
    if !base.kind.name.is_empty() && !leads_to(base, wanted, &steps) {
        let body = super::write::said(&wanted.body, wanted.kind.body);
        return vec![step(base, Deed::Replace(Value::Map(body)))];
    }
    steps
}

fn leads_to(base: &Document, wanted: &Document, steps: &[Step]) -> bool {
    let Ok(config) = crate::Config::from_documents(vec![base.clone()]) else { return false };
    let made = super::Between { steps: steps.to_vec() }.apply(config);
    made.is_ok_and(|config| config.documents() == [wanted.clone()])
}

/// Wherever something is merged, Talos resets what it copies whether a patch has it or not; so that is said again.
fn repeat(base: &Document, wanted: &Document, steps: &mut Vec<Step>) {
    let mut merged = Map::new();
    for step in steps.iter() {
        if let Deed::Set(value) | Deed::Replace(value) = &step.deed {
            super::put(&mut merged, &step.path, value.clone());
        }
        if let Deed::Append(items) = &step.deed {
            super::put(&mut merged, &step.path, Value::List(items.clone()));
        }
    }
    let mut again = Vec::new();
    copied(&merged, &base.body, &wanted.body, base.kind.body, &mut Vec::new(), &mut again);
    steps.extend(again.into_iter().map(|(path, value)| Step { path, ..step(base, Deed::Set(value)) }));
}

/// Fields of the structures a merge visits that it would reset.
fn copied(
    merged: &Map,
    base: &Map,
    wanted: &Map,
    known: &Struct,
    path: &mut Vec<String>,
    out: &mut Vec<(Vec<String>, Value)>,
) {
    let nothing = Map::new();
    for field in known.fields {
        let Some(value) = wanted.get(field.name) else { continue };
        path.push(field.name.to_owned());
        match (&field.kind, value) {
            (Type::Expression | Type::ByteSize | Type::Bool, value)
                if !field.pointer && !merged.contains(field.name) =>
            {
                out.push((path.clone(), value.clone()));
            }
            (Type::Struct(inner), Value::Map(value)) if !inner.whole => {
                let before = base.get(field.name).and_then(Value::as_map);
                let said = merged.get(field.name).and_then(Value::as_map);
                let visited = said.is_some() || (!field.pointer && before.is_some());
                // What was not there before is written as a whole.
                if let Some(before) = before.filter(|_| visited) {
                    copied(said.unwrap_or(&nothing), before, value, inner, path, out);
                }
            }
            _ => {}
        }
        path.pop();
    }
}

struct Walk {
    found: Vec<(Vec<String>, Deed)>,
}

impl Walk {
    fn add(&mut self, path: &[String], deed: Deed) {
        self.found.push((path.to_vec(), deed));
    }

    fn structure(&mut self, base: &Map, wanted: &Map, known: &Struct, path: &mut Vec<String>) {
        for field in known.fields {
            let (before, after) = (base.get(field.name), wanted.get(field.name));
            if view::shown(before, field) == view::shown(after, field) {
                continue;
            }
            path.push(field.name.to_owned());
            self.field(before, after, field, path);
            path.pop();
        }
    }

    fn field(
        &mut self,
        before: Option<&Value>,
        after: Option<&Value>,
        field: &Field,
        path: &mut Vec<String>,
    ) {
        let after = after.filter(|value| field.pointer || field.replaced || !says_nothing(value));
        match (before, after) {
            (None, None) => {}
            (Some(_), None) => self.add(path, Deed::Remove),
            (_, Some(after)) if field.replaced => {
                self.add(path, Deed::Set(said_value(after, &field.kind)));
            }
            (before, Some(after)) => self.value(before, after, &field.kind, true, path),
        }
    }

    /// `zero_counts`: whether a merge takes an empty text or a zero for a value there.
    fn value(
        &mut self,
        before: Option<&Value>,
        after: &Value,
        kind: &Type,
        zero_counts: bool,
        path: &mut Vec<String>,
    ) {
        let nothing = Map::new();
        let (left, right) = match before {
            None => (Some(&nothing), after.as_map().filter(|map| !map.is_empty())),
            Some(before) => (before.as_map(), after.as_map()),
        };
        match (left, right, kind) {
            (Some(left), Some(right), Type::Struct(known)) if !known.whole => {
                let count = self.found.len();
                self.structure(left, right, known, path);
                // Present, though nothing in it is worth a word.
                if before.is_none() && self.found.len() == count {
                    self.add(path, Deed::Set(Value::Map(Map::new())));
                }
            }
            (Some(left), Some(right), Type::Map(inner)) => {
                self.mapping(left, right, path, |walk, before, after, path| {
                    walk.value(before, after, inner, before.is_none(), path);
                });
            }
            (Some(left), Some(right), Type::Object) => {
                self.mapping(left, right, path, Self::free);
            }
            (Some(left), Some(right), Type::Arguments) => {
                self.mapping(left, right, path, |walk, _, after, path| {
                    walk.add(path, Deed::Set(after.clone()));
                });
            }
            _ => self.leaf(before, after, kind, zero_counts, path),
        }
    }

    fn mapping(
        &mut self,
        before: &Map,
        after: &Map,
        path: &mut Vec<String>,
        mut differs: impl FnMut(&mut Self, Option<&Value>, &Value, &mut Vec<String>),
    ) {
        for key in before.keys().filter(|key| !after.contains(key)) {
            path.push(key.to_owned());
            self.add(path, Deed::Remove);
            path.pop();
        }
        for (key, value) in after.iter() {
            if before.get(key) == Some(value) {
                continue;
            }
            path.push(key.to_owned());
            differs(self, before.get(key), value, path);
            path.pop();
        }
    }

    fn free(&mut self, before: Option<&Value>, after: &Value, path: &mut Vec<String>) {
        match (before, after) {
            (Some(Value::Map(before)), Value::Map(after)) => {
                self.mapping(before, after, path, Self::free);
            }
            (_, Value::Null) => {}
            (None | Some(Value::Null), after) => self.add(path, Deed::Set(after.clone())),
            (Some(before), after) => {
                let mut merged = before.clone();
                let fits = merge::merge_free(&mut merged, after, &Trail::default()).is_ok();
                let deed = if fits && merged == *after {
                    Deed::Set(after.clone())
                } else if let Some(more) = more_of(before, after) {
                    Deed::Append(more)
                } else {
                    Deed::Replace(after.clone())
                };
                self.add(path, deed);
            }
        }
    }

    fn leaf(
        &mut self,
        before: Option<&Value>,
        after: &Value,
        kind: &Type,
        zero_counts: bool,
        path: &[String],
    ) {
        let said = said_value(after, kind);
        let Some(before) = before else {
            let items = said.as_list().filter(|items| !items.is_empty()).map(<[Value]>::to_vec);
            return self.add(path, items.map_or(Deed::Set(said), Deed::Append));
        };
        let comes_to = |patch: &Value| {
            let mut merged = before.clone();
            let fits = merge::merge_value(&mut merged, patch, kind, zero_counts, &Trail::default());
            fits.is_ok() && merged == *after
        };
        let more = more_of(before, &said).filter(|more| comes_to(&Value::List(more.clone())));
        let deed = match more {
            Some(more) => Deed::Append(more),
            None if !matches!(said, Value::List(_)) && comes_to(&said) && !is_unsaid(&said, kind) => {
                Deed::Set(said)
            }
            None => Deed::Replace(said),
        };
        self.add(path, deed);
    }
}

/// What a reader would take for nothing in a mapping that has the key.
fn is_unsaid(value: &Value, kind: &Type) -> bool {
    !matches!(value, Value::Bool(_)) && is_zero(value, kind)
}

/// An empty list or mapping, which a merge adds nothing by.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Null => true,
        Value::Bool(_)
        | Value::Integer(_)
        | Value::Octal(_)
        | Value::Float(_)
        | Value::Text(_)
        | Value::Map(_) => false,
    }
}

/// The items a list has beyond those of another it begins with.
fn more_of(before: &Value, after: &Value) -> Option<Vec<Value>> {
    let (before, after) = (before.as_list()?, after.as_list()?);
    let rest = after.strip_prefix(before)?;
    (!rest.is_empty()).then(|| rest.to_vec())
}
