//! Every property string a genuine server took or showed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use talmox_test::shared_data;

use crate::property_strings::agree::{Verdict, judge};
use crate::property_strings::client;
use crate::property_strings::server::Server;

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Keys and values of VMs in requests that were accepted.
fn accepted(pairs: &[Value]) -> BTreeSet<(String, String)> {
    let about_vms = |pair: &&Value| {
        pair["response"]["status"] == 200
            && matches!(pair["request"]["method"].as_str(), Some("POST" | "PUT"))
            && pair["request"]["path"].as_str().is_some_and(|path| path.contains("/qemu"))
    };
    let params = pairs.iter().filter(about_vms).filter_map(|pair| pair["request"]["params"].as_object());
    params.flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

/// Keys and values in configurations that were shown.
fn shown(pairs: &[Value]) -> BTreeSet<(String, String)> {
    let bodies = pairs.iter().map(|pair| &pair["response"]["body"]["data"]);
    let configs = bodies.filter_map(Value::as_object).filter(|data| data.contains_key("digest"));
    configs.flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

fn judged(values: &BTreeSet<(String, String)>) -> (BTreeMap<Verdict, usize>, Vec<String>) {
    let mut counts = BTreeMap::new();
    let mut disagreements = Vec::new();
    for (key, value) in values.iter().filter(|(key, value)| client::print(key, value).is_some()) {
        let mut server = Server::new();
        server.prepare(key, value);
        match judge(&server, key, value) {
            Ok(verdict) => *counts.entry(verdict).or_default() += 1,
            Err(problem) => disagreements.push(format!("{key}={value}: {problem}")),
        }
    }
    (counts, disagreements)
}

#[test]
fn values_a_server_accepted() {
    let Some(Value::Array(pairs)) = shared_data::json("pve-transcripts.json") else { return };
    let (counts, disagreements) = judged(&accepted(&pairs));
    assert_eq!(disagreements, Vec::<String>::new());
    assert!(counts[&Verdict::BothTake] > 50, "too few values found: has the layout changed? {counts:?}");
}

#[test]
fn values_a_server_showed() {
    let Some(Value::Array(pairs)) = shared_data::json("pve-transcripts.json") else { return };
    let (counts, disagreements) = judged(&shown(&pairs));
    assert_eq!(disagreements, Vec::<String>::new());
    assert!(counts[&Verdict::BothTake] > 90, "too few values found: has the layout changed? {counts:?}");
}
