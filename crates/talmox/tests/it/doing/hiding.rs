//! What is secret though no field says so, and who is let in though nobody meant it.

#![expect(clippy::disallowed_methods, reason = "files the program had written")]

use std::os::unix::fs::PermissionsExt as _;

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use talmox_machine::{Bundle, SystemRandom, Time};
use talmox_types::Contract;

use crate::doing::{CLUSTER, Lab, Run};
use crate::support::{command, finish};

const ALONE: &str = "nodes: [{name: cp-1, address: 10.0.7.11, controller: true}]\n";

fn cluster(patches: &str) -> String {
    let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.9\n");
    format!("{cluster}{patches}")
}

/// Runs as far as it goes, without a place for snapshots.
fn run(lab: &Lab, arguments: &[&str]) -> Run {
    lab.run_without_snapshots(arguments)
}

/// A cluster of one node that is as described.
fn running(name: &str, patches: &str) -> Lab {
    let lab = Lab::new(name);
    lab.describe(&cluster(patches), ALONE);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    lab
}

const SECRETS: &str = "\
patches:
  - cluster:
      inlineManifests:
        - name: database
          contents: |
            kind: Secret
            stringData: {password: \"${DB_PASSWORD}\"}
      apiServer: {extraArgs: {webhook-token: \"${DB_PASSWORD}\"}}
    machine:
      sysctls: {net.core.somaxconn: \"${BACKLOG}\"}
      files: [{path: /var/etc/agent, content: key swordfish, op: create, permissions: 0o600}]
";

#[test]
fn what_a_variable_stands_for_is_shown_nowhere() {
    let lab = running("hidden", "");
    lab.describe(&cluster(SECRETS), ALONE);
    std::fs::write(lab.scratch.0.join("talenv.yaml"), "DB_PASSWORD: hunter2\nBACKLOG: \"4096\"\n").unwrap();
    let kept = lab.scratch.path("kept.plan");
    std::fs::write(&kept, "an older one").unwrap();
    let shown = |words: &[&str]| {
        let run = run(&lab, words).succeeded();
        let whole = format!("{}{}", run.stdout, run.stderr);
        assert!(!whole.contains("hunter2") && !whole.contains("swordfish"), "{words:?}\n{whole}");
        whole
    };
    let before: [&[&str]; 7] = [
        &["plan", "--allow-reboot"],
        &["plan", "--allow-reboot", "-o", "json"],
        &["plan", "--allow-reboot", "-o", "markdown"],
        &["plan", "--allow-reboot", "--out", &kept],
        &["status", "-o", "json"],
        &["diff", "cp-1"],
        &["diff", "cp-1", "-o", "json"],
    ];
    for words in before {
        let told = shown(words);
        assert!(words.contains(&"status") || told.contains("******"), "{words:?}\n{told}");
    }
    let plan = shown(&["plan", "--allow-reboot"]);
    // What nobody keeps secret can be read.
    assert!(plan.contains("database") && plan.contains("4096") && plan.contains("/var/etc/agent"), "{plan}");
    let file = std::fs::read_to_string(&kept).unwrap();
    assert!(!file.contains("hunter2") && !file.contains("swordfish") && file.contains("******"));
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    // Whoever looked at a plan hears of it if another text would be sent.
    std::fs::write(lab.scratch.0.join("talenv.yaml"), "DB_PASSWORD: hunter3\nBACKLOG: \"4096\"\n").unwrap();
    let stale = run(&lab, &["apply", &kept]).failed();
    assert!(!format!("{}{}", stale.stdout, stale.stderr).contains("hunter"), "{}", stale.stderr);
    assert!(!stale.stderr.contains("Usage:"), "not for the plan, but for its flags: {}", stale.stderr);
    std::fs::write(lab.scratch.0.join("talenv.yaml"), "DB_PASSWORD: hunter2\nBACKLOG: \"4096\"\n").unwrap();
    shown(&["apply", "--auto-approve", "--allow-reboot"]);
    // Gone from patches, it is hidden as long as it is kept.
    lab.describe(&cluster(""), ALONE);
    shown(&["plan", "--allow-reboot", "-o", "json"]);
    let redacted = cluster(SECRETS);
    lab.describe(&redacted, ALONE);
    shown(&["render", "config", "cp-1", "--redact"]);
}

/// An authority of nobody here, as configurations have it.
fn stranger() -> String {
    let bundle = Bundle::generate(Contract::new(1, 13), Time::from_unix(1_790_000_000), &mut SystemRandom);
    let text = bundle.unwrap().to_yaml();
    let os = text.expose_secret().split("os:").last().unwrap();
    os.lines().find_map(|line| line.trim().strip_prefix("crt: ")).unwrap().to_owned()
}

fn accepting(certificate: &str) -> String {
    format!("patches:\n  - machine: {{acceptedCAs: [{{crt: {certificate}}}]}}\n")
}

#[test]
fn an_authority_somebody_left_behind_is_named_and_not_said_to_be_dropped() {
    let lab = running("stranger", &accepting(&stranger()));
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let (folder, talosconfig) = (lab.scratch.path("again"), lab.scratch.path("world/talosconfig"));
    let words = ["adopt", "cluster", "--talosconfig", &talosconfig, &world, "-f", &folder];
    let dry = finish(&mut command(&[&words[..], &["--dry-run", "-o", "json"]].concat())).succeeded();
    let data: Value = serde_json::from_str(&dry.stdout).unwrap();
    let found = &data["strangers"][0];
    assert_eq!(
        (&found["authority"], &found["file"], &found["place"]),
        (&json!("talos"), &json!("patches/cluster.yaml"), &json!("machine.acceptedCAs")),
        "{data}"
    );
    assert_eq!((found["sha256"].as_str().unwrap().len(), &data["strangers"][1]), (64, &Value::Null));
    assert_eq!(data["remaining"], json!([]));
    let made = finish(&mut command(&words)).succeeded();
    for part in [
        "an authority of Talos that is not this cluster's is accepted: SHA-256",
        "good until 20",
        "patches/cluster.yaml has it (machine.acceptedCAs)",
        "Whoever has its key is let in",
        "Proven: rendered",
    ] {
        assert!(made.stdout.contains(part), "{part}\n{}", made.stdout);
    }
    let secrets = std::fs::read_to_string(format!("{folder}/secrets.yaml")).unwrap();
    let refused = finish(&mut command(&["secrets", "rotate-ca", "-f", &folder])).failed();
    for part in ["patches/cluster.yaml:4", "machine.acceptedCAs", "take these lines out"] {
        assert!(refused.stderr.contains(part), "{part}\n{}", refused.stderr);
    }
    assert_eq!(std::fs::read_to_string(format!("{folder}/secrets.yaml")).unwrap(), secrets);
    // That of Kubernetes has nothing to do with it.
    finish(&mut command(&["secrets", "rotate-ca", "--kubernetes", "-f", &folder])).succeeded();
}

#[test]
fn a_replacement_waits_for_a_patch_to_go() {
    let lab = running("stranger-later", "");
    run(&lab, &["secrets", "rotate-ca", "--talos"]).succeeded();
    lab.describe(&cluster(&accepting(&stranger())), ALONE);
    let plan = run(&lab, &["plan"]);
    let told = format!("{}{}", plan.stdout, plan.stderr);
    assert!(told.contains("machine.acceptedCAs") && told.contains("take these lines out"), "{told}");
    assert!(!told.contains("drop the old one"), "{told}");
    lab.describe(&cluster(""), ALONE);
    let plan = run(&lab, &["plan"]).succeeded();
    assert!(plan.stdout.contains("drop the old one"), "{}", plan.stdout);
}
