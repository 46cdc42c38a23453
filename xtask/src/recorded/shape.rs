//! Compares replies that show an unknown state: by keys and types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Objects whose keys are names that a state has given.
const BY_NAME: [&str; 2] = ["node_status", "service_status"];

/// Where two values differ in keys or types.
pub(crate) fn differences(path: &str, recorded: &Value, simulated: &Value) -> Vec<String> {
    let single = |value| BTreeMap::from([("", Fields::of([value]))]);
    match (recorded, simulated) {
        (Value::Object(one), Value::Object(other)) if BY_NAME.iter().any(|name| path.ends_with(name)) => {
            let values = |map: &Map<String, Value>| map.values().cloned().collect::<Vec<_>>();
            differences(path, &values(one).into(), &values(other).into())
        }
        (Value::Object(_), Value::Object(_)) => of_groups(path, &single(recorded), &single(simulated)),
        (Value::Array(one), Value::Array(other)) => of_groups(path, &groups(one), &groups(other)),
        _ if kind(recorded) == kind(simulated) => Vec::new(),
        _ => vec![format!("{path}: {} instead of {}", kind(simulated), kind(recorded))],
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// The fields of like entries.
#[derive(Default)]
struct Fields<'a> {
    entries: usize,
    by_key: BTreeMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Fields<'a> {
    fn of(entries: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut fields = Self::default();
        for entry in entries {
            fields.entries += 1;
            for (key, value) in entry.as_object().into_iter().flatten() {
                fields.by_key.entry(key).or_default().push(value);
            }
        }
        fields
    }

    /// Keys that every entry has.
    fn always(&self) -> impl Iterator<Item = &'a str> {
        self.by_key.iter().filter(|(_, values)| values.len() == self.entries).map(|(key, _)| *key)
    }
}

/// Entries of a list by what they are.
fn groups(list: &[Value]) -> BTreeMap<&str, Fields<'_>> {
    let mut groups: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for entry in list {
        groups.entry(entry["type"].as_str().unwrap_or_default()).or_default().push(entry);
    }
    groups.into_iter().map(|(name, entries)| (name, Fields::of(entries))).collect()
}

/// What all entries of one side have some of the other must have; common keys have common types. An empty list says
/// nothing, but where there are entries both sides have the same sorts.
fn of_groups(
    path: &str,
    recorded: &BTreeMap<&str, Fields<'_>>,
    simulated: &BTreeMap<&str, Fields<'_>>,
) -> Vec<String> {
    let mut found = Vec::new();
    if recorded.is_empty() || simulated.is_empty() {
        return found;
    }
    let extra = simulated.keys().filter(|name| !recorded.contains_key(*name));
    found.extend(extra.map(|name| format!("{path}: an entry of the unrecorded sort {name:?}")));
    for (name, one) in recorded {
        let Some(other) = simulated.get(name) else {
            found.push(format!("{path}: no entry of the sort {name:?}"));
            continue;
        };
        let place = |key: &str| {
            format!("{path}{}.{key}", if name.is_empty() { String::new() } else { format!("[{name}]") })
        };
        let lost = one.always().filter(|key| !other.by_key.contains_key(key));
        found.extend(lost.map(|key| format!("{}: missing", place(key))));
        let extra = other.always().filter(|key| !one.by_key.contains_key(key));
        found.extend(extra.map(|key| format!("{}: nothing like it was recorded", place(key))));
        for (key, values) in &one.by_key {
            let Some(others) = other.by_key.get(key) else { continue };
            found.extend(of_values(&place(key), values, others));
        }
    }
    found
}

fn of_values(path: &str, recorded: &[&Value], simulated: &[&Value]) -> Vec<String> {
    let kinds = |values: &[&Value]| values.iter().map(|value| kind(value)).collect::<BTreeSet<_>>();
    let (one, other) = (kinds(recorded), kinds(simulated));
    if one.is_disjoint(&other) {
        return vec![format!("{path}: {other:?} instead of {one:?}")];
    }
    match (recorded.first(), simulated.first()) {
        (Some(one @ (Value::Object(_) | Value::Array(_))), Some(other)) => differences(path, one, other),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn count(recorded: &Value, simulated: &Value) -> usize {
        differences("", recorded, simulated).len()
    }

    #[test]
    fn values_and_numbers_of_entries_do_not_matter() {
        assert_eq!(count(&json!([{"a": 1}, {"a": 2, "b": "x"}]), &json!([{"a": 7}])), 0);
        assert_eq!(count(&json!([]), &json!([{"a": 7}])), 0);
    }

    #[test]
    fn keys_and_types_do_matter() {
        assert_eq!(count(&json!([{"a": 1}]), &json!([{"a": "1"}])), 1);
        assert_eq!(count(&json!([{"type": "lxc", "x": 1}]), &json!([{"type": "qemu", "y": 1}])), 2);
        assert_eq!(count(&json!([{"a": 1, "b": 2}]), &json!([{"a": 1}])), 1);
        assert_eq!(count(&json!([{"a": 1}]), &json!([{"a": 1, "b": 2}])), 1);
        assert_eq!(count(&json!({"a": {"b": 1}}), &json!({"a": {"b": "1"}})), 1);
        assert_eq!(count(&json!({"a": 1}), &json!(null)), 1);
    }
}
