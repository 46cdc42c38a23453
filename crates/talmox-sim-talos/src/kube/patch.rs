//! Patches: merge, strategic merge as far as lists with keys go, and JSON patch.

use serde_json::{Map, Value};

use super::failure::Failure;
use super::object::text;

/// RFC 7386: null removes, mappings are merged, everything else takes the place of what was there.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            if let Value::Object(target) = target {
                target.remove(key);
            }
        } else {
            merge(slot(target, key), value);
        }
    }
}

/// The place for a key; what was there and is no mapping gives way.
fn slot<'a>(target: &'a mut Value, key: &str) -> &'a mut Value {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    &mut target[key]
}

/// The key by which entries of a list are the same, by the name of the list. Lists that are not here are replaced whole.
pub(super) fn list_key(field: &str) -> Option<&'static str> {
    match field {
        "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets" => {
            Some("name")
        }
        "conditions" | "addresses" => Some("type"),
        "ports" => Some("containerPort"),
        "volumeMounts" => Some("mountPath"),
        "ownerReferences" => Some("uid"),
        "hostAliases" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        _ => None,
    }
}

/// Like a merge, but lists with keys are merged by entry, and `$patch` says what else is meant.
pub(super) fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if text(&Value::Object(patch.clone()), "/$patch") == "replace" {
        let rest = patch.iter().filter(|(key, _)| *key != "$patch");
        *target = Value::Object(rest.map(|(key, value)| (key.clone(), value.clone())).collect());
        return;
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (value, list_key(key)) {
            (Value::Null, _) => {
                if let Value::Object(target) = target {
                    target.remove(key);
                }
            }
            (Value::Array(entries), Some(name)) => merge_list(slot(target, key), entries, name),
            _ => strategic(slot(target, key), value),
        }
    }
}

fn merge_list(target: &mut Value, entries: &[Value], name: &str) {
    if !target.is_array() {
        *target = Value::Array(Vec::new());
    }
    let Value::Array(list) = target else { return };
    for entry in entries {
        let at = list.iter().position(|one| one.get(name) == entry.get(name));
        let removes = text(entry, "/$patch") == "delete";
        match (at, removes) {
            (Some(at), true) => drop(list.remove(at)),
            (Some(at), false) => strategic(&mut list[at], entry),
            (None, true) => {}
            (None, false) => list.push(entry.clone()),
        }
    }
}

/// RFC 6902, without `move` and `copy`.
pub(super) fn json_patch(target: &mut Value, operations: &Value) -> Result<(), Failure> {
    let Value::Array(operations) = operations else {
        return Err(Failure::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value",
        ));
    };
    for operation in operations {
        let (verb, place) = (text(operation, "/op"), text(operation, "/path"));
        let value = operation.get("value").cloned().unwrap_or_default();
        let refused = || {
            let message =
                format!("the server rejected our request due to an error in our request: {verb} {place}");
            Failure::new(422, "Invalid", message)
        };
        operate(target, verb, place, value).ok_or_else(refused)?;
    }
    Ok(())
}

fn operate(target: &mut Value, verb: &str, place: &str, value: Value) -> Option<()> {
    if verb == "test" {
        return (target.pointer(place)? == &value).then_some(());
    }
    let (parent, last) = place.rsplit_once('/')?;
    let last = last.replace("~1", "/").replace("~0", "~");
    match target.pointer_mut(parent)? {
        Value::Object(map) => match verb {
            "add" => drop(map.insert(last, value)),
            "replace" => *map.get_mut(&last)? = value,
            "remove" => drop(map.remove(&last)?),
            _ => return None,
        },
        Value::Array(entries) => {
            let index = if last == "-" { entries.len() } else { last.parse().ok()? };
            match verb {
                "add" if index <= entries.len() => entries.insert(index, value),
                "replace" => *entries.get_mut(index)? = value,
                "remove" if index < entries.len() => drop(entries.remove(index)),
                _ => return None,
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merging_removes_by_null_and_replaces_lists() {
        let mut target = json!({ "a": { "b": 1, "c": 2 }, "l": [1, 2] });
        merge(&mut target, &json!({ "a": { "b": null, "d": { "e": 1 } }, "l": [3] }));
        assert_eq!(target, json!({ "a": { "c": 2, "d": { "e": 1 } }, "l": [3] }));
    }

    #[test]
    fn a_strategic_merge_finds_entries_by_their_key() {
        let mut target = json!({ "conditions": [{ "type": "Ready", "status": "False" }, { "type": "Old", "status": "True" }], "taints": [1] });
        let patch = json!({ "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Old", "$patch": "delete" }], "taints": [2] });
        strategic(&mut target, &patch);
        assert_eq!(target, json!({ "conditions": [{ "type": "Ready", "status": "True" }], "taints": [2] }));
    }

    #[test]
    fn a_json_patch_is_done_in_order_or_refused() {
        let mut target = json!({ "metadata": { "labels": { "a/b": "1" } }, "l": [1] });
        let patch = json!([
            { "op": "test", "path": "/metadata/labels/a~1b", "value": "1" },
            { "op": "remove", "path": "/metadata/labels/a~1b" },
            { "op": "add", "path": "/l/-", "value": 2 },
            { "op": "replace", "path": "/l/0", "value": 0 },
        ]);
        json_patch(&mut target, &patch).unwrap();
        assert_eq!(target, json!({ "metadata": { "labels": {} }, "l": [0, 2] }));
        let missing = json!([{ "op": "remove", "path": "/metadata/labels/x" }]);
        assert_eq!(json_patch(&mut target, &missing).unwrap_err().code, 422);
    }
}
