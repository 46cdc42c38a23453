//! `$patch: delete`: what a patch takes away.
//!
//! Deletes are taken out of the patch before the rest of it is read, and carried out before the rest is merged.

use std::borrow::Cow;

use talmox_yaml::{Entry, Node, NodeKind, Span};

use crate::document::Document;
use crate::fault::{Path, Step, Trail};
use crate::schema::{Field, Struct, Type};
use crate::value::{Map, Value};

/// Something to delete.
#[derive(Clone, Debug)]
pub(super) struct Delete {
    /// The field, the key of a mapping, or the position in the patch's list; empty for the document.
    pub path: Path,
    /// For an item of a list: the field it is found by, and what that says.
    pub item: Option<(String, String)>,
    pub span: Span,
}

/// What is wrong with a delete in a patch.
#[derive(Debug)]
pub(super) struct Misplaced {
    pub path: Path,
    pub span: Span,
    pub message: &'static str,
}

/// Takes the deletes out of a document; nothing is left of it if it only deletes.
pub(super) fn take_deletes(node: &Node) -> Result<(Vec<Delete>, Option<Cow<'_, Node>>), Misplaced> {
    let mut deletes = Vec::new();
    // Few patches delete anything, and those are read as they are.
    if !has_delete(node) {
        return Ok((deletes, Some(Cow::Borrowed(node))));
    }
    let left = strip(node, &Trail::default(), false, &mut deletes)?;
    Ok((deletes, left.filter(|node| !says_nothing(node)).map(Cow::Owned)))
}

fn has_delete(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Scalar(_) => false,
        NodeKind::Mapping(entries) => {
            entries.iter().any(|entry| is_delete(entry) || has_delete(&entry.value))
        }
        NodeKind::Sequence(items) => items.iter().any(has_delete),
    }
}

/// What is left of a node once deletes are taken out; nothing if it was one, or is empty because of them.
fn strip(
    node: &Node,
    path: &Trail<'_>,
    in_list: bool,
    deletes: &mut Vec<Delete>,
) -> Result<Option<Node>, Misplaced> {
    let kind = match &node.kind {
        NodeKind::Scalar(_) => return Ok(Some(node.clone())),
        NodeKind::Mapping(entries) if entries.iter().any(is_delete) => {
            deletes.push(delete(node, entries, path, in_list)?);
            return Ok(None);
        }
        NodeKind::Mapping(entries) => {
            let mut left = Vec::with_capacity(entries.len());
            for entry in entries {
                let key = entry.key.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
                if let Some(value) = strip(&entry.value, &path.key(key), false, deletes)? {
                    left.push(Entry { key: entry.key.clone(), value });
                }
            }
            if left.is_empty() && !entries.is_empty() {
                return Ok(None);
            }
            NodeKind::Mapping(left)
        }
        NodeKind::Sequence(items) => {
            let mut left = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                left.extend(strip(item, &path.item(index), true, deletes)?);
            }
            if left.is_empty() && !items.is_empty() {
                return Ok(None);
            }
            NodeKind::Sequence(left)
        }
    };
    Ok(Some(Node { kind, span: node.span, alias: node.alias, tag: node.tag.clone() }))
}

fn delete(node: &Node, entries: &[Entry], path: &Trail<'_>, in_list: bool) -> Result<Delete, Misplaced> {
    let path = path.to_path();
    let misplaced = |message| Misplaced { path: path.clone(), span: node.place(), message };
    if !in_list {
        if path.0.iter().any(|step| matches!(step, Step::Item(_))) {
            return Err(misplaced(
                "Talos cannot delete a part of a list's item; delete the item and add it anew",
            ));
        }
        return Ok(Delete { path, item: None, span: node.place() });
    }
    let by = entries.iter().find(|entry| !is_delete(entry));
    let by = by.and_then(|entry| Some((entry.key.as_scalar()?, entry.value.as_scalar()?)));
    let (key, value) = by.ok_or_else(|| misplaced("say which item to delete by one of its fields"))?;
    let item = Some((key.text.clone(), value.text.clone()));
    Ok(Delete { path, item, span: node.place() })
}

fn is_delete(entry: &Entry) -> bool {
    let text = |node: &Node, text: &str| node.as_scalar().is_some_and(|scalar| scalar.text == text);
    text(&entry.key, "$patch") && text(&entry.value, "delete")
}

