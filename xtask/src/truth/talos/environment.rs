//! What the recordings' surroundings lacked, as far as the nodes say so.
//!
//! Nobody wrote down when the registry beside the nodes had the kubelet's image, and when a time server could be reached. What
//! nodes say about either in a group tells it for the whole group, and for those after it that say nothing.

use std::collections::BTreeMap;
use std::net::IpAddr;

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

/// What groups say about theirs; most say nothing.
pub(super) fn environments(calls: &[Call]) -> BTreeMap<String, Environment> {
    let mut found: BTreeMap<String, Signs> = BTreeMap::new();
    for call in calls {
        look(&call.reply, found.entry(call.group.clone()).or_default());
    }
    found.into_iter().filter_map(|(group, signs)| Some((group, signs.environment()?))).collect()
}

/// What was seen of the kubelet and of the clock.
#[derive(Default)]
struct Signs {
    kubelet_up: bool,
    kubelet_down: bool,
    unsynced: bool,
}

impl Signs {
    /// A kubelet that was up once had its image.
    fn environment(&self) -> Option<Environment> {
        let Self { kubelet_up, kubelet_down, unsynced } = *self;
        (kubelet_up || kubelet_down || unsynced)
            .then_some(Environment { kubelet: kubelet_up || !kubelet_down, clock: !unsynced })
    }
}

fn look(value: &Value, signs: &mut Signs) {
    match value {
        Value::String(text) if text.starts_with("stage: booting") || text.starts_with("stage: running") => {
            let down = text.contains("kubelet not running");
            signs.kubelet_down |= down;
            signs.kubelet_up |= !down;
            signs.unsynced |= text.contains("time is not synced");
        }
        Value::Object(map) => {
            if map.get("id").and_then(Value::as_str) == Some("kubelet") {
                let state = map.get("state").and_then(Value::as_str);
                signs.kubelet_up |= state == Some("Running");
                signs.kubelet_down |= state.is_some_and(|state| state != "Running");
            }
            map.values().for_each(|value| look(value, signs));
        }
        Value::Array(items) => items.iter().for_each(|value| look(value, signs)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The names hosts had, by the address they were called at: from what they say of their node of Kubernetes.
pub(super) fn hosts(calls: &[Call]) -> BTreeMap<IpAddr, String> {
    let mut found = BTreeMap::new();
    for call in calls.iter().filter(|call| call.metadata.is_none()) {
        let Some(address) = call.address() else { continue };
        let text = call.reply.to_string();
        let Some((_, rest)) = text.split_once("reason: node \\\"") else { continue };
        let Some((name, _)) = rest.split_once("\\\"") else { continue };
        found.entry(address).or_insert_with(|| name.to_owned());
    }
    found
}

/// What nodes are: those that were called directly say so, others are control planes if they do what only those do.
pub(super) fn roles(calls: &[Call]) -> BTreeMap<IpAddr, String> {
    let mut found = BTreeMap::new();
    for call in calls.iter().filter(|call| call.code == "OK") {
        let target: Option<IpAddr> = call.values("node").next().and_then(|text| text.parse().ok());
        let control_plane = call.method.contains("/Etcd")
            || call.method.ends_with("/Kubeconfig")
            || ["controlplane", "etcd"].iter().any(|name| call.request["namespace"] == *name);
        match (target, call.address()) {
            (Some(target), _) if control_plane => {
                found.insert(target, "controlplane".to_owned());
            }
            (None, Some(address)) if call.node_role != "none" => {
                found.entry(address).or_insert_with(|| call.node_role.clone());
            }
            _ => {}
        }
    }
    found
}
