//! VMs that are there and not ours, until they are.

#![expect(clippy::disallowed_methods, reason = "files the test itself had written")]

use std::os::unix::fs::PermissionsExt as _;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::doing::Lab;
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
    lab.describe(&crate::doing::CLUSTER.replace("0123456789abcdef", "fedcba9876543210"), crate::doing::NODES);
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
    let nodes = crate::doing::NODES
        .replace("    address: 10.0.7.13\n", "    address: 10.0.7.13\n    net_queues: 8\n    onboot: true\n");
    lab.describe(crate::doing::CLUSTER, &nodes);
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

/// Takes away all that tells a VM of talmox from any other.
fn unmark(lab: &Lab) {
    let path = lab.scratch.path("world/world.json");
    let mut saved: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    for vm in saved["world"]["vms"].as_object_mut().unwrap().values_mut() {
        let config = vm["config"].as_object_mut().unwrap();
        if config.get("description").is_some_and(|notes| notes.as_str().unwrap().contains("node=")) {
            config.insert("description".to_owned(), json!("made by hand"));
            let smbios =
                config["smbios1"].as_str().unwrap().split(',').find(|part| part.starts_with("uuid="));
            let smbios = json!(smbios.unwrap());
            config.insert("smbios1".to_owned(), smbios);
        }
    }
    std::fs::write(&path, saved.to_string()).unwrap();
}

/// The marks VMs carry.
fn marks(lab: &Lab) -> Vec<String> {
    let text = std::fs::read_to_string(lab.scratch.path("world/world.json")).unwrap();
    let saved: Value = serde_json::from_str(&text).unwrap();
    let vms = saved["world"]["vms"].as_object().unwrap().values();
    let notes = vms.filter_map(|vm| vm["config"]["description"].as_str());
    let lines = notes.filter_map(|notes| notes.lines().last()).filter(|line| line.contains(" node="));
    lines.map(str::to_owned).collect()
}

/// A cluster that somebody else made, as far as anybody can tell. Its marks say that etcd was begun: its own would be lost with it.
#[test]
fn a_cluster_of_others_is_taken_over() {
    let lab = Lab::new("adopt-others");
    finish(lab.command(&["apply", "--auto-approve"]).env_remove("TALMOX_UNTIL")).succeeded();
    unmark(&lab);
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let run = |folder: &str, words: &[&str]| {
        finish(command(&[words, &[&world, "-f", folder]].concat()).env_remove("TALMOX_UNTIL"))
    };
    let (folder, talosconfig) = (lab.scratch.path("taken"), lab.scratch.path("world/talosconfig"));
    let words = ["adopt", "cluster", "--talosconfig", &talosconfig];
    run(&folder, &words).succeeded();
    let plan = run(&folder, &["plan"]).failed();
    assert!(plan.stdout.contains("talmox adopt cp-1"), "{}", plan.stdout);

    // A second time, and where a run was killed before it had written everything: nothing is touched.
    let files = || std::fs::read_dir(&folder).unwrap().count();
    let before = files();
    let again = run(&folder, &words).failed();
    assert!(again.stderr.contains("taken/cluster.yaml is there already"), "{}", again.stderr);
    let cluster = std::fs::read_to_string(format!("{folder}/cluster.yaml")).unwrap();
    std::fs::remove_file(format!("{folder}/cluster.yaml")).unwrap();
    let half = run(&folder, &words).failed();
    assert!(
        half.stderr.contains("if an earlier run was interrupted here, remove what it left"),
        "{}",
        half.stderr
    );
    assert!(half.stderr.contains("taken/secrets.yaml"), "{}", half.stderr);
    std::fs::write(format!("{folder}/cluster.yaml"), cluster).unwrap();
    assert_eq!(files(), before);

    let adopted = run(&folder, &["adopt", "--all-matching", "--auto-approve"]).succeeded();
    assert!(adopted.stderr.contains("3 VMs adopted"), "{}", adopted.stderr);
    let marks = marks(&lab);
    let begun = |mark: &&String| mark.contains(" bootstrap=") && mark.contains("/done");
    assert_eq!((marks.len(), marks.iter().filter(begun).count()), (3, 1), "{marks:#?}");
    let plan = run(&folder, &["plan"]).succeeded();
    assert!(plan.stdout.starts_with("No changes."), "{}", plan.stdout);
}

/// Machines with addresses of both families, in the layout of 1.14.
#[test]
fn a_dual_stack_cluster_of_others_is_taken_over() {
    let lab = Lab::new("adopt-dual");
    let cluster = crate::doing::CLUSTER
        .lines()
        .filter(|line| !["node_cidr", "node_gateway", "talos_"].iter().any(|key| line.starts_with(key)))
        .fold(String::new(), |text, line| text + line + "\n");
    let cluster = cluster
        + "node_cidr: [10.0.7.0/24, \"fd00:7::/64\"]\nnode_gateway: [10.0.7.1, \"fd00:7::1\"]\n\
           cluster_pod_cidr: [10.42.0.0/16, \"fd00:42::/56\"]\ncluster_svc_cidr: [10.43.0.0/16, \"fd00:43::/112\"]\n\
           talos_version: 1.14.0\ntalos_contract: \"1.14\"\nkubernetes_version: 1.36.3\n";
    let nodes = "nodes:\n  - {name: cp-1, address: [10.0.7.11, \"fd00:7::11\"], controller: true}\n  \
                 - {name: worker-1, address: [10.0.7.12, \"fd00:7::12\"]}\n";
    lab.describe(&cluster, nodes);
    finish(lab.command(&["apply", "--auto-approve"]).env_remove("TALMOX_UNTIL")).succeeded();
    unmark(&lab);
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let run = |folder: &str, words: &[&str]| {
        finish(command(&[words, &[&world, "-f", folder]].concat()).env_remove("TALMOX_UNTIL"))
    };
    let (folder, talosconfig) = (lab.scratch.path("taken"), lab.scratch.path("world/talosconfig"));
    run(&folder, &["adopt", "cluster", "--talosconfig", &talosconfig]).succeeded();
    let written = std::fs::read_to_string(format!("{folder}/nodes.yaml")).unwrap();
    assert!(written.contains("address: [10.0.7.12, fd00:7::12]"), "{written}");
    assert!(!std::path::Path::new(&folder).join("patches").exists(), "everything has a key");
    run(&folder, &["adopt", "--all-matching", "--auto-approve"]).succeeded();
    let plan = run(&folder, &["plan"]).succeeded();
    assert!(plan.stdout.starts_with("No changes."), "{}", plan.stdout);
}

