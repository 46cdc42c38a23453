//! Values written into descriptions: each at its place, and everything else as it was.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use talmox_config::edit::{EditError, Item, NewNode, Setting, Yaml, append_node, edit};
use talmox_config::{Files, Outcome, read_files};
use talmox_types::NodeName;
use talmox_types::desired::Role;

fn read(nodes: &str) -> Outcome {
    let outcome =
        read_files(Files::from_texts("cluster_uid: \"0123456789abcdef\"\nproxmox_node: pve\n", Some(nodes)));
    assert!(!outcome.has_errors(), "{:#?}\n{nodes}", outcome.problems);
    outcome
}

fn node(name: &str) -> NodeName {
    NodeName::parse(name).unwrap()
}

fn value(key: &'static str, number: i64) -> Setting {
    Setting::Value { key, value: Yaml::Integer(number) }
}

/// The text after an edit, which can be read.
fn edited(nodes: &str, name: &str, settings: &[Setting]) -> Result<String, EditError> {
    let text = edit(&read(nodes).description, &node(name), settings)?.unwrap().text;
    read(&text);
    Ok(text)
}

#[test]
fn values_are_set_where_they_stand() {
    let table = [
        // In a block, behind a comment, under another of its names.
        (
            "nodes:\n  - name: a # x\n    address: 10.0.7.11\n    memory: 2048  # a guess\n    controller: true\n",
            "nodes:\n  - name: a # x\n    address: 10.0.7.11\n    memory: 4096  # a guess\n    controller: true\n    vm_cores: 3\n",
        ),
        // A value on a line of its own, and none at all.
        (
            "nodes:\n- name: a\n  address: 10.0.7.11\n  controller: true\n  vm_memory:\n    2048\n  labels: {a: b}\n",
            "nodes:\n- name: a\n  address: 10.0.7.11\n  controller: true\n  vm_memory: 4096\n  labels: {a: b}\n  vm_cores: 3\n",
        ),
        (
            "nodes:\n- name: a\n  address: 10.0.7.11\n  controller: true\n  vm_memory: # later\n  patches:\n  - machine: {}\n",
            "nodes:\n- name: a\n  address: 10.0.7.11\n  controller: true\n  vm_memory: 4096 # later\n  vm_cores: 3\n  patches:\n  - machine: {}\n",
        ),
        // In braces, over lines and with a comma at the end.
        (
            "nodes: [{name: a, address: 10.0.7.11, controller: true}]\n",
            "nodes: [{name: a, address: 10.0.7.11, controller: true, vm_memory: 4096, vm_cores: 3}]\n",
        ),
        (
            "nodes:\n  - {name: a, address: 10.0.7.11,\n     controller: true, # so\n    }\n",
            "nodes:\n  - {name: a, address: 10.0.7.11,\n     controller: true, vm_memory: 4096, vm_cores: 3, # so\n    }\n",
        ),
        // Another value comes by a merge: the node's own wins.
        (
            "nodes:\n  - &base {name: b, address: 10.0.7.12, vm_memory: 1024}\n  - <<: *base\n    name: a\n    address: 10.0.7.11\n    controller: true\n",
            "nodes:\n  - &base {name: b, address: 10.0.7.12, vm_memory: 1024}\n  - <<: *base\n    name: a\n    address: 10.0.7.11\n    controller: true\n    vm_memory: 4096\n    vm_cores: 3\n",
        ),
        // No line feed at the end.
        (
            "nodes:\n  - name: a\n    controller: true\n    address: 10.0.7.11",
            "nodes:\n  - name: a\n    controller: true\n    address: 10.0.7.11\n    vm_memory: 4096\n    vm_cores: 3",
        ),
    ];
    for (before, after) in table {
        let found = edited(before, "a", &[value("vm_memory", 4096), value("vm_cores", 3)]).unwrap();
        assert_eq!(found, after, "{before}");
    }
}

#[test]
fn lists_and_mappings_keep_their_other_parts() {
    let before = "nodes:\n  - name: a\n    address: 10.0.7.11\n    controller: true\n    vm_disks:\n      # data\n      - slot: 1 # first\n        size: 5 # GiB\n    drift:\n      tags: show # by hand\n";
    let item = |slot, size| Item {
        slot,
        entries: vec![("size", Yaml::Integer(size)), ("keep", Yaml::Bool(true))],
        changed: vec!["size"],
    };
    let settings = [
        Setting::Items { key: "vm_disks", items: vec![item(1, 9), item(2, 7)] },
        Setting::Entries {
            key: "drift",
            entries: vec![("tags".into(), Yaml::text("ignore")), ("serial0".into(), Yaml::text("ignore"))],
        },
    ];
    assert_eq!(
        edited(before, "a", &settings).unwrap(),
        "nodes:\n  - name: a\n    address: 10.0.7.11\n    controller: true\n    vm_disks:\n      # data\n      - slot: 1 # first\n        size: 9 # GiB\n      - {slot: 2, size: 7, keep: true}\n    drift:\n      tags: ignore # by hand\n      serial0: ignore\n"
    );
}

#[test]
fn what_others_refer_to_is_not_touched() {
    let anchored = "nodes:\n  - name: a\n    address: 10.0.7.11\n    controller: true\n    vm_memory: &m 2048\n  - {name: b, address: 10.0.7.12, vm_memory: *m}\n";
    let error = edited(anchored, "a", &[value("vm_memory", 4096)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "vm_memory of a cannot be written into nodes.yaml: others refer to its value by an anchor"
    );
    // The one that refers can have its own.
    let text = edited(anchored, "b", &[value("vm_memory", 4096)]).unwrap();
    assert!(text.ends_with("- {name: b, address: 10.0.7.12, vm_memory: 4096}\n"), "{text}");
    let pooled = "nodes: [{name: a, address: 10.0.7.11, controller: true}]\nnode_pools: [{name: p, count: 1, addresses: 10.0.7.20-29}]\n";
    let error = edited(pooled, "p-1", &[value("vm_memory", 4096)]).unwrap_err();
    assert_eq!(error.to_string(), "p-1 is one of the pool p, whose members have no settings of their own");
}

#[test]
fn nodes_are_added_in_the_style_of_the_others() {
    let new = NewNode { name: node("b"), role: Role::Worker, address: Yaml::text("10.0.7.12") };
    for (before, after) in [
        (
            "nodes:\n  - name: a\n    address: 10.0.7.11\n    controller: true # x\n\n# end\n",
            "nodes:\n  - name: a\n    address: 10.0.7.11\n    controller: true # x\n  - name: b\n    address: 10.0.7.12\n\n# end\n",
        ),
        (
            "nodes:\n- {name: a, address: 10.0.7.11, controller: true} # x\n",
            "nodes:\n- {name: a, address: 10.0.7.11, controller: true} # x\n- {name: b, address: 10.0.7.12}\n",
        ),
        (
            "nodes: [{name: a, address: 10.0.7.11, controller: true}]\n",
            "nodes: [{name: a, address: 10.0.7.11, controller: true}, {name: b, address: 10.0.7.12}]\n",
        ),
    ] {
        let found = append_node(&read(before).description, &new).unwrap().text;
        assert_eq!(found, after);
        read(&found);
    }
}
