//! Strategic merge: what a patch says goes over what is there, by the type of each field.

use crate::fault::{Path, Trail};
use crate::read::is_zero;
use crate::scalar::Url;
use crate::schema::{Field, Key, Struct, Type};
use crate::value::{Map, Value};

/// Why two values cannot be merged, and where in the patch.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub path: Path,
    pub message: String,
}

pub(super) fn merge_struct(
    left: &mut Map,
    right: &Map,
    known: &Struct,
    path: &Trail<'_>,
) -> Result<(), Mismatch> {
    if known.whole {
        *left = right.clone();
        return Ok(());
    }
    for field in known.fields {
        merge_field(left, right.get(field.name), field, &path.key(field.name))?;
    }
    Ok(())
}

fn merge_field(
    left: &mut Map,
    right: Option<&Value>,
    field: &Field,
    path: &Trail<'_>,
) -> Result<(), Mismatch> {
    // Talos copies these whether a patch has them or not.
    let copied = matches!(field.kind, Type::Expression | Type::ByteSize) || matches!(field.kind, Type::Bool);
    let Some(right) = right else {
        if copied && !field.pointer {
            left.remove(field.name);
        }
        // A structure that cannot be absent is merged even so, and may hold such fields.
        return match (left.get_mut(field.name), &field.kind) {
            (Some(Value::Map(left)), Type::Struct(known)) if !field.pointer => {
                merge_struct(left, &Map::new(), known, path)
            }
            _ => Ok(()),
        };
    };
    // Items with the same key become one even where there was no list before.
    if matches!(field.kind, Type::Keyed(..)) && !left.contains(field.name) {
        left.set(field.name, Value::List(Vec::new()));
    }
    match left.get_mut(field.name) {
        Some(slot) if !field.replaced => merge_value(slot, right, &field.kind, true, path),
        _ => {
            left.set(field.name, right.clone());
            Ok(())
        }
    }
}

/// Merges a value over one that is there. `zero_counts`: whether an empty text or a zero is a value (in elements of
/// mappings it is not; in fields it was left out when they were read, unless it is one).
pub(super) fn merge_value(
    left: &mut Value,
    right: &Value,
    kind: &Type,
    zero_counts: bool,
    path: &Trail<'_>,
) -> Result<(), Mismatch> {
    match (left, right, kind) {
        (Value::Map(left), Value::Map(right), Type::Struct(known)) => merge_struct(left, right, known, path),
        (Value::Map(left), Value::Map(right), Type::Map(kind)) => merge_map(left, right, kind, path),
        (Value::Map(left), Value::Map(right), Type::Object) => merge_free_map(left, right, path),
        (Value::Map(left), Value::Map(right), Type::Arguments) => {
            for (key, value) in right.iter() {
                left.set(key, value.clone());
            }
            Ok(())
        }
        (Value::List(left), Value::List(right), Type::Keyed(known, key)) => {
            merge_keyed(left, right, known, *key, path)
        }
        (Value::List(left), Value::List(right), Type::List(_)) => {
            left.extend(right.iter().cloned());
            Ok(())
        }
        (Value::Text(left), Value::Text(right), Type::Url) => {
            let mut url = Url::parse(left);
            url.merge(Url::parse(right));
            *left = url.to_string();
            Ok(())
        }
        (Value::Text(_), Value::Text(_), Type::SizeCondition) => Err(Mismatch {
            path: path.to_path(),
            message: "Talos cannot merge one size condition over another; delete the old one first"
                .to_owned(),
        }),
        // A size in bytes hides one in per cent that is merged over it.
        (Value::Text(left), Value::Text(right), Type::Size)
            if right.ends_with('%') && !left.ends_with('%') =>
        {
            Ok(())
        }
        (left, right, kind) => {
            if zero_counts || matches!(kind, Type::Bool) || !is_zero(right, kind) {
                *left = right.clone();
            }
            Ok(())
        }
    }
}

fn merge_map(left: &mut Map, right: &Map, kind: &Type, path: &Trail<'_>) -> Result<(), Mismatch> {
    for (key, value) in right.iter() {
        match left.get_mut(key) {
            Some(slot) => merge_value(slot, value, kind, false, &path.key(key))?,
            None => left.set(key, value.clone()),
        }
    }
    Ok(())
}

/// Mappings without known keys merge at every depth; their lists are appended.
fn merge_free_map(left: &mut Map, right: &Map, path: &Trail<'_>) -> Result<(), Mismatch> {
    for (key, value) in right.iter() {
        match left.get_mut(key) {
            None | Some(Value::Null) => left.set(key, value.clone()),
            Some(slot) => merge_free(slot, value, &path.key(key))?,
        }
    }
    Ok(())
}

pub(super) fn merge_free(left: &mut Value, right: &Value, path: &Trail<'_>) -> Result<(), Mismatch> {
    match (&mut *left, right) {
        (Value::Map(left), Value::Map(right)) => merge_free_map(left, right, path),
        (Value::List(left), Value::List(right)) => {
            left.extend(right.iter().cloned());
            Ok(())
        }
        (Value::Bool(left), Value::Bool(right)) => {
            *left = *right;
            Ok(())
        }
        (Value::Integer(_), Value::Integer(_))
        | (Value::Float(_), Value::Float(_))
        | (Value::Text(_), Value::Text(_)) => {
            if !is_zero(right, &Type::Text) {
                *left = right.clone();
            }
            Ok(())
        }
        _ => Err(Mismatch {
            path: path.to_path(),
            message: format!("the patch has {} where the config has {}", right.kind(), left.kind()),
        }),
    }
}

fn merge_keyed(
    left: &mut Vec<Value>,
    right: &[Value],
    known: &Struct,
    key: Key,
    path: &Trail<'_>,
) -> Result<(), Mismatch> {
    // Rules that replace others are compared with what was there before, not with each other.
    let before = left.len();
    for (index, item) in right.iter().enumerate() {
        let Value::Map(item) = item else { continue };
        let end = if key == Key::ReplaceImage { before } else { left.len() };
        let existing = position(&left[..end], item, key).and_then(|at| left.get_mut(at));
        match existing {
            Some(slot) if key == Key::ReplaceImage => *slot = Value::Map(item.clone()),
            Some(Value::Map(slot)) => merge_struct(slot, item, known, &path.item(index))?,
            Some(_) | None => left.push(Value::Map(item.clone())),
        }
    }
    Ok(())
}

/// Where the item of a list is that an item of a patch is about.
fn position(items: &[Value], item: &Map, key: Key) -> Option<usize> {
    let find = |name: &str| {
        items.iter().position(|one| one.as_map().is_some_and(|map| map.get(name) == item.get(name)))
    };
    match key {
        Key::Interface if item.contains("interface") => find("interface"),
        Key::Interface if item.contains("deviceSelector") => find("deviceSelector"),
        Key::Interface => None,
        Key::VlanId => find("vlanId"),
        Key::Name => find("name"),
        Key::MountPath => find("mountPath"),
        // The last of several wins.
        Key::ReplaceImage => items
            .iter()
            .rposition(|one| one.as_map().is_some_and(|map| map.get("image") == item.get("image"))),
    }
}