/// Whether a document has nothing but what identifies it.
fn says_nothing(node: &Node) -> bool {
    let NodeKind::Mapping(entries) = &node.kind else { return false };
    entries.iter().all(|entry| {
        let key = entry.key.as_scalar().map(|scalar| scalar.text.as_str());
        entry.value.as_scalar().is_some() && matches!(key, Some("version" | "kind" | "name"))
    })
}

/// Why something could not be deleted.
pub(super) const NOT_FOUND: &str = "there is nothing like that to delete";

impl Delete {
    /// Deletes from a document; `path` must not be empty.
    pub(super) fn apply(&self, document: &mut Document) -> Result<(), &'static str> {
        in_struct(&mut document.body, document.kind.body, &self.path.0, self.item.as_ref())
    }
}

type Item<'a> = Option<&'a (String, String)>;

fn in_struct(map: &mut Map, known: &Struct, path: &[Step], item: Item<'_>) -> Result<(), &'static str> {
    let Some((Step::Key(key), rest)) = path.split_first() else { return Err(NOT_FOUND) };
    let field = known.field(key).filter(|_| !known.whole).ok_or(NOT_FOUND)?;
    if rest.is_empty() {
        map.remove(key);
        return Ok(());
    }
    match (map.get_mut(key), &field.kind) {
        (Some(value), kind) => in_value(value, kind, rest, item),
        // A structure that cannot be absent has all its fields, and there is nothing in them.
        (None, Type::Struct(known)) if !field.pointer => in_struct(&mut Map::new(), known, rest, item),
        (None, _) => Err(NOT_FOUND),
    }
}

fn in_value(value: &mut Value, kind: &Type, path: &[Step], item: Item<'_>) -> Result<(), &'static str> {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => in_struct(map, known, path, item),
        (Value::Map(map), Type::Map(kind)) => in_map(map, Some(kind), path, item),
        (Value::Map(map), Type::Arguments | Type::Object) => in_map(map, None, path, item),
        (Value::List(items), Type::List(Type::Struct(known)) | Type::Keyed(known, _)) => {
            in_list(items, known, path, item)
        }
        _ => Err(NOT_FOUND),
    }
}

fn in_map(map: &mut Map, kind: Option<&Type>, path: &[Step], item: Item<'_>) -> Result<(), &'static str> {
    let Some((Step::Key(key), rest)) = path.split_first() else { return Err(NOT_FOUND) };
    if rest.is_empty() {
        return map.remove(key).map(|_| ()).ok_or(NOT_FOUND);
    }
    let value = map.get_mut(key).ok_or(NOT_FOUND)?;
    match (kind, value) {
        (Some(kind), value) => in_value(value, kind, rest, item),
        (None, Value::Map(map)) => in_map(map, None, rest, item),
        (None, _) => Err(NOT_FOUND),
    }
}

/// The first item whose field says the same.
fn in_list(
    items: &mut Vec<Value>,
    known: &Struct,
    path: &[Step],
    item: Item<'_>,
) -> Result<(), &'static str> {
    let ([Step::Item(_)], Some((key, wanted))) = (path, item) else { return Err(NOT_FOUND) };
    let compared = |field: &&Field| !known.whole && is_compared(&field.kind, field.pointer);
    let field = known.field(key).filter(compared).ok_or(NOT_FOUND)?;
    let says = |value: &Value| {
        let found = value.as_map().and_then(|map| map.get(field.name));
        found.and_then(Value::as_text).unwrap_or_default() == wanted
    };
    let at = items.iter().position(says).ok_or(NOT_FOUND)?;
    items.remove(at);
    Ok(())
}

/// Talos compares texts and what prints as one; a number or a boolean never matches.
fn is_compared(kind: &Type, pointer: bool) -> bool {
    !pointer
        && !matches!(
            kind,
            Type::Bool
                | Type::Signed(_)
                | Type::Unsigned(_)
                | Type::DiskSize
                | Type::ByteSize
                | Type::Size
                | Type::List(_)
                | Type::Keyed(..)
                | Type::Map(_)
                | Type::Struct(_)
                | Type::Object
                | Type::Arguments
        )
}
