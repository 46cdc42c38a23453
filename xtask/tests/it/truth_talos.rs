//! Simulated Talos nodes are held to the recorded truth: what they once reproduced they must go on reproducing.

use std::path::{Path, PathBuf};

use serde_json::Value;
use xtask::truth::{self, talos};

/// What was reached; raise it with the simulator, never lower it.
const CODE_OF_A_THOUSAND: usize = 990;
const WHOLE_OF_A_THOUSAND: usize = 950;

/// The same for what was done to a cluster that lives.
const DAY_TWO_CODE_OF_A_THOUSAND: usize = 970;
const DAY_TWO_WHOLE_OF_A_THOUSAND: usize = 880;

/// The recordings; only CI insists on them.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn transcripts(name: &str) -> Option<PathBuf> {
    let file = truth::shared_data().join("talos-transcripts").join(name);
    if file.exists() {
        return Some(file);
    }
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!strict, "no {}", file.display());
    println!("skipped: no ../shared/data");
    None
}

#[expect(clippy::disallowed_methods, reason = "test data")]
fn calls(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("the transcripts can be read");
    serde_json::from_str(&text).expect("they are JSON")
}

#[test]
fn the_recorded_replies_are_reproduced() {
    let Some(transcripts) = transcripts(talos::FILES[0]) else { return };
    let report = talos::replay(&transcripts).unwrap();
    assert!(report.in_scope > 900, "{} in scope", report.in_scope);
    hold(&report, CODE_OF_A_THOUSAND, WHOLE_OF_A_THOUSAND);
}

#[test]
fn what_was_done_to_a_cluster_that_lives_is_reproduced() {
    let Some(transcripts) = transcripts(talos::FILES[1]) else { return };
    let report = talos::replay(&transcripts).unwrap();
    assert!(report.in_scope > 530, "{} in scope", report.in_scope);
    hold(&report, DAY_TWO_CODE_OF_A_THOUSAND, DAY_TWO_WHOLE_OF_A_THOUSAND);
    // A changed reply is noticed there as well.
    let all = calls(&transcripts);
    for (name, change) in CHANGES {
        let group = "upgrade-k8s-dry-run@1.13.9";
        let mut changed: Vec<Value> = all.iter().filter(|call| call["group"] == group).cloned().collect();
        let before = talos::replay_values(&Value::Array(changed.clone()), &transcripts).unwrap();
        let Some(number) = before.reproduced_calls.iter().rev().find(|number| change(&mut changed[**number]))
        else {
            continue;
        };
        let after = talos::replay_values(&Value::Array(changed), &transcripts).unwrap();
        assert!(!after.reproduced_calls.contains(number), "{name} is not noticed at {number}");
    }
}

fn hold(report: &talos::Report, code: usize, whole: usize) {
    let talos::Report { in_scope, reproduced_code, reproduced, differences, .. } = report;
    let listed: Vec<String> =
        differences.iter().map(|one| format!("{} #{} {:?}", one.group, one.seq, one.what)).collect();
    let listed = listed.join("\n");
    assert!(reproduced_code * 1000 >= in_scope * code, "{reproduced_code} of {in_scope}:\n{listed}");
    assert!(reproduced * 1000 >= in_scope * whole, "{reproduced} of {in_scope}:\n{listed}");
}

/// Every group starts from its recorded state, so it does not need the ones before it.
#[test]
fn groups_stand_alone() {
    let Some(transcripts) = transcripts(talos::FILES[0]) else { return };
    let all = calls(&transcripts);
    let wanted =
        ["running-cosi@1.13.9", "etcd@1.13.9", "worker@1.13.9", "auth@1.13.9", "maintenance-cosi@1.12.11"];
    for group in wanted {
        let calls: Vec<Value> = all.iter().filter(|call| call["group"] == group).cloned().collect();
        let report = talos::replay_values(&Value::Array(calls), &transcripts).unwrap();
        let talos::Report { in_scope, reproduced, .. } = report;
        assert!(
            reproduced * 100 >= in_scope * 85,
            "{group}: {reproduced} of {in_scope} {:?}",
            report.differences
        );
    }
}

/// A reply that is not the recorded one is noticed: each call is made with its reply changed in one place, one change in
/// several runs so that every sort of place is met.
#[test]
fn changed_replies_are_noticed() {
    let Some(transcripts) = transcripts(talos::FILES[0]) else { return };
    let all = calls(&transcripts);
    let report = talos::replay_values(&Value::Array(all.clone()), &transcripts).unwrap();
    for (offset, (name, change)) in CHANGES.into_iter().enumerate() {
        // A changed reply must not lead later calls astray, so only some are changed, others each time.
        let mut changed = all.clone();
        let mut numbers = Vec::new();
        for number in report.reproduced_calls.iter().skip(offset).step_by(23) {
            if change(&mut changed[*number]) {
                numbers.push(*number);
            }
        }
        assert!(!numbers.is_empty(), "{name} changes nothing");
        let after = talos::replay_values(&Value::Array(changed), &transcripts).unwrap();
        let missed: Vec<String> = numbers
            .iter()
            .filter(|number| after.reproduced_calls.contains(number))
            .map(|number| format!("{} #{}", all[*number]["group"], all[*number]["seq"]))
            .collect();
        assert!(missed.is_empty(), "{name}: {} of {} not noticed: {missed:?}", missed.len(), numbers.len());
    }
}

type Change = fn(&mut Value) -> bool;

const CHANGES: [(&str, Change); 5] = [
    ("another code", other_code),
    ("another message", other_message),
    ("one field less", one_field_less),
    ("one resource more", one_resource_more),
    ("another phase", other_phase),
];

fn other_code(call: &mut Value) -> bool {
    let other = if call["code"] == "DataLoss" { "Aborted" } else { "DataLoss" };
    call["code"] = other.into();
    true
}

/// Words of the client's own library are not compared.
fn other_message(call: &mut Value) -> bool {
    let message = call["message"].as_str().unwrap_or_default().to_owned();
    let own = [
        "deadline",
        "cancel",
        "connection error",
        "transport",
        "RST_STREAM",
        "broken pipe",
        "reading from server",
    ];
    if message.is_empty() || own.iter().any(|words| message.contains(words)) {
        return false;
    }
    call["message"] = format!("x{message}").into();
    true
}

/// The first field of the first message of a reply that is no stream; those that are measured aside.
fn one_field_less(call: &mut Value) -> bool {
    let Some(message) = call.pointer_mut("/reply/messages/0").and_then(Value::as_object_mut) else {
        return false;
    };
    let Some(key) = message.keys().next().cloned() else { return false };
    message.remove(&key);
    true
}

fn one_resource_more(call: &mut Value) -> bool {
    if call["method"] != "cosi.resource.State/List" {
        return false;
    }
    let Some(stream) = call.pointer_mut("/reply/stream").and_then(Value::as_array_mut) else { return false };
    let Some(mut more) = stream.first().cloned() else { return false };
    more["msg"]["resource"]["metadata"]["id"] = "one-more".into();
    stream.push(more);
    true
}

fn other_phase(call: &mut Value) -> bool {
    let Some(phase) = call.pointer_mut("/reply/stream/0/msg/resource/metadata/phase") else { return false };
    *phase = "tearingDown".into();
    true
}
