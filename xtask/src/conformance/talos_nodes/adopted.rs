//! talmox at clusters it had no part in: the real `talosctl` made secrets and configurations, patched them as people do,
//! gave them to machines somebody else made, and bootstrapped the cluster.

use std::path::Path;

use anyhow::ensure;

use super::cluster::{Cluster, name};
use super::drawn::Drawn;
use super::layout::Layout;
use super::own::talmox;
use super::programs::{Program, Talosctl};
use super::steps;
use crate::scratch::Scratch;

/// How many sets of patches running machines get, one after the other, beside those they begin with.
const SETS: u64 = 5;

/// Runs everything; gives the number of calls.
pub(super) fn run(own: &Path, talosctl: &Path, cluster: &Cluster) -> anyhow::Result<usize> {
    let (layout, scratch) = (&cluster.layout, Scratch::new("talos-adopt")?);
    let talosconfig = scratch.path().join("talosconfig");
    let program = talosctl;
    let mut talosctl = Talosctl::new(program, scratch.path(), talosconfig, layout.first());
    talosctl.ask(&["gen", "secrets"])?.well(&[])?;
    steps::generate(&mut talosctl, &["--with-secrets", "secrets.yaml"])?;
    steps::configure(&mut talosctl, layout)?;
    steps::bootstrap(&mut talosctl, layout)?;
    steps::look(&mut talosctl, layout)?;

    let own = talmox(own, scratch.path());
    adopt(&own, &scratch, cluster, "as-made")?;
    let unmarked = ["adopt", "--all-matching", "--auto-approve", "-f", "as-made"];
    own.ask(&unmarked)?.well(&["4 VMs adopted"])?;
    unchanged(&own, cluster, &mut talosctl, "as-made")?;
    own.ask(&["health", "-f", "as-made"])?.well(&[])?;
    for set in 0..SETS {
        let folder = scratch.inside(&format!("set-{set}"))?;
        let (drawn, _) = Drawn::new(1000 + set, 4, true);
        let endpoint = format!("https://{}:6443", layout.first());
        let made = drawn.make(&folder, program, &endpoint, layout.control_planes.len())?;
        for (node, text) in layout.everybody().zip(made) {
            let (file, node) = (folder.write("apply.yaml", &text)?, node.to_string());
            let words = ["apply-config", "-e", &node, "-n", &node, "--mode=no-reboot", "--file", &file];
            talosctl.ask(&words)?.well(&[])?;
        }
        let adopted = format!("adopted-{set}");
        adopt(&own, &scratch, cluster, &adopted)?;
        unchanged(&own, cluster, &mut talosctl, &adopted)?;
    }
    Ok(talosctl.calls)
}

/// Describes the cluster in a folder of its own.
fn adopt(own: &Program<'_>, scratch: &Scratch, cluster: &Cluster, folder: &str) -> anyhow::Result<()> {
    let (endpoint, authority, token) = cluster.proxmox()?;
    std::fs::create_dir(scratch.path().join(folder))?;
    scratch.write(&format!("{folder}/proxmox.pem"), authority)?;
    scratch.write(&format!("{folder}/token"), token)?;
    let (first, before) = (cluster.layout.first(), cluster.writes()?);
    let words = [
        "adopt",
        "cluster",
        "-f",
        folder,
        "--talosconfig",
        "talosconfig",
        "--nodes",
        &first,
        "--endpoint",
        &endpoint,
        "--api-token",
        "file:token",
        "--ca-file",
        "proxmox.pem",
    ];
    own.ask(&words)?.well(&["Proven: rendered, the description is what every node runs with"])?;
    ensure!(cluster.writes()? == before, "describing a cluster changed something in Proxmox");
    for file in ["cluster.yaml", "nodes.yaml", "patches/cluster.yaml"] {
        ensure!(!scratch.read(&format!("{folder}/{file}"))?.contains("hush"), "{file} has a secret in it");
    }
    Ok(())
}

/// There is nothing to do, and nothing is done.
fn unchanged(
    own: &Program<'_>,
    cluster: &Cluster,
    talosctl: &mut Talosctl<'_>,
    folder: &str,
) -> anyhow::Result<()> {
    let before = (cluster.writes()?, versions(talosctl, &cluster.layout)?);
    own.ask(&["plan", "-f", folder])?.well(&["No changes."])?;
    for number in 0..=cluster.layout.control_planes.len() {
        own.ask(&["diff", &name(number), "-f", folder])?.well(&["No differences"])?;
    }
    own.ask(&["apply", "--auto-approve", "-f", folder])?.well(&["No changes."])?;
    let after = (cluster.writes()?, versions(talosctl, &cluster.layout)?);
    ensure!(before == after, "an empty plan changed something: {before:?}, then {after:?}");
    Ok(())
}

/// What the machines say of their configurations: a version counts every change.
fn versions(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for node in layout.everybody() {
        let node = node.to_string();
        let said =
            talosctl.ask(&["-e", &node, "-n", &node, "get", "machineconfigs"])?.well(&["MachineConfig"])?;
        all.push(said.text);
    }
    Ok(all)
}
