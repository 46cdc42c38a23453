//! Which fields an object has, and whose they are.
//!
//! A field is the way to it: `f:NAME` into a mapping, `k:{…}` to an entry of a list with keys, `v:…` to one of a set of words.
//! Other lists are one field. That is also how objects keep the fields of each manager (`managedFields`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::clock::rfc3339;
use super::object::{items, text};
use super::patch::list_key;

/// The way to a field.
pub(super) type Way = Vec<String>;

/// Lists whose entries are words, each for itself.
fn is_set(field: &str) -> bool {
    field == "finalizers"
}

/// What nobody owns: who the object is, and what the server says of it.
const UNOWNED: [&str; 9] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "selfLink",
];

/// All fields of an object.
pub(super) fn fields(body: &Value) -> BTreeSet<Way> {
    let mut set = BTreeSet::new();
    for (key, value) in body.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                let own = value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .filter(|(key, _)| !UNOWNED.contains(&key.as_str()));
                for (key, value) in own {
                    walk(key, value, &mut vec!["f:metadata".to_owned()], &mut set);
                }
            }
            _ => walk(key, value, &mut Vec::new(), &mut set),
        }
    }
    set
}

fn walk(name: &str, value: &Value, way: &mut Way, set: &mut BTreeSet<Way>) {
    way.push(format!("f:{name}"));
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                walk(key, value, way, set);
            }
        }
        Value::Array(entries) if is_set(name) => {
            for entry in entries {
                way.push(format!("v:{entry}"));
                set.insert(way.clone());
                way.pop();
            }
        }
        Value::Array(entries) if entry_key(name, entries).is_some() => walk_entries(name, entries, way, set),
        Value::Object(_)
        | Value::Array(_)
        | Value::String(_)
        | Value::Number(_)
        | Value::Bool(_)
        | Value::Null => {
            set.insert(way.clone());
        }
    }
    way.pop();
}

fn walk_entries(name: &str, entries: &[Value], way: &mut Way, set: &mut BTreeSet<Way>) {
    for entry in entries {
        way.push(entry_step(name, entry));
        set.insert([way.as_slice(), &[".".to_owned()]].concat());
        for (key, value) in entry.as_object().into_iter().flatten() {
            walk(key, value, way, set);
        }
        way.pop();
    }
}

/// The key of a list whose entries all have it.
fn entry_key(name: &str, entries: &[Value]) -> Option<&'static str> {
    let key = list_key(name)?;
    (!entries.is_empty() && entries.iter().all(|entry| entry.get(key).is_some())).then_some(key)
}

fn entry_step(name: &str, entry: &Value) -> String {
    let key = list_key(name).unwrap_or_default();
    format!("k:{}", json!({ key: entry.get(key).cloned().unwrap_or_default() }))
}

/// What a way leads to.
pub(super) fn at<'a>(body: &'a Value, way: &[String]) -> Option<&'a Value> {
    let mut value = body;
    for step in way {
        let (kind, rest) = step.split_once(':').unwrap_or((step, ""));
        value = match kind {
            "f" => value.get(rest)?,
            "k" => value.as_array()?.iter().find(|entry| is_entry(entry, rest))?,
            "v" => value.as_array()?.iter().find(|entry| is_word(entry, rest))?,
            _ => value,
        };
    }
    Some(value)
}

fn is_word(entry: &Value, word: &str) -> bool {
    serde_json::from_str(word).is_ok_and(|word: Value| word == *entry)
}

fn is_entry(entry: &Value, key: &str) -> bool {
    let key: Value = serde_json::from_str(key).unwrap_or_default();
    key.as_object().into_iter().flatten().all(|(name, value)| entry.get(name) == Some(value))
}

