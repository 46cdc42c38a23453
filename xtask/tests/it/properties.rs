//! Every option value of the recordings: what the server accepted the simulator accepts, and what the server prints is
//! the simulator's normal form.

use std::collections::BTreeSet;

use serde_json::Value;
use talmox_sim::normal_form;
use xtask::truth;

/// Options whose values the server prints anew.
fn is_printed(key: &str) -> bool {
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    family != key
        && ["scsi", "ide", "sata", "virtio", "efidisk", "tpmstate", "net", "unused"].contains(&family)
}

#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "test data, which only CI insists on")]
fn pairs() -> Option<Vec<Value>> {
    let file = truth::shared_data().join("pve-transcripts.json");
    if !file.exists() {
        let strict = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!strict, "no {}", file.display());
        println!("skipped: no ../shared/data");
        return None;
    }
    let bytes = std::fs::read(file).expect("the recordings can be read");
    Some(serde_json::from_slice(&bytes).expect("the recordings are JSON"))
}

type Options = BTreeSet<(String, String)>;

/// Options and values of requests that succeeded, and of configurations that were read.
fn values(pairs: &[Value]) -> (Options, Options) {
    let (mut sent, mut read) = (Options::new(), Options::new());
    for pair in pairs.iter().filter(|pair| pair["response"]["status"] == 200) {
        let path = pair["request"]["path"].as_str().unwrap_or_default();
        let is_config = path.ends_with("/config") || path.ends_with("/qemu");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let options = |map: &Value| -> Vec<(String, String)> {
            map.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
        };
        if is_config && pair["request"]["method"] == "GET" {
            read.extend(options(&pair["response"]["body"]["data"]));
        } else if is_config {
            sent.extend(options(&pair["request"]["params"]));
        }
    }
    (sent, read)
}

#[test]
fn accepted_values_have_a_normal_form_that_is_its_own() {
    let Some(pairs) = pairs() else { return };
    let (sent, read) = values(&pairs);
    let mut seen = 0;
    for (key, value) in sent.union(&read).filter(|(key, _)| is_printed(key)) {
        let once = normal_form(key, value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
        assert_eq!(normal_form(key, &once).as_ref(), Ok(&once), "{key}={value}");
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_the_server_prints_is_normal() {
    let Some(pairs) = pairs() else { return };
    let (_, read) = values(&pairs);
    for (key, value) in read.iter().filter(|(key, _)| is_printed(key)) {
        assert_eq!(normal_form(key, value).as_ref(), Ok(value), "{key}");
    }
}

#[test]
fn accepted_options_are_accepted() {
    let Some(pairs) = pairs() else { return };
    let (sent, _) = values(&pairs);
    let not_options =
        ["vmid", "pool", "storage", "import-working-storage", "delete", "revert", "digest", "start", "full"];
    for (key, value) in sent.iter().filter(|(key, _)| !not_options.contains(&key.as_str())) {
        assert!(normal_form(key, value).is_ok(), "{key}={value}: {:?}", normal_form(key, value));
    }
}
