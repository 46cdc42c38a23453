//! JSON patches (RFC 6902), for configs of a single document.

use talmox_yaml::{Node, NodeKind};

use crate::document::free;
use crate::fault::{Faults, Source, Trail};
use crate::read::Reader;
use crate::value::Value;

/// One operation of a JSON patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operation {
    Add { path: Pointer, value: Value },
    Remove { path: Pointer },
    Replace { path: Pointer, value: Value },
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test { path: Pointer, value: Value },
}

/// A place in a document: `/machine/network/interfaces/0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer(Vec<String>);

impl Pointer {
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self(Vec::new()));
        }
        let parts = text.strip_prefix('/')?.split('/');
        Some(Self(parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect()))
    }
}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, "/{}", part.replace('~', "~0").replace('/', "~1")))
    }
}

/// Reads the operations of a list, each with its place in the patch.
pub(super) fn read_operations(source: Source<'_>, node: &Node) -> Result<Vec<Operation>, Faults> {
    let mut reader = Reader::new(source);
    let NodeKind::Sequence(items) = &node.kind else {
        reader.fault(node, &Trail::default(), "a patch is a document, or a list of JSON patch operations");
        return Err(Faults(reader.faults));
    };
    let mut operations = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        match operation(item) {
            Ok(operation) => operations.push(operation),
            Err(message) => reader.fault(item, &Trail::default().item(index), message),
        }
    }
    if reader.faults.is_empty() { Ok(operations) } else { Err(Faults(reader.faults)) }
}

fn operation(node: &Node) -> Result<Operation, &'static str> {
    let Value::Map(map) = free(node) else { return Err("an operation is a mapping with `op` and `path`") };
    let pointer =
        |key: &str, message| map.get(key).and_then(Value::as_text).and_then(Pointer::parse).ok_or(message);
    let path = pointer("path", "`path` is a place such as /machine/network/hostname")?;
    let from = || pointer("from", "`from` is a place such as /machine/network/hostname");
    let value = || map.get("value").cloned().ok_or("`value` is missing");
    match map.get("op").and_then(Value::as_text) {
        Some("add") => Ok(Operation::Add { path, value: value()? }),
        Some("remove") => Ok(Operation::Remove { path }),
        Some("replace") => Ok(Operation::Replace { path, value: value()? }),
        Some("move") => Ok(Operation::Move { from: from()?, path }),
        Some("copy") => Ok(Operation::Copy { from: from()?, path }),
        Some("test") => Ok(Operation::Test { path, value: value()? }),
        _ => Err("`op` is one of add, remove, replace, move, copy, test"),
    }
}

impl Operation {
    /// Carries the operation out, or says why it cannot be.
    pub(super) fn apply(&self, root: &mut Value) -> Result<(), String> {
        match self {
            Self::Add { path, value } => add(root, path, value.clone()),
            Self::Remove { path } => remove(root, path).map(|_| ()),
            Self::Replace { path, value } => replace(root, path, value.clone()),
            Self::Move { from, path } => {
                let value = remove(root, from)?;
                add(root, path, value)
            }
            Self::Copy { from, path } => {
                let value = lookup(root, from)?;
                add(root, path, value)
            }
            Self::Test { path, value } => match find(root, &path.0) {
                Some(found) if found == value => Ok(()),
                None if matches!(value, Value::Null) => Ok(()),
                Some(_) | None => Err(format!("the test of {path} does not hold")),
            },
        }
    }
}

fn missing(path: &Pointer) -> String {
    format!("there is no {path}")
}

fn find<'a>(root: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |value, part| match value {
        Value::Map(map) => map.get_mut(part),
        Value::List(items) => {
            let at = index(part, items.len())?;
            items.get_mut(at)
        }
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Octal(_)
        | Value::Float(_)
        | Value::Text(_) => None,
    })
}

/// A position in a list; negative ones count from its end.
fn index(part: &str, length: usize) -> Option<usize> {
    let number: i64 = part.parse().ok()?;
    if number < 0 { length.checked_sub(usize::try_from(-number).ok()?) } else { usize::try_from(number).ok() }
}

fn add(root: &mut Value, path: &Pointer, value: Value) -> Result<(), String> {
    let Some((last, parents)) = path.0.split_last() else {
        *root = value;
        return Ok(());
    };
    match find(root, parents) {
        Some(Value::Map(map)) => {
            map.set(last, value);
            Ok(())
        }
        Some(Value::List(items)) => {
            let at = if last == "-" { Some(items.len()) } else { index(last, items.len()) };
            let at = at.filter(|at| *at <= items.len()).ok_or_else(|| missing(path))?;
            items.insert(at, value);
            Ok(())
        }
        Some(_) | None => Err(format!("there is nothing to add {path} to")),
    }
}

/// Talos also replaces keys that are not there.
fn replace(root: &mut Value, path: &Pointer, value: Value) -> Result<(), String> {
    if let Some(slot) = find(root, &path.0) {
        *slot = value;
        return Ok(());
    }
    match path.0.split_last().and_then(|(last, parents)| Some((last, find(root, parents)?))) {
        Some((last, Value::Map(map))) => {
            map.set(last, value);
            Ok(())
        }
        Some(_) | None => Err(missing(path)),
    }
}

/// Talos takes a key that is not there for null.
fn lookup(root: &mut Value, path: &Pointer) -> Result<Value, String> {
    if let Some(value) = find(root, &path.0) {
        return Ok(value.clone());
    }
    let parents = path.0.split_last().map_or(&[][..], |(_, parents)| parents);
    match find(root, parents) {
        Some(Value::Map(_)) => Ok(Value::Null),
        Some(_) | None => Err(missing(path)),
    }
}

fn remove(root: &mut Value, path: &Pointer) -> Result<Value, String> {
    let (last, parents) = path.0.split_last().ok_or("a whole document cannot be removed")?;
    match find(root, parents) {
        Some(Value::Map(map)) => map.remove(last).ok_or_else(|| missing(path)),
        Some(Value::List(items)) => {
            let at = index(last, items.len()).filter(|at| *at < items.len()).ok_or_else(|| missing(path))?;
            Ok(items.remove(at))
        }
        Some(_) | None => Err(missing(path)),
    }
}
