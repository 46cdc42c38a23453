//! What differs between two configs, field by field, with secrets masked.

use crate::document::{Config, Document, Id};
use crate::fault::Trail;
use crate::hidden::Hidden;
use crate::mask::{CoveredKeys, Mark, Mask, shown};
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
        self.differences_without(after, &Hidden::default())
    }

    /// The same with texts that are hidden masked wherever they stand.
    pub fn differences_without(&self, after: &Self, hidden: &Hidden) -> Vec<Difference> {
        let mark = after.secret().or_else(|| self.secret()).map(Mark::new);
        let mut comparison =
            Comparison { mask: Mask::Guarded { hidden, mark: mark.as_ref() }, found: Vec::new() };
        for before in self.documents() {
            let counterpart = after.documents().iter().find(|one| one.id() == before.id());
            comparison.compare(before.id(), Some(before), counterpart);
        }
        for added in after.documents() {
            if !self.documents().iter().any(|one| one.id() == added.id()) {
                comparison.compare(added.id(), None, Some(added));
            }
        }
        comparison.found
    }

    /// A secret that all machines of a cluster have.
    fn secret(&self) -> Option<&str> {
        let identity = || self.document("DiscoveryIdentityConfig")?.at(&["clusterSecret"]);
        let secret = self.at(&["cluster", "secret"]).or_else(identity)?.as_text()?;
        Some(secret).filter(|secret| !secret.is_empty())
    }
}

struct Comparison<'a> {
    mask: Mask<'a>,
    found: Vec<Difference>,
}

/// A value, and what may be shown of it. Masking keeps the shape, so both are walked side by side.
#[derive(Clone, Copy)]
struct Shown<'a> {
    value: &'a Value,
    masked: &'a Value,
}

impl Shown<'_> {
    fn is_masked(&self) -> bool {
        self.value != self.masked
    }
}

/// Where in a document, and whether what stands beside it is masked.
struct Place<'a> {
    document: &'a str,
    path: Trail<'a>,
    beside_masked: bool,
    keys: &'a CoveredKeys,
}

impl Comparison<'_> {
    fn compare(&mut self, id: Id<'_>, before: Option<&Document>, after: Option<&Document>) {
        let name = id.name.map(|name| self.mask.name(name));
        let name = Id { kind: id.kind, name: name.as_deref() }.to_string();
        let keys = |document: Option<&Document>| {
            document.map(|document| document.covered_keys(&self.mask)).unwrap_or_default()
        };
        let keys = keys(before).and(keys(after));
        let both = |document: &Document| {
            let masked = document.masked(&self.mask);
            (document.to_value().without_nulls(), masked.to_value().without_nulls())
        };
        let (before, after) = (before.map(both), after.map(both));
        let place = Place { document: &name, path: Trail::default(), beside_masked: false, keys: &keys };
        self.walk(
            &place,
            before.as_ref().map(|(value, masked)| Shown { value, masked }),
            after.as_ref().map(|(value, masked)| Shown { value, masked }),
        );
    }

    fn walk(&mut self, place: &Place<'_>, before: Option<Shown<'_>>, after: Option<Shown<'_>>) {
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
                    let at = Place { path: place.path.key(place.keys.shown(key)), ..*place };
                    self.walk(&at, entry(before, before_masked, key), entry(after, after_masked, key));
                }
            }
            (
                Some(Shown { value: Value::List(before), masked: Value::List(before_masked) }),
                Some(Shown { value: Value::List(after), masked: Value::List(after_masked) }),
            ) => {
                // Items move when others come and go, and what one was before is then found beside another.
                let beside_masked = place.beside_masked
                    || has_masked_leaf(before, before_masked)
                    || has_masked_leaf(after, after_masked);
                for index in 0..before.len().max(after.len()) {
                    let at = Place { path: place.path.item(index), beside_masked, ..*place };
                    self.walk(&at, item(before, before_masked, index), item(after, after_masked, index));
                }
            }
            (before, after) => self.tell(place, before, after),
        }
    }

    fn tell(&mut self, place: &Place<'_>, before: Option<Shown<'_>>, after: Option<Shown<'_>>) {
        // What a secret takes the place of was one too, and nobody else says so.
        let masked = |one: &Option<Shown<'_>>| one.as_ref().is_some_and(Shown::is_masked);
        let whole = before.is_some() && after.is_some() && masked(&before) != masked(&after);
        let show = |one: Shown<'_>| {
            let mut value = one.masked.clone();
            if (whole || place.beside_masked) && !one.is_masked() {
                value = one.value.clone();
                self.mask.whole(&mut value);
            }
            place.keys.rename(&mut value);
            shown(&value)
        };
        let (before, after) = (before.map(show), after.map(show));
        let (document, path) = (place.document.to_owned(), place.path.to_string());
        self.found.push(Difference { document, path, before, after });
    }
}

fn has_masked_leaf(values: &[Value], masked: &[Value]) -> bool {
    let is_leaf = |value: &Value| value.as_map().is_none() && value.as_list().is_none();
    values.iter().zip(masked).any(|(value, masked)| is_leaf(value) && value != masked)
}

fn entry<'a>(value: &'a Map, masked: &'a Map, key: &str) -> Option<Shown<'a>> {
    Some(Shown { value: value.get(key)?, masked: masked.get(key)? })
}

fn item<'a>(value: &'a [Value], masked: &'a [Value], index: usize) -> Option<Shown<'a>> {
    Some(Shown { value: value.get(index)?, masked: masked.get(index)? })
}
