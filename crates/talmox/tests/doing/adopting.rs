//! VMs that are there and not ours, until they are.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::Lab;
use crate::support::{command, finish};

/// Somebody tidies up: the VM loses everything that says whose it is, and gets more memory.
fn tidy_up(lab: &Lab, vmid: &str) {
    let path = lab.scratch.path("world/world.json");
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let config = saved["world"]["vms"][vmid]["config"].as_object_mut().unwrap();
    config.insert("description".to_owned(), json!("watch the disk"));
    config.insert("smbios1".to_owned(), json!("uuid=0f0f0f0f-1111-2222-3333-444455556666"));
    config.insert("memory".to_owned(), json!("6144"));
    config.insert("tags".to_owned(), json!("mine"));
    std::fs::write(&path, saved.to_string()).unwrap();
}

#[test]
fn a_lost_vm_comes_back() {
    let lab = Lab::new("adopt");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    tidy_up(&lab, "2001");
    let plan = lab.run(&["plan"]).failed();
    assert!(plan.stdout.contains("if it is this node: talmox adopt worker-1 --vmid 2001"), "{}", plan.stdout);
    let before = std::fs::read_to_string(lab.scratch.path("nodes.yaml")).unwrap();
    let dry = lab.run(&["adopt", "worker-1", "--dry-run"]).succeeded();
    assert_snapshot!(lab.shown(&dry));
    let data = lab.run(&["adopt", "worker-1", "--dry-run", "-o", "json"]).succeeded();
    let data: Value = serde_json::from_str(&data.stdout).unwrap();
    assert_eq!((&data["format"], &data["dry_run"]), (&json!("talmox.adoption/v1"), &json!(true)));
    let one = &data["adoptions"][0];
    assert_eq!((&one["node"], &one["vmid"], &one["host"]), (&json!("worker-1"), &json!(2001), &json!("pve")));
    assert!(one["settings"].as_array().unwrap().contains(&json!("vm_memory")), "{data}");
    assert_snapshot!(lab.shown(&lab.run(&["adopt", "--all-matching"]).failed()));
    assert_eq!(std::fs::read_to_string(lab.scratch.path("nodes.yaml")).unwrap(), before);
    assert_snapshot!(lab.shown(&lab.run(&["adopt", "worker-1", "--auto-approve"]).succeeded()));
    assert_snapshot!(std::fs::read_to_string(lab.scratch.path("nodes.yaml")).unwrap());
    let plan = lab.run(&["plan"]).succeeded();
    assert!(plan.stdout.starts_with("No changes."), "{}", plan.stdout);
    let again = lab.run(&["adopt", "worker-1", "--auto-approve"]).succeeded();
    assert!(again.stdout.contains("VM 2001 is this node's already"), "{}", again.stdout);
}

#[test]
fn another_clusters_vms_are_refused() {
    let lab = Lab::new("adopt-foreign");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    lab.describe(&crate::CLUSTER.replace("0123456789abcdef", "fedcba9876543210"), crate::NODES);
    assert_snapshot!(lab.shown(&lab.run(&["adopt", "worker-1", "--vmid", "2001"]).failed()));
    assert_snapshot!(lab.shown(&lab.run(&["adopt"]).failed()));
    assert_snapshot!(
        lab.shown(&lab.run(&["adopt", "--vmid", "2001", "--as", "extra", "--role", "worker"]).failed())
    );
}

#[test]
fn differences_can_be_left_alone() {
    let lab = Lab::new("ignore-drift");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let nodes = crate::NODES
        .replace("    address: 10.0.7.13\n", "    address: 10.0.7.13\n    net_queues: 8\n    onboot: true\n");
    lab.describe(crate::CLUSTER, &nodes);
    let plan = lab.run(&["plan", "--allow-reboot"]).succeeded();
    assert!(plan.stdout.contains("net0 queues 4 → 8"), "{}", plan.stdout);
    let json: Value =
        serde_json::from_str(&lab.run(&["plan", "-o", "json", "--allow-reboot"]).succeeded().stdout).unwrap();
    let sub = json!({"option": "queues", "old": "4", "new": "8", "field": "net_queues"});
    assert!(
        json["steps"][0]["changes"].as_array().unwrap().iter().any(|change| change["sub"] == json!([sub]))
    );
    let less = lab.run(&["plan", "--ignore-drift", "net_queues", "--ignore-drift", "onboot"]).succeeded();
    assert_snapshot!(lab.filtered(&less.stdout));
    let status = lab.run(&["status", "--ignore-drift", "net_queues,onboot"]).succeeded();
    assert!(!status.stdout.contains("differs"), "{}", status.stdout);
    let wrong = lab.run(&["plan", "--ignore-drift", "net_queue"]).failed();
    let told = "error: --ignore-drift net_queue: there is no such field\nhint: did you mean net_queues?\n";
    assert!(wrong.stderr.ends_with(told), "{}", wrong.stderr);
    let markdown = lab.run(&["plan", "--allow-reboot", "-o", "markdown"]).succeeded();
    assert!(markdown.stdout.contains("`net0 queues 4 → 8`"), "{}", markdown.stdout);
}

/// The description is lost, and got back from what runs: nothing is left to do, and nothing that exists is overwritten.
#[test]
fn a_lost_description_is_written_again() {
    let lab = Lab::new("adopt-cluster");
    finish(lab.command(&["apply", "--auto-approve"]).env_remove("TALMOX_UNTIL")).succeeded();
    let here = lab.run(&["adopt", "cluster"]).failed();
    assert!(here.stderr.contains("cluster.yaml is there already"), "{}", here.stderr);
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let run = |folder: &str, words: &[&str]| {
        finish(command(&[words, &[&world, "-f", folder]].concat()).env_remove("TALMOX_UNTIL"))
    };
    let (folder, talosconfig) = (lab.scratch.path("again"), lab.scratch.path("world/talosconfig"));
    let words = ["adopt", "cluster", "--talosconfig", &talosconfig];
    let dry = run(&folder, &[&words[..], &["--dry-run", "-o", "json"]].concat()).succeeded();
    let data: Value = serde_json::from_str(&dry.stdout).unwrap();
    assert_eq!((&data["format"], &data["remaining"]), (&json!("talmox.cluster-adoption/v1"), &json!([])));
    assert!(data["vms"].as_array().unwrap().iter().all(|vm| vm["marked"] == json!(true)), "{data}");
    assert!(!std::path::Path::new(&folder).exists());
    let made = run(&folder, &words).succeeded();
    let proven = "Proven: rendered, the description is what every node runs with";
    assert!(made.stdout.contains(proven), "{}", made.stdout);
    let secrets = std::fs::metadata(format!("{folder}/secrets.yaml")).unwrap();
    assert_eq!(secrets.permissions().mode() & 0o777, 0o600);
    let plan = run(&folder, &["plan"]).succeeded();
    assert!(plan.stdout.starts_with("No changes."), "{}", plan.stdout);
    let none = run(&lab.scratch.path("nowhere"), &["adopt", "cluster", "--talosconfig", "none"]).failed();
    assert!(none.stderr.contains("could not read none"), "{}", none.stderr);
}
