//! What is printed of values: in Talos' order, with the fields it always prints, borrowed from them.

#![expect(clippy::wildcard_enum_match_arm, reason = "types that are not named print as they are")]

use crate::read::is_empty;
use crate::schema::{Field, Print, Struct, Type};
use crate::value::{Map, Value};

/// A value as it is printed. A config is printed far more often than it is changed, so nothing is copied for it.
pub(crate) enum View<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Octal(u64),
    Float(f64),
    Text(&'a str),
    List(Vec<View<'a>>),
    Map(Vec<(&'a str, View<'a>)>),
}

impl<'a> View<'a> {
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(text)
    }

    /// A value in its own order.
    pub(crate) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Integer(value) => Self::Integer(*value),
            Value::Octal(value) => Self::Octal(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Text(text) => Self::Text(text),
            Value::List(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Map(map) => Self::Map(map.iter().map(|(key, value)| (key, Self::of(value))).collect()),
        }
    }

    /// Mappings without known keys are printed in alphabetical order, at every depth.
    fn sorted(value: &'a Value) -> Self {
        match value {
            Value::List(items) => Self::List(items.iter().map(Self::sorted).collect()),
            Value::Map(map) => Self::sorted_map(map, Self::sorted),
            _ => Self::of(value),
        }
    }

    fn sorted_map(map: &'a Map, view: impl Fn(&'a Value) -> Self) -> Self {
        let mut entries: Vec<_> = map.iter().map(|(key, value)| (key, view(value))).collect();
        entries.sort_by_key(|(key, _)| *key);
        Self::Map(entries)
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Integer(value) => Value::Integer(*value),
            Self::Octal(value) => Value::Octal(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::text(*text),
            Self::List(items) => Value::List(items.iter().map(Self::to_value).collect()),
            Self::Map(entries) => {
                Value::Map(entries.iter().map(|(key, view)| ((*key).to_owned(), view.to_value())).collect())
            }
        }
    }
}

/// Adds the fields of a structure to `out`, in Talos' order.
pub(crate) fn arrange<'a>(map: &'a Map, known: &Struct, out: &mut Vec<(&'a str, View<'a>)>) {
    for field in known.fields {
        if let Some(view) = arrange_field(map.get(field.name), field) {
            out.push((field.name, view));
        }
    }
}

/// What is printed of a field; nothing where it is left out.
pub(crate) fn shown(value: Option<&Value>, field: &Field) -> Option<Value> {
    let shown = arrange_field(value, field)?.to_value().without_nulls();
    (shown != Value::Null).then_some(shown)
}

fn arrange_field<'a>(value: Option<&'a Value>, field: &Field) -> Option<View<'a>> {
    let empty = |value: &Value| is_empty(value, &field.kind);
    match (value, field.print) {
        (Some(value), Print::Filled) if !field.pointer && empty(value) => None,
        (Some(value), Print::Always | Print::Filled | Print::Given) => {
            Some(arrange_value(value, &field.kind))
        }
        (None, Print::Always) => Some(zero(field)),
        (None, Print::Filled | Print::Given) => None,
    }
}

fn arrange_value<'a>(value: &'a Value, kind: &Type) -> View<'a> {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => structure(map, known),
        (Value::List(items), Type::List(kind)) => {
            View::List(items.iter().map(|item| arrange_value(item, kind)).collect())
        }
        (Value::List(items), Type::Keyed(known, _)) => {
            View::List(items.iter().map(|item| arrange_value(item, &Type::Struct(known))).collect())
        }
        (Value::Map(map), Type::Map(kind)) => View::sorted_map(map, |value| arrange_value(value, kind)),
        // An argument without a value has no text to print.
        (Value::Map(map), Type::Arguments) => {
            View::sorted_map(
                map,
                |value| {
                    if value.as_text() == Some("") { View::Null } else { View::of(value) }
                },
            )
        }
        (value, _) => View::sorted(value),
    }
}

fn structure<'a>(map: &'a Map, known: &Struct) -> View<'a> {
    let mut entries = Vec::with_capacity(map.len());
    arrange(map, known, &mut entries);
    View::Map(entries)
}

/// What Talos prints for a field that is always there and has no value.
fn zero<'a>(field: &Field) -> View<'a> {
    static NOTHING: Map = Map::new();
    if field.pointer {
        return View::Null;
    }
    match field.kind {
        Type::Bool => View::Bool(false),
        Type::Signed(_) | Type::Unsigned(_) => View::Integer(0),
        Type::FileMode => View::Octal(0),
        Type::Duration => View::Text("0s"),
        Type::RoutingTable => View::Text("unspec"),
        Type::Choice(choice) => View::Text(choice.zero.unwrap_or_default()),
        Type::List(_) | Type::Keyed(..) => View::List(Vec::new()),
        Type::Map(_) | Type::Arguments | Type::Object => View::Map(Vec::new()),
        Type::Struct(known) => structure(&NOTHING, known),
        _ => View::Text(""),
    }
}
