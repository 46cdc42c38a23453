//! The replay must see when a recorded reply is another one: one thing is changed in many pairs that are reproduced, and
//! nearly all of them must no longer count.

use std::path::Path;

use serde_json::{Value, json};
use xtask::truth;

/// Pairs changed in one replay.
const MANY: usize = 40;
/// Replies that tell of a state confirm one another where they stand side by side: fewer are changed at once.
const FEW: usize = 10;
const SEEN_OF_A_HUNDRED: usize = 95;

/// Changes the pair, if it is one the mutation is about; the number varies what is changed.
type Mutation = fn(&mut Value, usize) -> bool;

#[expect(clippy::disallowed_methods, reason = "test data")]
fn read(path: &Path) -> Value {
    let bytes = std::fs::read(path).expect("the recordings can be read");
    serde_json::from_slice(&bytes).expect("the recordings are JSON")
}

/// The recordings and their worlds; only CI insists on them.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn recordings() -> Option<(Value, Value)> {
    let folder = truth::shared_data();
    if !folder.join("pve-transcripts.json").exists() {
        let strict = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!strict, "no {}", folder.display());
        println!("skipped: no ../shared/data");
        return None;
    }
    Some((read(&folder.join("pve-transcripts.json")), read(&folder.join("pve-worlds.json"))))
}

fn is_get(pair: &Value, end: &str) -> bool {
    let path = pair["request"]["path"].as_str().unwrap_or_default();
    pair["request"]["method"] == "GET" && pair["response"]["status"] == 200 && path.ends_with(end)
}

fn is_of_task(pair: &Value) -> bool {
    pair["request"]["path"].as_str().is_some_and(|path| path.contains("/tasks/UPID"))
}

fn status(pair: &mut Value, _: usize) -> bool {
    let other = if pair["response"]["status"] == 200 { 500 } else { 200 };
    pair["response"]["status"] = json!(other);
    true
}

fn reason(pair: &mut Value, _: usize) -> bool {
    let text = format!("{} indeed", pair["response"]["reason"].as_str().unwrap_or_default());
    pair["response"]["reason"] = json!(text);
    true
}

fn error_map(pair: &mut Value, _: usize) -> bool {
    let errors = pair.pointer_mut("/response/body/errors").and_then(Value::as_object_mut);
    let Some(message) = errors.and_then(|errors| errors.values_mut().next()) else { return false };
    *message = json!("another message");
    true
}

fn config_value(pair: &mut Value, number: usize) -> bool {
    if !is_get(pair, "/config") {
        return false;
    }
    let Some(map) = pair.pointer_mut("/response/body/data").and_then(Value::as_object_mut) else {
        return false;
    };
    let count = map.len();
    let Some((_, value)) = map.iter_mut().filter(|(key, _)| *key != "digest").nth(number % count.max(2) / 2)
    else {
        return false;
    };
    *value = match value.as_i64() {
        Some(number) => json!(number + 1),
        None => json!(format!("{}x", value.as_str().unwrap_or_default())),
    };
    true
}

fn task_exit(pair: &mut Value, _: usize) -> bool {
    let Some(exit) = pair.pointer_mut("/response/body/data/exitstatus") else { return false };
    *exit = json!(if *exit == "OK" { "something went wrong" } else { "OK" });
    true
}

fn invented_line(pair: &mut Value, number: usize) -> bool {
    if !(is_get(pair, "/log") && is_of_task(pair)) {
        return false;
    }
    let invented =
        ["2026 was a year", " OK", "transferred nothing", "Length: 5", "decompressing it", "hello"];
    let Some(lines) = pair.pointer_mut("/response/body/data").and_then(Value::as_array_mut) else {
        return false;
    };
    lines.insert(0, json!({"n": 0, "t": invented[number % invented.len()]}));
    for (line, number) in lines.iter_mut().zip(1..) {
        line["n"] = json!(number);
    }
    true
}

fn line_number(pair: &mut Value, _: usize) -> bool {
    let Some(number) = pair.pointer_mut("/response/body/data/0/n") else { return false };
    *number = json!(7);
    true
}

fn log_total(pair: &mut Value, _: usize) -> bool {
    // Where progress is printed the length of a log is chance.
    let timed = ["transferred", "trying to acquire"];
    let text = pair["response"]["body"].to_string();
    if !(is_get(pair, "/log") && is_of_task(pair)) || timed.iter().any(|word| text.contains(word)) {
        return false;
    }
    let Some(total) = pair.pointer_mut("/response/body/total") else { return false };
    *total = json!(total.as_u64().unwrap_or_default() + 3);
    true
}

