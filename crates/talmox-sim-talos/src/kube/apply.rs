//! Server-side apply: who says a field owns it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::failure::Failure;
use super::fields::{Managed, Way, Writer, at, entry, fields, keep_managers, remove, spelled};
use super::patch::list_key;

/// The object after an apply: what is there, with what was sent in its place, and without what the manager once sent and
/// now does not. Fields of others that would change are a conflict, unless it is forced.
pub(super) fn apply(live: &Value, sent: &Value, writer: &Writer<'_>, force: bool) -> Result<Value, Failure> {
    let wanted = fields(sent);
    let mut managers = Managed::read_all(live);
    let conflicts = conflicts(live, sent, &wanted, &managers, writer);
    if !conflicts.is_empty() && !force {
        let told: Vec<(String, String)> =
            conflicts.iter().map(|(index, way)| (managers[*index].spelled(), spelled(way))).collect();
        return Err(Failure::apply_conflict(&told));
    }
    for (index, way) in &conflicts {
        managers[*index].fields.remove(way);
    }
    let mut result = live.clone();
    overlay(&mut result, sent, "");
    let api_version = sent.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let own = entry(&mut managers, writer, "Apply", api_version);
    let before = std::mem::replace(&mut own.fields, wanted.clone());
    for way in before.difference(&wanted) {
        if !managers.iter().any(|one| one.fields.contains(way)) {
            remove(&mut result, way);
        }
    }
    keep_managers(&mut result, &managers);
    Ok(result)
}

/// Fields that another manager has and this would change, with whose they are.
fn conflicts(
    live: &Value,
    sent: &Value,
    wanted: &BTreeSet<Way>,
    managers: &[Managed],
    writer: &Writer<'_>,
) -> Vec<(usize, Way)> {
    let mut found = Vec::new();
    for (index, one) in managers.iter().enumerate() {
        if one.manager == writer.manager && one.operation == "Apply" {
            continue;
        }
        // Entries of lists are shared; only what stands in them can differ.
        let theirs = wanted.iter().filter(|way| way.last().is_none_or(|step| step != "."));
        for way in theirs.filter(|way| one.fields.contains(*way)) {
            if at(live, way) != at(sent, way) {
                found.push((index, way.clone()));
            }
        }
    }
    found
}

/// Puts what was sent over what is there; entries of lists with keys are found by them, other lists are replaced.
fn overlay(target: &mut Value, sent: &Value, name: &str) {
    match (&mut *target, sent) {
        (Value::Object(target), Value::Object(sent)) => {
            for (key, value) in sent {
                if value.is_null() {
                    target.remove(key);
                } else {
                    overlay(target.entry(key).or_insert(Value::Null), value, key);
                }
            }
        }
        (Value::Array(target), Value::Array(sent)) if name == "finalizers" => {
            let new: Vec<Value> = sent.iter().filter(|entry| !target.contains(entry)).cloned().collect();
            target.extend(new);
        }
        (Value::Array(target), Value::Array(sent)) if list_key(name).is_some() => {
            let key = list_key(name).unwrap_or_default();
            for entry in sent {
                match target.iter_mut().find(|one| one.get(key) == entry.get(key)) {
                    Some(one) => overlay(one, entry, ""),
                    None => target.push(entry.clone()),
                }
            }
        }
        (target, sent) => *target = sent.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn by(manager: &str) -> Writer<'_> {
        Writer { manager, subresource: "", now: 0 }
    }

    fn map(data: &Value) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
    }

    #[test]
    fn fields_are_shared_fought_for_and_let_go() {
        let one = apply(&map(&json!({})), &map(&json!({ "a": "1", "b": "1" })), &by("one"), false).unwrap();
        let two = apply(&one, &map(&json!({ "b": "1", "c": "2" })), &by("two"), false).unwrap();
        assert_eq!(two["data"], json!({ "a": "1", "b": "1", "c": "2" }));
        let error = apply(&two, &map(&json!({ "a": "9", "c": "9" })), &by("three"), false).unwrap_err();
        let message = error.to_json()["message"].as_str().unwrap().to_owned();
        assert_eq!(
            message,
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with \"two\":\n- .data.c"
        );
        let forced = apply(&two, &map(&json!({ "a": "9" })), &by("three"), true).unwrap();
        assert_eq!(forced["data"]["a"], "9");
        // b is still two's; a is three's now.
        let left = apply(&forced, &map(&json!({})), &by("one"), false).unwrap();
        assert_eq!(left["data"], json!({ "a": "9", "b": "1", "c": "2" }));
        let left = apply(&left, &map(&json!({ "c": "2" })), &by("two"), false).unwrap();
        assert_eq!(left["data"], json!({ "a": "9", "c": "2" }));
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let sent = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" },
            "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i" }] } } },
        });
        let once = apply(&json!({}), &sent, &by("one"), false).unwrap();
        assert_eq!(apply(&once, &sent, &by("one"), false).unwrap(), once);
    }
}
