//! The example, as it comes out.

use std::path::Path;

use talmox_config::read_path;
use talmox_image::install::InstallImages;
use talmox_render::{Inputs, Variables, Whereabouts, render};
use talmox_types::desired::NodeAddress;

use crate::support::bundle;

/// The redacted config of a node of `examples/homelab`, without what is drawn anew with every bundle.
fn homelab(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/homelab");
    let desired = read_path(&folder).desired.unwrap();
    let node = desired.nodes.iter().find(|node| node.name.as_str() == name).unwrap();
    let NodeAddress::Declared(address) = node.address else { panic!("a declared address") };
    let rendered = render(&Inputs {
        desired: &desired,
        node,
        bundle: bundle(),
        whereabouts: &Whereabouts::at(address),
        install_images: &InstallImages::default(),
        patches: &[],
        cni_manifest: None,
        variables: &Variables::default(),
    });
    let text = rendered.unwrap().config.redacted().to_yaml();
    let line = |line: &str| match line.split_once(": ") {
        Some((key, _)) if ["crt", "id"].contains(&key.trim()) => format!("{key}: (drawn)\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn a_control_plane_of_the_example() {
    insta::assert_snapshot!(homelab("cp-1"));
}

#[test]
fn a_worker_of_the_example() {
    insta::assert_snapshot!(homelab("worker-1"));
}
