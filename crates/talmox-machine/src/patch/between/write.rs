//! A change as the documents of patches.

use super::{Between, Deed, Step, put};
use crate::fault::Faults;
use crate::patch::Patch;
use crate::print::print;
use crate::schema::{API_VERSION, Kind, Struct, Type};
use crate::value::{Map, Value};

/// Says what stands in a patch where a secret would; it is told the place and the secret.
pub type Hide<'a> = dyn FnMut(&str, &str) -> String + 'a;

/// A document of a patch.
struct Written {
    kind: &'static Kind,
    name: Option<String>,
    body: Map,
}

impl Between {
    /// What has to go, as the text of a patch; none if nothing has.
    pub fn removed(&self) -> Option<String> {
        text(&self.removals())
    }

    /// What is merged, as the text of a patch, with everything the tables call secret hidden; none if nothing is.
    pub fn set(&self, hide: &mut Hide<'_>) -> Option<String> {
        let mut documents = self.merges();
        for document in &mut documents {
            let place = [document.kind.name, document.name.as_deref().unwrap_or_default()].join(" ");
            conceal(&mut document.body, document.kind.body, place.trim(), hide);
        }
        text(&documents)
    }

    /// Both as patches. They hold secrets.
    pub(super) fn patches(&self, name: &str) -> Result<Vec<Patch>, Faults> {
        let parts = [self.removals(), self.merges()];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let values = |part: Vec<Written>| part.iter().map(Written::to_value).collect();
        parts.map(|part| Patch::from_values(name, values(part))).collect()
    }

    fn removals(&self) -> Vec<Written> {
        let mut documents = Vec::new();
        let gone = || Value::Map(Map::new().with("$patch", "delete"));
        for step in &self.steps {
            if matches!(step.deed, Deed::Remove | Deed::Replace(_)) {
                let document = document_of(&mut documents, step);
                if step.path.is_empty() {
                    document.body.set("$patch", "delete");
                } else {
                    put(&mut document.body, &step.path, gone());
                }
            }
        }
        documents
    }

    fn merges(&self) -> Vec<Written> {
        let mut documents = Vec::new();
        for step in &self.steps {
            let value = match &step.deed {
                Deed::Remove => continue,
                Deed::Set(value) | Deed::Replace(value) => value.clone(),
                Deed::Append(items) => Value::List(items.clone()),
            };
            let document = document_of(&mut documents, step);
            match (step.path.is_empty(), value) {
                (true, Value::Map(body)) => document.body = body,
                (_, value) => put(&mut document.body, &step.path, value),
            }
        }
        documents
    }
}

fn document_of<'d>(documents: &'d mut Vec<Written>, step: &Step) -> &'d mut Written {
    let known = documents.iter().position(|one| one.kind.name == step.kind.name && one.name == step.name);
    let at = known.unwrap_or_else(|| {
        documents.push(Written { kind: step.kind, name: step.name.clone(), body: Map::new() });
        documents.len() - 1
    });
    &mut documents[at]
}

impl Written {
    fn to_value(&self) -> Value {
        let mut whole = Map::new();
        if !self.kind.name.is_empty() {
            whole = whole.with("apiVersion", API_VERSION).with("kind", self.kind.name);
        }
        if let Some(name) = &self.name {
            whole.set("name", name.as_str());
        }
        // By one of these it is known for what it is.
        let known = ["machine", "cluster", "debug", "persist"].iter().any(|key| self.body.contains(key));
        if self.kind.name.is_empty() && !known {
            whole.set("machine", Map::new());
        }
        let rest = self.body.iter().filter(|(key, _)| self.name.is_none() || *key != "name");
        Value::Map(rest.fold(whole, |whole, (key, value)| whole.with(key, value.clone())))
    }
}

fn text(documents: &[Written]) -> Option<String> {
    let texts: Vec<String> = documents.iter().map(|document| print(&document.to_value())).collect();
    (!texts.is_empty()).then(|| texts.join("---\n"))
}

/// What a structure says that a patch can say: without empty lists and texts, which add nothing.
pub(super) fn said(map: &Map, known: &Struct) -> Map {
    if known.whole {
        return map.clone();
    }
    let mut out = Map::new();
    for field in known.fields {
        let Some(value) = map.get(field.name) else { continue };
        let empty = match value {
            Value::Null => true,
            Value::List(items) => items.is_empty() && !field.replaced,
            Value::Text(text) => text.is_empty() && !field.pointer,
            Value::Bool(_) | Value::Integer(_) | Value::Octal(_) | Value::Float(_) | Value::Map(_) => false,
        };
        if !empty {
            out.set(field.name, said_value(value, &field.kind));
        }
    }
    out
}

pub(super) fn said_value(value: &Value, kind: &Type) -> Value {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => Value::Map(said(map, known)),
        (Value::List(items), Type::List(kind)) => {
            Value::List(items.iter().map(|item| said_value(item, kind)).collect())
        }
        (Value::List(items), Type::Keyed(known, _)) => {
            Value::List(items.iter().map(|item| said_value(item, &Type::Struct(known))).collect())
        }
        (Value::Map(map), Type::Map(kind)) => {
            Value::Map(map.iter().map(|(key, value)| (key.to_owned(), said_value(value, kind))).collect())
        }
        (value, _) => value.clone(),
    }
}

fn conceal(map: &mut Map, known: &Struct, place: &str, hide: &mut Hide<'_>) {
    for field in known.fields {
        let Some(value) = map.get_mut(field.name) else { continue };
        let place = format!("{place} {}", field.name);
        let place = place.trim_start();
        if field.secret { mask(value, place, hide) } else { conceal_value(value, &field.kind, place, hide) }
    }
}

fn conceal_value(value: &mut Value, kind: &Type, place: &str, hide: &mut Hide<'_>) {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => conceal(map, known, place, hide),
        (Value::Map(map), Type::Map(kind)) => {
            for (key, value) in map.entries_mut() {
                conceal_value(value, kind, &format!("{place} {key}"), hide);
            }
        }
        (Value::List(items), Type::List(kind)) => {
            for item in items {
                conceal_value(item, kind, place, hide);
            }
        }
        (Value::List(items), Type::Keyed(known, _)) => {
            for item in items {
                conceal_value(item, &Type::Struct(known), place, hide);
            }
        }
        _ => {}
    }
}

fn mask(value: &mut Value, place: &str, hide: &mut Hide<'_>) {
    match value {
        Value::Map(map) => {
            for (key, value) in map.entries_mut() {
                mask(value, &format!("{place} {key}"), hide);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| mask(item, place, hide)),
        Value::Text(text) if !text.is_empty() => *text = hide(place, text),
        Value::Text(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Octal(_)
        | Value::Float(_) => {}
    }
}
