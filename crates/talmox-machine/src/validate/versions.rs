//! Documents and fields a version of Talos does not know yet: it refuses what it cannot decode.

use super::Checker;
use crate::document::Document;
use crate::fault::Trail;
use crate::schema::{Choice, Struct, Type};
use crate::value::{Map, Value};

pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        let kind = document.kind;
        if checker.since(kind.since) {
            structure(checker, document, &document.body, kind.body, &Trail::default());
        } else {
            let message =
                format!("Talos {} does not know this document, 1.{} does", checker.talos, kind.since);
            checker.error(document, "", message);
        }
    }
}

fn structure(checker: &mut Checker<'_>, document: &Document, map: &Map, known: &Struct, path: &Trail<'_>) {
    for (key, value) in map.iter() {
        let Some(field) = known.field(key) else { continue };
        let path = path.key(key);
        if checker.since(field.since) {
            descend(checker, document, value, &field.kind, &path);
        } else {
            let message = format!("Talos {} does not know this field, 1.{} does", checker.talos, field.since);
            checker.error(document, path.to_string(), message);
        }
    }
}

fn descend(checker: &mut Checker<'_>, document: &Document, value: &Value, kind: &Type, path: &Trail<'_>) {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => structure(checker, document, map, known, path),
        (Value::Map(map), Type::Map(kind)) => {
            for (key, value) in map.iter() {
                descend(checker, document, value, kind, &path.key(key));
            }
        }
        (Value::List(items), Type::List(kind)) => {
            for (index, item) in items.iter().enumerate() {
                descend(checker, document, item, kind, &path.item(index));
            }
        }
        (Value::List(items), Type::Keyed(known, _)) => {
            for (index, item) in items.iter().enumerate() {
                descend(checker, document, item, &Type::Struct(known), &path.item(index));
            }
        }
        (Value::Text(name), Type::Choice(_)) if !checker.since(Choice::since(name)) => {
            let message =
                format!("Talos {} does not know this value, 1.{} does", checker.talos, Choice::since(name));
            checker.error(document, path.to_string(), message);
        }
        // Lists of values for one argument came with 1.13.
        (Value::Map(map), Type::Arguments) if !checker.since(13) => {
            for (key, _) in map.iter().filter(|(_, value)| matches!(value, Value::List(_))) {
                let message =
                    format!("Talos {} wants one text per argument, 1.13 takes a list", checker.talos);
                checker.error(document, path.key(key).to_string(), message);
            }
        }
        _ => {}
    }
}
