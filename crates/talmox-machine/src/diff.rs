//! What differs between two configs, field by field, with secrets masked.

use crate::document::{Config, Document};
use crate::fault::Trail;
use crate::print::print;
use crate::value::{Map, Value};

/// A field that differs. Nothing stands for a field that is not there; a secret is masked, so both sides of a secret that
/// changed look the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The document, by kind and name.
    pub document: String,
    /// Where in it; empty for all of it.
    pub path: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Config {
    /// What would change if `after` took the place of this config.
    pub fn differences(&self, after: &Self) -> Vec<Difference> {
        let mut differences = Vec::new();
        for before in self.documents() {
            let counterpart = after.documents().iter().find(|one| one.id() == before.id());
            compare(&before.id().to_string(), Some(before), counterpart, &mut differences);
        }
        for added in after.documents() {
            if !self.documents().iter().any(|one| one.id() == added.id()) {
                compare(&added.id().to_string(), None, Some(added), &mut differences);
            }
        }
        differences
    }
}

/// A value, and what may be shown of it. Masking keeps the shape, so both are walked side by side.
#[derive(Clone, Copy)]
struct Shown<'a> {
    value: &'a Value,
    masked: &'a Value,
}

fn compare(name: &str, before: Option<&Document>, after: Option<&Document>, out: &mut Vec<Difference>) {
    let both = |document: &Document| {
        (document.to_value().without_nulls(), document.redacted().to_value().without_nulls())
    };
    let (before, after) = (before.map(both), after.map(both));
    walk(
        name,
        &Trail::default(),
        before.as_ref().map(|(value, masked)| Shown { value, masked }),
        after.as_ref().map(|(value, masked)| Shown { value, masked }),
        out,
    );
}

fn walk(
    name: &str,
    path: &Trail<'_>,
    before: Option<Shown<'_>>,
    after: Option<Shown<'_>>,
    out: &mut Vec<Difference>,
) {
    if before.map(|one| one.value) == after.map(|one| one.value) {
        return;
    }
    match (before, after) {
        (
            Some(Shown { value: Value::Map(before), masked: Value::Map(before_masked) }),
            Some(Shown { value: Value::Map(after), masked: Value::Map(after_masked) }),
        ) => {
            let added = after.keys().filter(|key| !before.contains(key));
            for key in before.keys().chain(added) {
                walk(
                    name,
                    &path.key(key),
                    entry(before, before_masked, key),
                    entry(after, after_masked, key),
                    out,
                );
            }
        }
        (
            Some(Shown { value: Value::List(before), masked: Value::List(before_masked) }),
            Some(Shown { value: Value::List(after), masked: Value::List(after_masked) }),
        ) => {
            for index in 0..before.len().max(after.len()) {
                let old = item(before, before_masked, index);
                walk(name, &path.item(index), old, item(after, after_masked, index), out);
            }
        }
        (before, after) => out.push(Difference {
            document: name.to_owned(),
            path: path.to_string(),
            before: before.map(|one| show(one.masked)),
            after: after.map(|one| show(one.masked)),
        }),
    }
}

fn entry<'a>(value: &'a Map, masked: &'a Map, key: &str) -> Option<Shown<'a>> {
    Some(Shown { value: value.get(key)?, masked: masked.get(key)? })
}

fn item<'a>(value: &'a [Value], masked: &'a [Value], index: usize) -> Option<Shown<'a>> {
    Some(Shown { value: value.get(index)?, masked: masked.get(index)? })
}

fn show(value: &Value) -> String {
    value.as_text().map_or_else(|| print(value).trim_end().to_owned(), str::to_owned)
}
