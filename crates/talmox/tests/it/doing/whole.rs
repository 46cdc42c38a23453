//! From nothing to a healthy cluster, and away again.

use insta::assert_snapshot;

use crate::doing::{CLUSTER, Lab, NODES, Run};
use crate::support::finish;

/// Runs without a limit on how far.
fn run(lab: &Lab, arguments: &[&str]) -> Run {
    finish(lab.command(arguments).env_remove("TALMOX_UNTIL").env("HOME", lab.scratch.path("home")))
}

fn comes_up(lab: &Lab) {
    let first = run(lab, &["apply", "--auto-approve"]).succeeded();
    assert!(first.stderr.contains("lab: healthy, 3 nodes as described"), "{}", first.whole());
    let second = run(lab, &["apply", "--auto-approve"]).succeeded();
    assert!(second.stdout.starts_with("No changes. lab matches its description"), "{}", second.whole());
}

#[test]
fn one_command_builds_a_cluster_and_another_takes_it_away() {
    let lab = Lab::new("whole");
    let planned = run(&lab, &["plan"]).succeeded();
    assert!(
        planned.stdout.contains("then: configure Talos on cp-1, worker-1 and worker-2 · bootstrap etcd on cp-1 · wait until healthy"),
        "{}",
        planned.whole()
    );
    comes_up(&lab);

    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(status.contains("healthy · Talos 1.13.9 · Kubernetes 1.36."), "{status}");
    assert!(status.contains("etcd 1/1, leader cp-1"), "{status}");
    assert_eq!(status.matches("running").count(), 3, "{status}");
    let health = run(&lab, &["health", "--timeout", "0", "-o", "json"]).succeeded().stdout;
    let health: serde_json::Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["healthy"], true, "{health}");
    assert_eq!(health["checks"].as_array().unwrap().len(), 16);
    let diff = run(&lab, &["diff", "cp-1"]).succeeded().stdout;
    assert!(diff.starts_with("No differences"), "{diff}");

    // Files of a simulation lie in its folder, and nowhere else.
    let files = ["secrets.yaml", "talosconfig", "kubeconfig"];
    assert!(files.iter().all(|name| lab.scratch.0.join("world").join(name).exists()));
    assert!(!lab.scratch.0.join("home").exists() && !lab.scratch.0.join("secrets.yaml").exists());

    let gone = run(&lab, &["destroy", "--auto-approve"]).succeeded();
    assert!(gone.stderr.contains("removed context admin@lab from"), "{}", gone.whole());
    let health = run(&lab, &["health", "--timeout", "0"]).failed();
    assert!(health.stdout.contains("not healthy"), "{}", health.whole());
}

#[test]
fn configuration_by_drive() {
    let lab = Lab::new("drive");
    lab.describe(&format!("{CLUSTER}config_delivery: cidata\n"), NODES);
    comes_up(&lab);
}

#[test]
fn as_far_as_asked() {
    let lab = Lab::new("until");
    let apply = |until: &str| run(&lab, &["apply", "--auto-approve", "--until", until]).succeeded().whole();
    assert!(apply("vms").contains("3 VMs as described"));
    let reached = apply("reachable");
    assert!(reached.contains("3 nodes answer") || reached.contains("No changes"), "{reached}");
    assert!(apply("configured").contains("3 nodes configured"));
    assert!(apply("bootstrapped").contains("etcd is bootstrapped"));
    // It may have become healthy meanwhile: time goes on between two runs.
    let last = apply("healthy");
    assert!(last.contains("healthy") || last.contains("No changes"), "{last}");
}

#[test]
fn a_run_for_one_node_does_not_say_how_the_cluster_is() {
    let lab = Lab::new("one-alone");
    let one = run(&lab, &["apply", "--auto-approve", "--target", "cp-1"]).succeeded();
    let words = "lab: 1 node as described; health not waited for (--target)";
    assert!(one.stderr.contains(words), "{}", one.whole());
}

/// What is wrong with nodes can be said in a file: a stranger at an address of ours gets nothing and is named, and lost or
/// refused calls are no obstacle.
#[test]
fn nodes_with_faults_from_a_file() {
    let lab = Lab::new("node-faults");
    let file = lab.scratch.path("faults.yaml");
    std::fs::write(&file, "machines:\n- {trouble: stranger, address: 10.0.7.12}\n").unwrap();
    let failed = run(&lab, &["apply", "--auto-approve", "--fault", &file]).failed();
    let from = failed.stderr.find("error: ").unwrap();
    let told = lab.filtered(&failed.stderr[from..]);
    // The VM's own uuid is drawn.
    let (before, after) = told.split_once("that of VM 2001 is ").unwrap();
    assert_snapshot!(format!("{before}that of VM 2001 is UUID{}", &after[36..]));
    let calls = "node_calls:\n\
                 - {fault: lost-reply, calls: '*/Bootstrap'}\n\
                 - {fault: error, code: Unavailable, calls: '*/ApplyConfiguration', address: 10.0.7.12}\n\
                 - {fault: error, status: 503, calls: 'GET /api/v1/nodes', times: 2}\n";
    std::fs::write(&file, calls).unwrap();
    let end = run(&lab, &["apply", "--auto-approve", "--fault", &file]).succeeded();
    assert!(end.stderr.contains("lab: healthy, 3 nodes as described"), "{}", end.whole());
}

/// A run that ends before the bootstrap leaves the files as they are, and with them the context its user works with.
#[test]
#[expect(clippy::disallowed_methods, reason = "files the program had written")]
fn contexts_follow_the_bootstrap() {
    let lab = Lab::new("contexts-follow");
    run(&lab, &["plan"]).succeeded();
    let files = [
        ("talosconfig", "context: other\ncontexts:\n    other:\n        endpoints: []\n"),
        (
            "kubeconfig",
            "apiVersion: v1\nkind: Config\ncurrent-context: other\ncontexts:\n- {name: other, context: {cluster: o, user: o}}\n",
        ),
    ]
    .map(|(name, text)| (lab.scratch.0.join("world").join(name), text));
    std::fs::create_dir_all(lab.scratch.0.join("world")).unwrap();
    for (path, text) in &files {
        std::fs::write(path, text).unwrap();
    }
    let faults = lab.scratch.path("faults.yaml");
    std::fs::write(&faults, "machines:\n- {trouble: stranger, address: 10.0.7.12}\n").unwrap();
    run(&lab, &["apply", "--auto-approve", "--fault", &faults]).failed();
    for (path, text) in &files {
        assert_eq!(std::fs::read_to_string(path).unwrap(), *text);
    }
    let applied = run(&lab, &["apply", "--auto-approve"]).succeeded();
    for context in ["lab", "admin@lab"] {
        let added = format!("added context {context} in ");
        let line = applied.stderr.lines().find(|line| line.starts_with(&added));
        assert!(
            line.is_some_and(|line| line.ends_with("and made it the current one")),
            "{}",
            applied.whole()
        );
    }
    run(&lab, &["destroy", "--auto-approve"]).succeeded();
    for (path, _) in &files {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("other") && !text.contains("lab"), "{text}");
    }
}
