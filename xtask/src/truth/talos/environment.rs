//! What the recordings' surroundings lacked, as far as the nodes say so.
//!
//! Nobody wrote down when the registry beside the nodes had the kubelet's image, and when a time server could be reached. The
//! last words of a group about either tell it for the whole group.

use std::collections::BTreeMap;

use serde_json::Value;

use super::file::Call;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    /// The kubelet's image can be pulled.
    pub(super) kubelet: bool,
    /// A time server answers.
    pub(super) clock: bool,
}

impl Default for Environment {
    fn default() -> Self {
        Self { kubelet: true, clock: true }
    }
}

/// Images the registry said it did not have.
pub(super) fn missing_images(calls: &[Call]) -> Vec<String> {
    let refused = calls.iter().filter_map(|call| call.message.split_once("failed to resolve reference \""));
    let mut found: Vec<String> =
        refused.filter_map(|(_, rest)| Some(rest.split_once('"')?.0.to_owned())).collect();
    found.sort();
    found.dedup();
    found
}

/// By group.
pub(super) fn environments(calls: &[Call]) -> BTreeMap<String, Environment> {
    let mut found: BTreeMap<String, Environment> = BTreeMap::new();
    for call in calls {
        let environment = found.entry(call.group.clone()).or_default();
        look(&call.reply, environment);
    }
    found
}

fn look(value: &Value, environment: &mut Environment) {
    match value {
        Value::String(text) if text.starts_with("stage: booting") || text.starts_with("stage: running") => {
            environment.kubelet = !text.contains("kubelet not running");
            environment.clock = !text.contains("time is not synced");
        }
        Value::Object(map) => {
            if map.get("id").and_then(Value::as_str) == Some("kubelet") {
                let state = map.get("state").and_then(Value::as_str);
                environment.kubelet = state.map_or(environment.kubelet, |state| state == "Running");
            }
            map.values().for_each(|value| look(value, environment));
        }
        Value::Array(items) => items.iter().for_each(|value| look(value, environment)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
