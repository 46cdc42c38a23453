//! What is asked of `talosctl`, and how each call must end.

use std::path::Path;

use anyhow::{bail, ensure};

use super::cluster::{self, Cluster};
use super::layout::Layout;
use super::programs::{Talosctl, WAIT};
use crate::scratch::Scratch;

/// Runs everything; gives the number of calls.
pub(super) fn run(program: &Path, cluster: &Cluster) -> anyhow::Result<usize> {
    let layout = &cluster.layout;
    let scratch = Scratch::new("talos-nodes")?;
    let talosconfig = scratch.path().join("talosconfig");
    let mut talosctl = Talosctl::new(program, scratch.path(), talosconfig, layout.first());
    generate(&mut talosctl, &[])?;
    configure(&mut talosctl, layout)?;
    bootstrap(&mut talosctl, layout)?;
    look(&mut talosctl, layout)?;
    let other = layout.worker.to_string();
    let name = cluster::name(layout.control_planes.len());
    talosctl.ask(&["-e", &layout.first(), "-n", &other, "get", "nodename"])?.well(&[&other, &name])?;
    etcd(&mut talosctl)?;
    cluster.boot_slowly();
    upgrade(&mut talosctl, layout)?;
    reset(&mut talosctl, layout)?;
    Ok(talosctl.calls)
}

/// Makes configurations for control planes and workers, and a talosconfig.
pub(super) fn generate(talosctl: &mut Talosctl<'_>, more: &[&str]) -> anyhow::Result<()> {
    let endpoint = format!("https://{}:6443", talosctl.first);
    let made = ["gen", "config", "lab", &endpoint, "--install-disk", "/dev/sda", "--with-docs=false"];
    talosctl.ask(&[&made, more].concat())?.well(&["talosconfig"])?;
    Ok(())
}

/// Gives everybody its configuration as soon as it is in maintenance mode.
pub(super) fn configure(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<()> {
    let tag = format!("v{}", layout.version);
    let nodes = layout.control_planes.iter().map(|node| (node, "controlplane.yaml"));
    for (node, file) in nodes.chain([(&layout.worker, "worker.yaml")]) {
        let node = node.to_string();
        await_maintenance(talosctl, &node, &tag)?;
        talosctl.ask(&["apply-config", "--insecure", "-n", &node, "--file", file])?.well(&[])?;
    }
    Ok(())
}

/// Waits until a node is in maintenance mode. Talos 1.12 does not tell its version there.
fn await_maintenance(talosctl: &mut Talosctl<'_>, node: &str, tag: &str) -> anyhow::Result<()> {
    if tag.starts_with("v1.12.") {
        talosctl.wait(&["get", "disks", "--insecure", "-n", node], &["sda"])?;
        let words = "code = Unimplemented desc = API is not implemented in maintenance mode";
        talosctl.ask(&["version", "--insecure", "-n", node])?.badly(&[words])?;
    } else {
        talosctl.wait(&["version", "--insecure", "-n", node], &[tag])?;
    }
    Ok(())
}

pub(super) fn bootstrap(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    let tag = format!("v{}", layout.version);
    for node in &layout.control_planes {
        let node = node.to_string();
        talosctl.wait(&["-e", &node, "-n", &node, "version"], &[&tag, "Server:"])?;
    }
    let insecure = ["apply-config", "--insecure", "-n", &first, "--file", "controlplane.yaml"];
    talosctl.ask(&insecure)?.badly(&["error applying new configuration: rpc error: code = Unavailable"])?;
    talosctl.of(&first, &["bootstrap"])?.well(&[])?;
    talosctl.wait(&["-e", &first, "-n", &first, "service", "etcd"], &["HEALTH   OK"])?;
    let again = [
        "error executing bootstrap: 1 error occurred:",
        "code = AlreadyExists desc = etcd data directory is not empty",
    ];
    talosctl.of(&first, &["bootstrap"])?.badly(&again)?;
    Ok(())
}

pub(super) fn look(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    talosctl
        .of(&first, &["health", WAIT[0], WAIT[1]])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    let members = talosctl.of(&first, &["get", "members"])?.well(&["MACHINE TYPE"])?;
    for node in layout.everybody() {
        ensure!(members.text.contains(&node.to_string()), "{node} is no member:\n{}", members.text);
    }
    talosctl
        .of(&first, &["get", "machinestatus"])?
        .well(&["runtime     MachineStatus   machine", "running   true"])?;
    talosctl
        .of(&first, &["get", "nosuchtype"])?
        .badly(&["code = NotFound desc = resource \"nosuchtype\" is not registered"])?;
    talosctl.of(&first, &["services"])?.well(&["kubelet", "etcd", "Running", "OK"])?;
    talosctl
        .of(&first, &["service", "nosuch"])?
        .badly(&["service \"nosuch\" is not registered on any nodes"])?;
    talosctl.of(&first, &["kubeconfig", "kubeconfig", "--merge=false"])?.well(&[])?;
    ensure!(talosctl.file("kubeconfig").is_file(), "there is no kubeconfig");
    // Another node is reached through the first one.
    let other = layout.worker.to_string();
    talosctl.ask(&["-e", &first, "-n", &other, "version"])?.well(&[&format!("NODE:        {other}")])?;
    Ok(())
}

pub(super) fn etcd(talosctl: &mut Talosctl<'_>) -> anyhow::Result<()> {
    let first = talosctl.first.clone();
    let members = talosctl.of(&first, &["etcd", "members"])?.well(&["PEER URLS", "LEARNER", "false"])?;
    ensure!(members.text.matches(":2380").count() == 3, "not three members:\n{}", members.text);
    talosctl.of(&first, &["etcd", "status"])?.well(&["RAFT INDEX"])?;
    talosctl
        .of(&first, &["etcd", "snapshot", "db.snapshot"])?
        .well(&["etcd snapshot saved to \"db.snapshot\""])?;
    ensure!(talosctl.file("db.snapshot").is_file(), "there is no snapshot");
    Ok(())
}

pub(super) fn upgrade(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<()> {
    let worker = layout.worker.to_string();
    let first = talosctl.first.clone();
    let image = format!("ghcr.io/siderolabs/installer:v{}", layout.next);
    let args = ["-e", &first, "-n", &worker, "upgrade", "--image", &image, "--timeout", "60s"];
    talosctl.ask(&args)?.well(&[])?;
    talosctl.wait(&["-e", &first, "-n", &worker, "version"], &[&format!("Tag:         v{}", layout.next)])?;
    Ok(())
}

/// Takes a worker back to maintenance mode.
pub(super) fn reset(talosctl: &mut Talosctl<'_>, layout: &Layout) -> anyhow::Result<()> {
    let (first, worker) = (talosctl.first.clone(), layout.worker.to_string());
    let args = [
        "-e",
        &first,
        "-n",
        &worker,
        "reset",
        "--reboot",
        "--system-labels-to-wipe",
        "STATE",
        "--system-labels-to-wipe",
        "EPHEMERAL",
        "--timeout",
        "60s",
    ];
    talosctl.ask(&args)?.well(&[])?;
    let Err(_) = talosctl.of(&worker, &["version"])?.well(&[]) else {
        bail!("the worker still knows its cluster")
    };
    await_maintenance(talosctl, &worker, &format!("v{}", layout.next))
}
