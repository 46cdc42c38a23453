//! Nodes whose template talmox builds, from the simulated Image Factory.

use crate::doing::{CLUSTER, Lab, NODES};

fn managed(name: &str) -> Lab {
    let lab = Lab::new(name);
    let schematic = "schematic:\n  extensions: [siderolabs/qemu-guest-agent]\n";
    let cluster = CLUSTER.replace("talos_template: talos-1.13.9\n", "talos_version: 1.13.9\n");
    lab.describe(&format!("{cluster}{schematic}"), NODES);
    lab
}

#[test]
fn from_an_image_to_nodes_in_one_go() {
    let lab = managed("images");
    let built = lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(built.stderr.contains("3 VMs as described"), "{}", lab.shown(&built));
    let again = lab.run(&["apply", "--auto-approve"]).succeeded();
    assert!(again.stdout.starts_with("No changes. lab matches its description (3 VMs, "), "{}", again.stdout);
}

#[test]
fn a_factory_that_does_not_answer_is_named() {
    let lab = managed("dead-factory");
    let faults = lab.scratch.path("faults.yaml");
    std::fs::write(&faults, "factory: {dead: true}\n").unwrap();
    let run = lab.run(&["apply", "--auto-approve", "--fault", &faults]);
    assert_eq!(run.code, 1, "{}", lab.shown(&run));
    assert!(run.stderr.contains("https://factory.talos.dev"), "{}", lab.shown(&run));
    assert!(run.stderr.contains("factory_url names another Image Factory"), "{}", lab.shown(&run));
    // Nothing was made, and the same command goes on once it is back.
    lab.run(&["apply", "--auto-approve"]).succeeded();
}
