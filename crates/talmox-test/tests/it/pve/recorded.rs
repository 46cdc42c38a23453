//! The outcomes of many at once, counted in the recordings themselves.

use std::collections::BTreeMap;

use serde_json::Value;
use talmox_test::shared_data;

use crate::pve::concurrency::{
    EIGHT_CREATES, SIX_CLONES_TO_ONE_ID, SIX_CLONES_TO_SIX_IDS, SIX_DELETES, STOP_DURING_SHUTDOWN,
    STOPPED_WHILE_WAITING, counted,
};

/// How the recorded task ended.
fn exit(pairs: &[Value], upid: &str) -> Option<String> {
    let status = |pair: &&Value| {
        pair["request"]["path"].as_str().is_some_and(|path| path.contains(upid) && path.ends_with("/status"))
    };
    let mut exits = pairs
        .iter()
        .filter(status)
        .filter_map(|pair| pair["response"]["body"]["data"]["exitstatus"].as_str());
    exits.next_back().map(str::to_owned)
}

/// How often each text came of the calls with this note.
fn outcomes(pairs: &[Value], note: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair["note"] == note) {
        let reply = &pair["response"];
        let message = reply["body"]["message"].as_str().unwrap_or_default().trim();
        let text = match reply["body"]["data"].as_str().map(|upid| exit(pairs, upid)) {
            None => format!("{}: {message}", reply["status"]),
            Some(exit) if exit.as_deref() == Some("OK") => "OK".to_owned(),
            Some(exit) => format!("task: {}", exit.unwrap_or_default()),
        };
        *counts.entry(text).or_default() += 1;
    }
    counts
}

#[test]
fn the_recordings_say_the_same() {
    let Some(Value::Array(pairs)) = shared_data::json("pve-transcripts.json") else { return };
    let task = |words: &str| BTreeMap::from([(format!("task: {words}"), 1)]);
    for (note, expected) in [
        ("8 parallel requests: create the same id 164", counted(EIGHT_CREATES)),
        ("6 parallel clones to the same newid", counted(SIX_CLONES_TO_ONE_ID)),
        ("6 parallel clones of one template to 6 ids", counted(SIX_CLONES_TO_SIX_IDS)),
        ("6 parallel deletes of one VM", counted(SIX_DELETES)),
        ("clone a locked VM", counted(&[("500: VM is locked (backup)", 1)])),
        ("stop while shutdown task holds no lock", task(STOP_DURING_SHUTDOWN)),
        ("stop with overrule-shutdown", counted(&[("OK", 1)])),
    ] {
        assert_eq!(outcomes(&pairs, note), expected, "{note}");
    }
    let aborted = pairs.iter().find(|pair| pair["note"] == "aborted task").unwrap();
    assert_eq!(aborted["response"]["body"]["data"]["exitstatus"], STOPPED_WHILE_WAITING);
}