/// What goes wrong leaves nothing behind, and says where and what to do.
#[test]
fn an_adoption_that_fails_leaves_nothing() {
    let lab = Lab::new("adopt-fails");
    finish(lab.command(&["apply", "--auto-approve"]).env_remove("TALMOX_UNTIL")).succeeded();
    let world = format!("--simulate={}", lab.scratch.path("world"));
    let talosconfig = lab.scratch.path("world/talosconfig");
    let run = |folder: &str, more: &[&str]| {
        let words = ["adopt", "cluster", "--talosconfig", &talosconfig, &world, "-f", folder];
        finish(command(&[&words, more].concat()).env_remove("TALMOX_UNTIL"))
    };
    // Nobody is there.
    let folder = lab.scratch.path("nobody");
    let silent = run(&folder, &["--nodes", "10.0.7.11,10.0.7.99"]).failed();
    assert!(silent.stderr.contains("the machine at 10.0.7.99 could not be read"), "{}", silent.stderr);
    assert!(silent.stderr.contains("every machine of the cluster has to answer"), "{}", silent.stderr);
    assert!(!std::path::Path::new(&folder).exists());
    // One is there and does not say who the others are: without them it would be another cluster.
    let (faults, secrets) = (lab.scratch.path("faults.yaml"), lab.scratch.path("world/secrets.yaml"));
    let one = |folder: &str, fault: &str| {
        std::fs::write(&faults, format!("node_calls:\n- {{fault: error, {fault}, calls: '*State/List'}}\n"))
            .unwrap();
        let words = ["adopt", "cluster", "--secrets", &secrets, "--nodes", "10.0.7.11", &world, "-f", folder];
        finish(command(&[&words[..], &["--fault", &faults, "--dry-run"]].concat()).env_remove("TALMOX_UNTIL"))
    };
    let untold = one(&lab.scratch.path("untold"), "code: PermissionDenied, times: all").failed();
    assert!(
        untold.stderr.contains("the machine at 10.0.7.11 does not say who else is in its cluster"),
        "{}",
        untold.stderr
    );
    assert!(untold.stderr.contains("hint: nothing was written"), "{}", untold.stderr);
    let late = one(&lab.scratch.path("late"), "code: Unavailable, times: 2").succeeded();
    assert!(
        late.stdout.contains("worker-2") && !late.stderr.contains("discovery is off"),
        "{}",
        late.whole()
    );
    // Secrets of another cluster: asking another machine would not help.
    let other = Lab::new("adopt-other");
    let others = other.scratch.path("");
    finish(&mut command(&["secrets", "generate", "--offline", "-f", &others])).succeeded();
    let (file, folder) = (other.scratch.path("secrets.yaml"), lab.scratch.path("others"));
    let words = ["adopt", "cluster", "--secrets", &file, &world, "-f", &folder, "--nodes"];
    for more in ["10.0.7.11", "10.0.7.11,10.0.7.12"] {
        let stranger = finish(command(&[&words[..], &[more]].concat()).env_remove("TALMOX_UNTIL")).failed();
        assert!(
            stranger.stderr.contains(
                "the machine at 10.0.7.11 could not be read: it is not of the cluster these secrets belong to"
            ),
            "{}",
            stranger.stderr
        );
        assert!(stranger.stderr.contains("hint: nothing was written"), "{}", stranger.stderr);
        assert!(!stranger.stderr.contains("--nodes"), "{}", stranger.stderr);
        assert!(!std::path::Path::new(&folder).exists());
    }
    // A file that cannot be written, after others were.
    let folder = lab.scratch.path("blocked");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", format!("{folder}/cluster.yaml")).unwrap();
    let blocked = run(&folder, &[]).failed();
    assert!(blocked.stderr.contains("nothing of it was left"), "{}", blocked.stderr);
    let left: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| name != "cluster.yaml" && name != ".gitignore")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // VMs of two clusters.
    let path = lab.scratch.path("world/world.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.replace(
        "uid=0123456789abcdef cluster=lab node=worker-2",
        "uid=fedcba9876543210 cluster=lab node=worker-2",
    );
    assert_ne!(text, other);
    std::fs::write(&path, other).unwrap();
    let mixed = run(&lab.scratch.path("mixed"), &[]).failed();
    let told = "its VMs carry marks of several clusters: 0123456789abcdef (VM 2000, VM 2001); fedcba9876543210 (VM 2002)";
    assert!(mixed.stderr.contains(told), "{}", mixed.stderr);
}