/// Takes away what a way leads to, and mappings and lists that are empty then.
pub(super) fn remove(body: &mut Value, way: &[String]) {
    let [step, rest @ ..] = way else { return };
    let (kind, name) = step.split_once(':').unwrap_or((step, ""));
    let is_last = rest.is_empty() || rest == ["."];
    match (kind, &mut *body) {
        ("f", Value::Object(map)) => {
            if let Some(inner) = map.get_mut(name).filter(|_| !is_last) {
                remove(inner, rest);
            }
            let empty =
                |value: &Value| matches!(value, Value::Object(map) if map.is_empty()) || value == &json!([]);
            if is_last || map.get(name).is_some_and(empty) {
                map.remove(name);
            }
        }
        ("k", Value::Array(list)) => {
            let Some(index) = list.iter().position(|entry| is_entry(entry, name)) else { return };
            if is_last {
                list.remove(index);
            } else {
                remove(&mut list[index], rest);
            }
        }
        ("v", Value::Array(list)) => list.retain(|entry| !is_word(entry, name)),
        _ => {}
    }
}

/// A way as messages spell it: `.spec.containers[name="a"].image`.
pub(super) fn spelled(way: &[String]) -> String {
    let mut spelled = String::new();
    for step in way {
        let (kind, rest) = step.split_once(':').unwrap_or((step, ""));
        match kind {
            "f" => spelled.push_str(&format!(".{rest}")),
            "k" => {
                let key: Value = serde_json::from_str(rest).unwrap_or_default();
                let keys = key.as_object().into_iter().flatten();
                let pairs: Vec<String> = keys.map(|(name, value)| format!("{name}={value}")).collect();
                spelled.push_str(&format!("[{}]", pairs.join(",")));
            }
            "v" => spelled.push_str(&format!("[={rest}]")),
            _ => {}
        }
    }
    spelled
}

/// A manager and its fields.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Managed {
    pub(super) manager: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    subresource: String,
    api_version: String,
    time: String,
    pub(super) fields: BTreeSet<Way>,
}

impl Managed {
    pub(super) fn read_all(body: &Value) -> Vec<Self> {
        items(body, "/metadata/managedFields").iter().map(Self::read).collect()
    }

    fn read(entry: &Value) -> Self {
        let mut fields = BTreeSet::new();
        unfold(entry.get("fieldsV1").unwrap_or(&Value::Null), &mut Vec::new(), &mut fields);
        let own = |pointer: &str| text(entry, pointer).to_owned();
        Self {
            manager: own("/manager"),
            operation: own("/operation"),
            subresource: own("/subresource"),
            api_version: own("/apiVersion"),
            time: own("/time"),
            fields,
        }
    }

    fn to_json(&self) -> Value {
        let Self { manager, operation, subresource, api_version, time, fields } = self;
        let mut tree = json!({});
        for way in fields {
            fold(&mut tree, way);
        }
        let mut entry = json!({
            "manager": manager, "operation": operation, "apiVersion": api_version, "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": tree,
        });
        if !subresource.is_empty() {
            entry["subresource"] = subresource.as_str().into();
        }
        entry
    }

    /// As conflicts call it.
    pub(super) fn spelled(&self) -> String {
        let mut spelled = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            spelled.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            spelled.push_str(&format!(" using {}", self.api_version));
        }
        spelled
    }
}

fn unfold(tree: &Value, way: &mut Way, set: &mut BTreeSet<Way>) {
    match tree.as_object() {
        Some(map) if !map.is_empty() => {
            for (step, rest) in map {
                way.push(step.clone());
                unfold(rest, way, set);
                way.pop();
            }
        }
        _ if !way.is_empty() => drop(set.insert(way.clone())),
        _ => {}
    }
}

fn fold(tree: &mut Value, way: &[String]) {
    if let [step, rest @ ..] = way
        && let Value::Object(map) = tree
    {
        fold(map.entry(step).or_insert_with(|| Value::Object(Map::new())), rest);
    }
}

/// Who writes.
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) subresource: &'a str,
    pub(super) now: u64,
}

