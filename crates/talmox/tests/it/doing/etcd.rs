//! Snapshots, and a cluster that is lost and built anew on one: the whole program, a simulated Proxmox.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use std::os::unix::fs::PermissionsExt as _;

use crate::doing::{CLUSTER, Lab, NODES, Run};
use crate::support::finish;
use crate::support::terminal::Terminal;

const PRECIOUS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: precious
  namespace: default
data:
  worth: much
";

fn run(lab: &Lab, arguments: &[&str]) -> Run {
    run_with(lab, arguments, &[])
}

fn run_with(lab: &Lab, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = lab.command(arguments);
    command.env_remove("TALMOX_UNTIL").env("HOME", lab.scratch.path("home"));
    finish(command.envs(variables.iter().copied()))
}

fn json(run: &Run) -> serde_json::Value {
    serde_json::from_str(&run.stdout).unwrap()
}

/// The identity of an object in the simulated Kubernetes, as the world was kept.
fn uid(lab: &Lab, name: &str) -> Option<String> {
    fn find(value: &serde_json::Value, name: &str) -> Option<String> {
        match value {
            serde_json::Value::Object(map) => {
                if map.get("name").and_then(serde_json::Value::as_str) == Some(name)
                    && let Some(uid) = map.get("uid").and_then(serde_json::Value::as_str)
                {
                    return Some(uid.to_owned());
                }
                map.values().find_map(|value| find(value, name))
            }
            serde_json::Value::Array(list) => list.iter().find_map(|value| find(value, name)),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => None,
        }
    }
    let files = std::fs::read_dir(lab.scratch.0.join("world")).unwrap();
    let texts = files.filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
    texts.filter_map(|text| serde_json::from_slice(&text).ok()).find_map(|value| find(&value, name))
}

#[test]
fn all_vms_are_deleted_and_one_command_brings_the_objects_back() {
    let lab = Lab::new("rehearsal");
    let more = "etcd_backup: {dir: backup, keep: 2}\nbootstrap_manifests: [precious.yaml]\n";
    lab.describe(&format!("{CLUSTER}{more}"), NODES);
    std::fs::write(lab.scratch.0.join("precious.yaml"), PRECIOUS).unwrap();
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    let before = uid(&lab, "precious").expect("the object is there");

    let status = json(&run(&lab, &["etcd", "status", "-o", "json"]).succeeded());
    assert_eq!((&status["quorum"], &status["leader"]), (&true.into(), &"cp-1".into()), "{status}");
    assert_eq!(status["nodes"][0]["leads"], true, "{status}");
    let members = json(&run(&lab, &["etcd", "members", "-o", "json"]).succeeded());
    assert_eq!(members["members"][0]["id"], status["nodes"][0]["member"], "{members}");
    assert_eq!(members["members"][0]["id"].as_str().unwrap().len(), 16);

    let file = lab.scratch.path("lab.snapshot");
    let taken = run(&lab, &["etcd", "snapshot", &file]).succeeded();
    assert!(taken.stderr.contains("snapshot of etcd from cp-1: "), "{}", taken.whole());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(run(&lab, &["etcd", "snapshot", &file]).failed().stderr.contains("is there already"));
    let mut pouring = lab.command(&["etcd", "snapshot", "-"]);
    let poured = pouring.env_remove("TALMOX_UNTIL").env("HOME", lab.scratch.path("home")).output().unwrap();
    assert!(poured.status.success() && poured.stdout.len() % 512 == 32, "{} bytes", poured.stdout.len());
    // Those of a simulation stay with it.
    for _ in 0..2 {
        run(&lab, &["etcd", "snapshot"]).succeeded();
    }
    assert!(!lab.scratch.0.join("backup").exists());
    let kept = || {
        let entries = std::fs::read_dir(lab.scratch.0.join("world/etcd-backup")).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "snapshot"))
            .count()
    };
    assert_eq!(kept(), 2);
    run(&lab, &["etcd", "snapshot"]).succeeded();
    assert_eq!(kept(), 2, "the oldest goes");
    let defragmented = json(&run(&lab, &["etcd", "defrag", "-o", "json"]).succeeded());
    assert_eq!(defragmented["members"][0]["node"], "cp-1", "{defragmented}");

    let refused = run(&lab, &["apply", "--auto-approve", "--restore", &file]).failed();
    assert!(refused.stdout.contains("cp-1 has data of etcd"), "{}", refused.whole());

    run(&lab, &["destroy", "--auto-approve"]).succeeded();
    assert!(run(&lab, &["etcd", "status"]).failed().stderr.contains("has etcd running"));
    let planned = run(&lab, &["plan", "--restore", &file]).succeeded();
    assert!(planned.stdout.contains("recover etcd on cp-1"), "{}", planned.stdout);
    let restored = run(&lab, &["apply", "--auto-approve", "--restore", &file]).succeeded();
    assert!(restored.stderr.contains("lab: healthy, 3 nodes as described"), "{}", restored.whole());
    assert_eq!(uid(&lab, "precious"), Some(before), "the object itself, not another of its name");
    let again = run(&lab, &["apply", "--auto-approve", "--restore", &file]).succeeded();
    assert!(again.stdout.starts_with("No changes."), "{}", again.whole());
}

