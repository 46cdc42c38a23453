//! Authorities that end soon: `status` says so thirty days before, with what to type, and typing it helps.

use std::time::{SystemTime, UNIX_EPOCH};

use insta::assert_snapshot;
use secrecy::ExposeSecret as _;
use talmox_machine::{Bundle, Source, SystemRandom, Time};
use talmox_types::Contract;

use crate::doing::{CLUSTER, Lab, Run};
use crate::support::{command, finish};

const DAY: i64 = 86_400;
/// How long authorities live that Talos and we make.
const LIFETIME: i64 = 3_650 * DAY;

const ALONE: &str = "nodes: [{name: cp-1, address: 10.0.7.11, controller: true}]\n";

/// A cluster's secrets whose authorities end in so many days and a half: the day is the same however long the test takes.
fn keep_secrets(lab: &Lab, days: i64) {
    keep(lab, &bundle(days));
}

fn bundle(days: i64) -> Bundle {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let made = i64::try_from(since).unwrap() + days * DAY + DAY / 2 - LIFETIME;
    Bundle::generate(Contract::new(1, 13), Time::from_unix(made), &mut SystemRandom).unwrap()
}

fn keep(lab: &Lab, bundle: &Bundle) {
    let path = lab.scratch.0.join("secrets.yaml");
    std::fs::write(path, bundle.to_yaml().expose_secret()).unwrap();
}

fn kept(lab: &Lab) -> Bundle {
    #[expect(clippy::disallowed_methods, reason = "a file the test itself had written")]
    let text = std::fs::read_to_string(lab.scratch.0.join("secrets.yaml")).unwrap();
    Bundle::parse(Source { name: "secrets.yaml", text: &text }).unwrap()
}

/// Runs as far as it goes, without a place for snapshots.
fn run(lab: &Lab, arguments: &[&str]) -> Run {
    lab.run_without_snapshots(arguments)
}

/// With the days of this year, or of any other, replaced.
fn without_days(text: &str) -> String {
    let is_day = |word: &str| {
        let parts: Vec<&str> = word.split('-').collect();
        parts.len() == 3
            && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let word = |word: &str| {
        let bare = word.trim_matches([',', ';', ':', '(', ')']);
        if is_day(bare) { word.replace(bare, "DAY") } else { word.to_owned() }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(line).collect()
}

/// With the size of etcd's database replaced: it grows with the time that passes, and a slow machine lets more of it pass.
fn without_size(text: &str) -> String {
    let (before, after) = text.split_once(", leader cp-1, ").unwrap_or((text, ""));
    match after.split_once(" MiB ") {
        Some((size, rest)) if size.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{before}, leader cp-1, SIZE {rest}")
        }
        _ => text.to_owned(),
    }
}

fn shown(lab: &Lab, text: &str) -> String {
    without_size(&without_days(&lab.filtered(text)))
}

#[test]
fn is_told_with_what_to_type_and_typing_it_helps() {
    let lab = Lab::new("ending");
    let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.9\n");
    lab.describe(&cluster, ALONE);
    keep_secrets(&lab, 20);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert_snapshot!("ending_status", shown(&lab, &status));
    // As it says, on the description's own secrets.
    let folder = lab.scratch.path("");
    let rotate = finish(&mut command(&["secrets", "rotate-ca", "-f", &folder])).succeeded();
    assert_snapshot!("ending_rotate_ca", shown(&lab, &rotate.stderr));
    assert_snapshot!("ending_plan", shown(&lab, &run(&lab, &["plan"]).succeeded().stdout));
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(status.contains("another is to take its place: talmox apply goes on with that"), "{status}");
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert_snapshot!("ending_over", shown(&lab, &status));
}

/// An authority that talmox cannot replace is no reason to do nothing: what does not need it goes on.
#[test]
fn one_that_ended_stops_nothing_that_does_without() {
    let lab = Lab::new("ended");
    let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.9\n");
    lab.describe(&cluster, ALONE);
    keep(&lab, &Bundle { aggregator: bundle(-3).aggregator, ..bundle(300) });
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert_snapshot!("ended_status", shown(&lab, &status));
    let snapshot = lab.scratch.path("etcd.snapshot");
    run(&lab, &["etcd", "snapshot", &snapshot]).succeeded();
    run(&lab, &["plan", "--until", "vms"]).succeeded();
    // As it says: another one in its place, and everything is well.
    keep(&lab, &Bundle { aggregator: bundle(400).aggregator, ..kept(&lab) });
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(!status.contains(" ended "), "{status}");
}

#[test]
fn one_that_lets_nobody_in_is_told_with_what_is_left() {
    let lab = Lab::new("shut-out");
    keep(&lab, &Bundle { os: bundle(-3).os, ..bundle(300) });
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(status.contains("! the Talos authority ended "), "{status}");
    run(&lab, &["plan", "--until", "vms"]).succeeded();
    let apply = run(&lab, &["apply", "--auto-approve"]).failed();
    assert_snapshot!("ended_talos", shown(&lab, &apply.stderr));
    // Keys of others are another matter.
    let mut mixed = bundle(300);
    mixed.etcd.key = bundle(300).etcd.key;
    keep(&lab, &mixed);
    let broken = run(&lab, &["status"]).failed();
    assert!(
        broken.stderr.contains("certs.etcd: the key does not belong to the certificate"),
        "{}",
        broken.stderr
    );
    assert!(broken.stderr.contains("hint: get it from a backup"), "{}", broken.stderr);
}

#[test]
fn a_month_and_a_day_before_nothing_is_said() {
    let lab = Lab::new("not-ending");
    keep_secrets(&lab, 31);
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(!status.contains(" ends ") && !status.contains("! "), "{status}");
}