/// Writes down whose the fields are. Who has none is left out.
pub(super) fn keep_managers(body: &mut Value, managers: &[Managed]) {
    let kept = managers.iter().filter(|one| !one.fields.is_empty());
    body["metadata"]["managedFields"] = kept.map(Managed::to_json).collect();
}

/// The entry of a writer, made if it is not there.
pub(super) fn entry<'a>(
    managers: &'a mut Vec<Managed>,
    writer: &Writer<'_>,
    operation: &str,
    api_version: &str,
) -> &'a mut Managed {
    let own = |one: &Managed| {
        one.manager == writer.manager && one.operation == operation && one.subresource == writer.subresource
    };
    let index = managers.iter().position(own).unwrap_or_else(|| {
        managers.push(Managed {
            manager: writer.manager.to_owned(),
            operation: operation.to_owned(),
            subresource: writer.subresource.to_owned(),
            api_version: api_version.to_owned(),
            time: rfc3339(writer.now),
            fields: BTreeSet::new(),
        });
        managers.len() - 1
    });
    &mut managers[index]
}

/// After a write that was no apply: what it changed is the writer's, what is gone is nobody's.
pub(super) fn note_update(old: Option<&Value>, new: &mut Value, writer: &Writer<'_>) {
    let mut managers = old.map(Managed::read_all).unwrap_or_default();
    let all = fields(new);
    let changed: BTreeSet<Way> =
        all.iter().filter(|way| old.is_none_or(|old| at(old, way) != at(new, way))).cloned().collect();
    for one in &mut managers {
        one.fields.retain(|way| all.contains(way) && !changed.contains(way));
    }
    if !changed.is_empty() {
        let api_version = text(new, "/apiVersion").to_owned();
        let own = entry(&mut managers, writer, "Update", &api_version);
        own.fields.extend(changed);
        own.time = rfc3339(writer.now);
    }
    keep_managers(new, &managers);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "a", "labels": { "x": "1" }, "finalizers": ["f"] },
            "spec": { "containers": [{ "name": "c", "image": "i", "args": ["a", "b"] }], "nodeSelector": {} },
        })
    }

    #[test]
    fn fields_are_found_and_led_to() {
        let body = pod();
        let spelled: Vec<String> = fields(&body).iter().map(|way| spelled(way)).collect();
        assert_eq!(
            spelled,
            [
                ".metadata.finalizers[=\"f\"]",
                ".metadata.labels.x",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].args",
                ".spec.containers[name=\"c\"].image",
                ".spec.containers[name=\"c\"].name",
                ".spec.nodeSelector",
            ]
        );
        for way in fields(&body) {
            assert!(at(&body, &way).is_some(), "{way:?}");
        }
    }

    #[test]
    fn managers_survive_being_written_down() {
        let mut body = pod();
        let writer = Writer { manager: "me", subresource: "", now: 0 };
        note_update(None, &mut body, &writer);
        let read = Managed::read_all(&body);
        assert_eq!((read.len(), &read[0].fields), (1, &fields(&pod())));
        assert_eq!(read[0].spelled(), "\"me\" using v1");
    }

    #[test]
    fn removing_leaves_nothing_empty() {
        let mut body = pod();
        for way in fields(&pod()) {
            remove(&mut body, &way);
        }
        assert_eq!(body, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } }));
    }

    #[test]
    fn what_a_writer_changes_is_its_own() {
        let mut body = pod();
        note_update(None, &mut body, &Writer { manager: "one", subresource: "", now: 0 });
        let old = body.clone();
        body["metadata"]["labels"]["x"] = "2".into();
        note_update(Some(&old), &mut body, &Writer { manager: "two", subresource: "", now: 1000 });
        let label = vec!["f:metadata".to_owned(), "f:labels".to_owned(), "f:x".to_owned()];
        let owners: Vec<String> = Managed::read_all(&body)
            .into_iter()
            .filter(|one| one.fields.contains(&label))
            .map(|one| one.manager)
            .collect();
        assert_eq!(owners, ["two"]);
    }
}