#[test]
fn encrypted_ones_open_with_the_key_at_hand_and_with_no_other() {
    const SECRET: &str = "AGE-SECRET-KEY-1SW0VZUJP6DKLK0HD62P8NRRTRJ2V8QKPSDGGCF0SNH2X7WGWH3ZQ5ZMSLF";
    const PUBLIC: &str = "age1sfhhtwv29ug336w9x958k8mef5g0l5wve6l2nlse5we9xctp5frqzcctmu";
    let lab = Lab::new("sealed");
    lab.describe(&format!("{CLUSTER}etcd_backup: {{dir: backup, age: {PUBLIC}}}\n"), NODES);
    run(&lab, &["apply", "--auto-approve", "--until", "bootstrapped"]).succeeded();
    let file = lab.scratch.path("lab.snapshot.age");
    let taken = run(&lab, &["etcd", "snapshot", &file]).succeeded();
    assert!(taken.stderr.contains("encrypted"), "{}", taken.stderr);
    assert!(std::fs::read(&file).unwrap().starts_with(b"age-encryption.org/v1\n"));
    let closed =
        finish(crate::doing::command(&["etcd", "restore", &file]).env("HOME", lab.scratch.path("home")));
    assert!(closed.stderr.contains("none of the keys at hand opens it"), "{}", closed.whole());
    assert!(closed.stderr.contains("SOPS_AGE_KEY"), "{}", closed.whole());
    let opened =
        finish(crate::doing::command(&["etcd", "restore", &file]).env("SOPS_AGE_KEY", SECRET)).succeeded();
    assert!(opened.stdout.contains("is a whole snapshot of etcd") && opened.stdout.contains("encrypted"));
    run(&lab, &["destroy", "--auto-approve"]).succeeded();
    let arguments = ["apply", "--auto-approve", "--until", "bootstrapped", "--restore", &file];
    assert_eq!(run(&lab, &arguments).code, 1);
    run_with(&lab, &arguments, &[("SOPS_AGE_KEY", SECRET)]).succeeded();
}

#[test]
fn a_terminal_gets_no_snapshot() {
    let lab = Lab::new("terminal-snapshot");
    let mut terminal = Terminal::run(lab.command(&["etcd", "snapshot", "-"]));
    terminal.sees("a snapshot is no text, and nothing for a terminal");
}

#[test]
fn what_is_no_snapshot_builds_nothing() {
    let lab = Lab::new("no-snapshot");
    let file = lab.scratch.path("notes.txt");
    std::fs::write(&file, "buy milk\n").unwrap();
    let refused = run(&lab, &["apply", "--auto-approve", "--restore", &file]).failed();
    assert!(refused.stderr.contains("notes.txt is no snapshot of etcd"), "{}", refused.whole());
    assert!(!lab.scratch.0.join("world").join("talosconfig").exists());
}
