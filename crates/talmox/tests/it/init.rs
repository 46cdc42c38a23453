//! `talmox init` without a terminal: flags and defaults decide, and nothing is ever lost.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use std::fs;

use crate::support::{Scratch, run};

#[test]
fn what_it_writes_is_valid_and_has_an_identity_of_its_own() {
    let scratch = Scratch::new("init");
    let (first, second) = (scratch.path("one"), scratch.path("two"));
    for folder in [&first, &second] {
        run(&["init", folder, "--yes"]).succeeded();
        let check = run(&["validate", "-f", folder]).succeeded();
        assert_eq!(check.stderr, "");
        assert!(check.stdout.contains("3 control planes, 3 workers"), "{}", check.stdout);
    }
    let uid = |folder: &str| {
        let text = fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap();
        text.lines().find(|line| line.starts_with("cluster_uid:")).unwrap().to_owned()
    };
    assert_ne!(uid(&first), uid(&second));
    let text = fs::read_to_string(format!("{first}/cluster.yaml")).unwrap();
    assert!(text.starts_with("# yaml-language-server: $schema=.talmox/cluster.schema.json\n"));
    let schema = fs::read_to_string(format!("{first}/.talmox/cluster.schema.json")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&schema).is_ok());
}

/// An endpoint on this machine where nobody listens.
fn nobodys() -> String {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
    format!("https://{}", taken.local_addr().expect("it has an address"))
}

#[test]
fn flags_decide() {
    let scratch = Scratch::new("init-flags");
    let folder = scratch.path("lab");
    let endpoint = nobodys();
    run(&[
        "init",
        &folder,
        "--yes",
        "--name",
        "edge",
        "--control-planes",
        "1",
        "--workers",
        "0",
        "--node-cidr",
        "192.168.1.0/29",
        "--endpoint",
        &endpoint,
        "--host",
        "node7",
        "--storage",
        "tank",
        "--bridge",
        "vmbr3",
    ])
    .succeeded();
    let check = run(&["validate", "-f", &folder]).succeeded();
    assert!(check.stdout.contains("cluster edge, 1 control plane, 0 workers"), "{}", check.stdout);
    let text = fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap();
    let named = format!("proxmox_endpoint: {endpoint}");
    for line in [named.as_str(), "proxmox_node: node7", "proxmox_storage: tank", "proxmox_bridge: vmbr3"] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn existing_files_are_left_alone() {
    let scratch = Scratch::new("init-again");
    fs::write(scratch.0.join("nodes.yaml"), "mine").unwrap();
    let refused = run(&["init", &scratch.path(""), "--yes"]).failed();
    assert!(
        refused.stderr.contains("is there already") && refused.stderr.contains("hint:"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(scratch.0.join("nodes.yaml")).unwrap(), "mine");
    assert!(!scratch.0.join("cluster.yaml").exists());
}

#[test]
fn nonsense_is_refused_before_anything_is_written() {
    let scratch = Scratch::new("init-nonsense");
    for (flag, value, words) in [
        ("--name", "My Lab", "not a cluster name"),
        ("--control-planes", "2", "odd numbers"),
        ("--endpoint", "pve.lan", "not a URL"),
        ("--endpoint", "https://pve.lan/api2", "without a path"),
        ("--node-cidr", "10.0.7.0/30", "no room for 6 nodes"),
        ("--node-cidr", "10.42.0.0/24", "do not go together"),
        ("--first-address", "10.0.7.250", "no 6 free addresses"),
        ("--first-address", "10.0.8.1", "no host's address in 10.0.7.0/24"),
        ("--first-address", "fd00:8::1", "no host's address"),
        ("--vip", "10.0.0.1", "no host's address"),
        ("--vip", "10.0.7.1", "is the gateway"),
    ] {
        let refused = run(&["init", &scratch.path("x"), "--yes", flag, value]).failed();
        assert!(refused.stderr.contains(words), "{flag} {value}: {}", refused.stderr);
        assert!(!scratch.0.join("x").exists());
    }
}

#[test]
fn a_large_network_takes_no_longer_than_a_small_one() {
    let scratch = Scratch::new("init-large");
    let folder = scratch.path("lab");
    run(&["init", &folder, "--yes", "--node-cidr", "fd00:7::/64", "--first-address", "fd00:7::1:0:0:1"])
        .succeeded();
    let check = run(&["validate", "-f", &folder]).succeeded();
    assert_eq!(check.stderr, "");
}