/// The first number under one of the names, at any depth.
fn measured(value: &mut Value) -> Option<&mut Value> {
    let names = ["cpu", "mem", "uptime", "pid", "starttime", "used", "avail", "ctime", "free"];
    match value {
        Value::Object(map) => map.iter_mut().find_map(|(key, value)| {
            if names.contains(&key.as_str()) && value.is_number() { Some(value) } else { measured(value) }
        }),
        Value::Array(list) => list.iter_mut().find_map(measured),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn measured_type(pair: &mut Value, _: usize) -> bool {
    let Some(value) = pair.pointer_mut("/response/body/data").and_then(measured) else { return false };
    *value = json!("zzz");
    true
}

fn lost_key(pair: &mut Value, _: usize) -> bool {
    let Some(data) = pair.pointer_mut("/response/body/data") else { return false };
    let map = if data.is_array() { data.get_mut(0) } else { Some(data) };
    let Some(map) = map.and_then(Value::as_object_mut) else { return false };
    let Some(key) = map.keys().next_back().cloned() else { return false };
    map.remove(&key).is_some()
}

fn lost_entry(pair: &mut Value, number: usize) -> bool {
    // A machine has as many parts as it has, and its log as many lines.
    let path = pair["request"]["path"].as_str().unwrap_or_default();
    if path.contains("/hardware/") || path.ends_with("/cluster/log") {
        return false;
    }
    let Some(list) = pair.pointer_mut("/response/body/data").and_then(Value::as_array_mut) else {
        return false;
    };
    if list.is_empty() {
        return false;
    }
    list.remove(number % list.len());
    true
}

/// A refusal because of a lock where none was.
fn lock_refused(pair: &mut Value, _: usize) -> bool {
    let is_config = pair["request"]["path"].as_str().is_some_and(|path| path.ends_with("/config"));
    if !(is_config && pair["request"]["method"] == "PUT" && pair["response"]["status"] == 200) {
        return false;
    }
    pair["response"]["status"] = json!(500);
    pair["response"]["reason"] = json!("VM is locked (backup)");
    pair["response"]["body"] = json!({"data": null, "message": "VM is locked (backup)\n"});
    true
}

/// No refusal where a lock was.
fn lock_ignored(pair: &mut Value, _: usize) -> bool {
    if !pair["response"]["reason"].as_str().is_some_and(|reason| reason.starts_with("VM is locked")) {
        return false;
    }
    pair["response"]["status"] = json!(200);
    pair["response"]["reason"] = json!("OK");
    pair["response"]["body"] = json!({"data": null});
    true
}

/// A host that does not answer where it did.
fn host_gone(pair: &mut Value, _: usize) -> bool {
    if !pair["request"]["path"].as_str().is_some_and(|path| path.starts_with("/api2/json/nodes/")) {
        return false;
    }
    pair["response"] = json!({"status": 595, "reason": "No route to host", "content_type": null, "body": ""});
    true
}

const MUTATIONS: [(&str, Mutation, usize); 14] = [
    ("status", status, MANY),
    ("reason", reason, MANY),
    ("error map", error_map, MANY),
    ("value of a configuration", config_value, MANY),
    ("exit of a task", task_exit, MANY),
    ("invented line of a log", invented_line, MANY),
    ("number of a line", line_number, MANY),
    ("total of a log", log_total, MANY),
    ("type of a measured value", measured_type, MANY),
    ("lost key", lost_key, MANY),
    ("lost entry of a list", lost_entry, MANY),
    ("refused for a lock", lock_refused, FEW),
    ("lock ignored", lock_ignored, FEW),
    ("host gone", host_gone, FEW),
];

#[test]
fn changed_replies_are_seen() {
    let Some((pairs, worlds)) = recordings() else { return };
    let reproduced = truth::replay_values(pairs.clone(), worlds.clone()).unwrap().reproduced_pairs;
    let (mut all, mut seen, mut weak) = (0, 0, Vec::new());
    for (name, mutation, at_once) in MUTATIONS {
        let fits = |number: &&usize| mutation(&mut pairs[**number].clone(), **number);
        let candidates: Vec<usize> = reproduced.iter().filter(fits).copied().collect();
        let stride = candidates.len().div_ceil(at_once).max(1);
        let chosen: Vec<usize> = candidates.into_iter().step_by(stride).collect();
        let mut changed = pairs.clone();
        for number in &chosen {
            mutation(&mut changed[*number], *number);
        }
        let report = truth::replay_values(changed, worlds.clone()).unwrap();
        let missed: Vec<usize> =
            chosen.iter().copied().filter(|number| report.reproduced_pairs.contains(number)).collect();
        assert!(!chosen.is_empty(), "{name}: nothing to change");
        all += chosen.len();
        seen += chosen.len() - missed.len();
        if missed.len() * 100 > chosen.len() * (100 - SEEN_OF_A_HUNDRED) {
            weak.push(format!("{name}: {} of {} unseen: {missed:?}", missed.len(), chosen.len()));
        }
    }
    assert!(weak.is_empty(), "seen {seen} of {all}\n{}", weak.join("\n"));
    assert!(seen * 100 >= all * SEEN_OF_A_HUNDRED, "seen {seen} of {all}");
}
