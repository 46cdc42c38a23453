//! Talos of another version in the description: what people see, whatever comes of it.

use insta::assert_snapshot;

use crate::doing::{Lab, NODES, Run};

const CLUSTER: &str = "\
cluster_name: lab
cluster_uid: \"0123456789abcdef\"
proxmox_node: pve
proxmox_storage: local-zfs
node_cidr: 10.0.7.0/24
node_gateway: 10.0.7.1
talos_version: 1.13.6
kubernetes_version: 1.36.3
proxmox_vm_worker_defaults:
  memory: 4096
";

/// Runs without a limit on how far, and without a place for snapshots.
fn run(lab: &Lab, arguments: &[&str]) -> Run {
    lab.run_without_snapshots(arguments)
}

/// A cluster that lives with the Talos before, and a description of the one after.
fn behind(name: &str) -> Lab {
    let lab = Lab::new(name);
    lab.describe(CLUSTER, NODES);
    run(&lab, &["apply", "--auto-approve"]).succeeded();
    lab.describe(&CLUSTER.replace("1.13.6", "1.13.9"), NODES);
    lab
}

/// How a run ended.
fn ending(lab: &Lab, run: &Run) -> String {
    let text = lab.filtered(&run.stderr);
    let from = ["error: ", "Done (simulated)", "Incomplete (simulated)"]
        .iter()
        .find_map(|end| text.find(end))
        .unwrap_or_default();
    text[from..].to_owned()
}

#[test]
fn a_changed_version_rolls_every_node() {
    let lab = behind("upgrade");
    assert_snapshot!("upgrade_plan", lab.filtered(&run(&lab, &["plan"]).succeeded().stdout));
    let done = run(&lab, &["apply", "--auto-approve"]).succeeded();
    assert_snapshot!("upgrade_done", ending(&lab, &done));
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(status.contains("healthy · Talos 1.13.9"), "{status}");
    assert!(run(&lab, &["plan"]).succeeded().stdout.starts_with("No changes."));
}

#[test]
fn an_image_that_does_not_boot_stops_the_roll() {
    let lab = behind("upgrade-boot");
    let file = lab.scratch.path("faults.yaml");
    std::fs::write(&file, "machines:\n- {trouble: boot-fails, version: 1.13.9, vm: 2001}\n").unwrap();
    let failed = run(&lab, &["apply", "--auto-approve", "--fault", &file]).failed();
    assert_snapshot!("upgrade_fell_back", ending(&lab, &failed));
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(!status.contains("cordoned"), "{status}");
}

#[test]
fn outside_the_window_nothing_is_interrupted() {
    let lab = behind("upgrade-window");
    let night = ["apply", "--auto-approve", "--not-before", "2099-01-01T22:00:00Z"];
    let left = run(&lab, &night).failed();
    assert_snapshot!("upgrade_window", ending(&lab, &left));
    run(&lab, &[&night[..], &["--allow-incomplete"]].concat()).succeeded();
    let status = run(&lab, &["status"]).succeeded().stdout;
    assert!(status.contains("Talos 1.13.6"), "{status}");
}

#[test]
fn what_talos_does_not_support_is_refused_with_the_way() {
    let lab = behind("upgrade-refused");
    let back = CLUSTER.replace("1.13.6", "1.12.6").replace("1.36.3", "1.35.4");
    lab.describe(&back, NODES);
    let refused = run(&lab, &["plan"]).failed();
    let text = lab.filtered(&refused.stdout);
    assert!(text.contains("an older minor version, 1.12.6, may not read its data"), "{text}");
}

#[test]
fn the_verb_of_other_tools_is_answered() {
    let lab = Lab::new("upgrade-verb");
    let answered = run(&lab, &["upgrade"]).failed();
    assert!(answered.stderr.contains("there is no verb upgrade"), "{}", answered.stderr);
    assert!(answered.stderr.contains("hint: change talos_version"), "{}", answered.stderr);
}
