//! The whole line: build, look, change, replace, remove, destroy.

use insta::assert_snapshot;
use serde_json::Value;

use crate::doing::{CLUSTER, Lab, NODES};

fn status(lab: &Lab) -> Value {
    serde_json::from_str(&lab.run(&["status", "-o", "json"]).succeeded().stdout).unwrap()
}

/// VMID and power of a node.
fn vm(status: &Value, name: &str) -> (u64, String) {
    let nodes = status["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["node"] == name).unwrap();
    (node["vmid"].as_u64().unwrap_or_default(), node["power"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_cluster_is_built_looked_at_and_destroyed() {
    let lab = Lab::new("life");
    assert_snapshot!(lab.shown(&lab.run(&["plan"]).succeeded()));
    let built = lab.run(&["apply", "--auto-approve", "--parallelism", "1"]).succeeded();
    assert_snapshot!(lab.shown(&built));
    let again = lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(again.stdout.starts_with("No changes. lab matches its description (3 VMs, "), "{}", again.stdout);
    assert_snapshot!(lab.shown(&lab.run(&["status"]).succeeded()));
    assert_snapshot!(lab.shown(&lab.run(&["output"]).succeeded()));
    let gone = lab.run(&["destroy", "--auto-approve", "--parallelism", "1"]).succeeded();
    assert_snapshot!(lab.shown(&gone));
    assert_eq!(lab.run(&["destroy"]).succeeded().stdout, "Nothing of lab is there.\n");
}

#[test]
fn changes_wait_for_leave_to_restart() {
    let lab = Lab::new("changes");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    lab.describe(&CLUSTER.replace("memory: 4096", "memory: 6144\n  disk_size: 120"), NODES);
    assert_snapshot!(lab.shown(&lab.run(&["plan", "--target", "worker-1"]).succeeded()));
    assert_snapshot!(lab.shown(&lab.run(&["plan", "--target", "worker-1", "--allow-reboot"]).succeeded()));
    // A restart is left.
    lab.run(&["apply", "--auto-approve", "--target", "worker-1"]).failed();
    assert_snapshot!(lab.shown(&lab.run(&["status"]).succeeded()));
    let explained = lab.run(&["explain", "worker-1.memory"]).succeeded().stdout;
    assert!(explained.ends_with("on Proxmox: memory 4096, pending 6144 (reboot)\n"), "{explained}");
    lab.run(&["apply", "--auto-approve", "--allow-reboot"]).succeeded();
    let explained = lab.run(&["explain", "worker-1.memory", "-o", "json"]).succeeded().stdout;
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["on_proxmox"]["value"], "6144");
    assert!(explained["on_proxmox"]["pending"].is_null());
    assert_eq!(lab.run(&["plan", "--detailed-exitcode"]).code, 0);
}

#[test]
fn nodes_are_replaced_and_removed_only_when_asked_for() {
    let lab = Lab::new("replace");
    lab.run(&["apply", "--auto-approve"]).succeeded();
    let before = status(&lab);
    lab.run(&["apply", "--auto-approve", "--replace", "worker-2"]).succeeded();
    let after = status(&lab);
    assert_eq!(vm(&before, "worker-1"), vm(&after, "worker-1"));
    assert_eq!(vm(&after, "worker-2").1, "running");
    assert!(lab.run(&["plan"]).succeeded().stdout.starts_with("No changes."));

    lab.describe(CLUSTER, &NODES.replace("  - name: worker-2\n    address: 10.0.7.13\n", ""));
    assert_snapshot!(lab.shown(&lab.run(&["plan"]).succeeded()));
    lab.run(&["apply", "--auto-approve"]).succeeded();
    assert_eq!(status(&lab)["undeclared"][0]["node"], "worker-2");
    assert_snapshot!(lab.shown(&lab.run(&["plan", "--remove", "worker-2"]).succeeded()));
    lab.run(&["apply", "--auto-approve", "--prune"]).succeeded();
    assert!(status(&lab)["undeclared"].as_array().unwrap().is_empty());
}

#[test]
fn progress_for_programs() {
    let lab = Lab::new("json");
    let run = lab.run(&["apply", "-q", "--auto-approve", "--log-format", "json"]).succeeded();
    let events: Vec<Value> = run.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = |node: &str| {
        let own = events.iter().filter(|event| event["event"] == "done" && event["node"] == node);
        own.map(|event| event["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for node in ["cp-1", "worker-1", "worker-2"] {
        let done = done(node);
        assert_eq!(done.first().map(String::as_str), Some("clone"), "{done:?}");
        assert_eq!(done.last().map(String::as_str), Some("start"), "{done:?}");
    }
    assert!(events.iter().any(|event| event["event"] == "task" && event["upid"].is_string()));
}

#[test]
fn one_node_alone() {
    let lab = Lab::new("target");
    lab.run(&["apply", "--auto-approve", "--target", "cp-1"]).succeeded();
    let seen = status(&lab);
    assert_eq!(vm(&seen, "cp-1").1, "running");
    assert_eq!(seen["nodes"][1]["state"], "missing");
    let unknown = lab.run(&["plan", "--target", "wroker-1"]).failed();
    assert_snapshot!(lab.shown(&unknown));
    lab.run(&["destroy", "--auto-approve", "--target", "cp-1"]).succeeded();
    assert_eq!(status(&lab)["nodes"][0]["state"], "missing");
}

#[test]
fn nobody_is_there_to_say_yes() {
    let lab = Lab::new("ask");
    let refused = lab.run(&["apply"]).failed();
    assert!(refused.stdout.contains("Plan: "), "{}", refused.stdout);
    assert_snapshot!(lab.filtered(&refused.stderr));
    lab.run(&["apply", "--auto-approve", "--target", "cp-1"]).succeeded();
    assert_snapshot!(lab.filtered(&lab.run(&["destroy"]).failed().stderr));
    // What is offered does what was shown, and no more.
    let one = lab.run(&["destroy", "--target", "cp-1"]).failed().stderr;
    assert!(one.contains("talmox destroy --auto-approve --target cp-1 "), "{one}");
}

#[test]
fn without_identity_nothing_is_made() {
    let lab = Lab::new("uid");
    lab.describe(&CLUSTER.replace("cluster_uid: \"0123456789abcdef\"\n", ""), NODES);
    // A plan that apply would refuse is not green.
    let plan = lab.run(&["plan"]).failed();
    assert!(plan.stdout.contains("no uid yet") && plan.stderr.contains("add this line"), "{}", plan.whole());
    let refused = lab.run(&["apply", "--auto-approve"]).failed().stderr;
    assert!(
        refused.contains("add this line to cluster.yaml") && refused.contains("cluster_uid: \""),
        "{refused}"
    );
    lab.run(&["destroy", "--auto-approve"]).failed();
}
