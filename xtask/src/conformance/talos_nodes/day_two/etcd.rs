//! etcd: members, leadership, snapshots, leaving and coming back, and a cluster that begins anew from a snapshot.

use anyhow::ensure;

use super::super::programs::WAIT;
use super::{Lab, objects};

/// What is asked of etcd every now and then.
pub(super) fn look_after(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    let members = lab.at(&first, &["etcd", "members"])?.well(&["cp-1", "cp-2", "cp-3"])?;
    ensure!(members.text.matches(":2380").count() == 3, "not three members:\n{}", members.text);
    for node in [0, 1, 2] {
        let node = lab.control_plane(node);
        lab.at(&node, &["etcd", "status"])?.well(&["RAFT APPLIED INDEX", "3.6."])?;
        lab.at(&node, &["etcd", "defrag"])?.well(&[])?;
    }
    lab.at(&first, &["etcd", "alarm", "list"])?.well(&[])?;
    lab.at(&first, &["etcd", "alarm", "disarm"])?.well(&[])?;
    lab.at(&first, &["etcd", "forfeit-leadership"])?.well(&[])?;
    let unknown = "code = NotFound desc = failed to remove member 99: etcdserver: member not found";
    lab.at(&first, &["etcd", "remove-member", "63"])?.badly(&[unknown])?;
    let worker = lab.worker();
    lab.at(&worker, &["etcd", "members"])?.badly(&["is only available on control plane nodes"])?;
    lab.talmox(&["etcd", "status"])?.well(&["cp-1", "cp-2", "cp-3", "leads"])?;
    lab.is_as_described()
}

/// A control plane leaves etcd. talmox says so; wiped it comes back by itself.
pub(super) fn leave_and_return(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let (first, third) = (lab.layout.first(), lab.control_plane(2));
    lab.at(&third, &["etcd", "leave"])?.well(&[])?;
    let members = lab.at(&first, &["etcd", "members"])?.well(&["cp-1", "cp-2"])?;
    ensure!(!members.text.contains("cp-3"), "cp-3 is still a member:\n{}", members.text);
    lab.talmox(&["status"])?.well(&["not healthy", "etcd 2/2", "cp-3"])?;
    // It is not waited for: nothing but its being built anew, or wiped, brings it back.
    lab.talmox(&["plan"])?.badly(&["it left etcd", "talmox apply --replace cp-3", "0 to destroy"])?;
    wipe(lab, std::slice::from_ref(&third))?;
    lab.wait_at(&first, &["etcd", "members"], &["cp-1", "cp-2", "cp-3"])?;
    lab.wait_at(&third, &["service", "etcd"], &["HEALTH   OK"])?;
    well_again(lab)
}

/// Takes the data of control planes away, of all at the same moment; their configurations stay.
fn wipe(lab: &mut Lab<'_>, nodes: &[String]) -> anyhow::Result<()> {
    let (first, all) = (lab.layout.first(), nodes.join(","));
    lab.serve()?;
    let boot =
        |node: &str| ["-e", node, "-n", node, "read", "/proc/sys/kernel/random/boot_id"].map(str::to_owned);
    let mut before = Vec::new();
    for node in nodes {
        let asked = boot(node);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        before.push(lab.talosctl.ask(&asked)?.well(&["-"])?.text);
    }
    let reset =
        ["reset", "--graceful=false", "--reboot", "--system-labels-to-wipe", "EPHEMERAL", "--wait=false"];
    lab.talosctl.ask(&[&["-e", &first, "-n", &all], reset.as_slice()].concat())?.well(&[])?;
    for (node, before) in nodes.iter().zip(before) {
        let asked = boot(node);
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        lab.talosctl.wait_for(&asked, |text| text.contains('-') && text != before)?;
    }
    Ok(())
}

fn well_again(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    for node in lab.layout.everybody().map(|node| node.to_string()).collect::<Vec<_>>() {
        lab.is_ready(&node)?;
    }
    lab.at(&first, &["health", WAIT[0], WAIT[1]])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    lab.is_as_described()
}

/// A snapshot of talmox, all data lost, and a cluster that `talosctl` builds on it.
pub(super) fn restored_by_talosctl(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    let snapshot = lab.file("talmox.snapshot");
    objects::make(lab)?;
    objects::write(lab, "before")?;
    lab.talmox(&["etcd", "snapshot", &snapshot])?.well(&["snapshot of etcd from"])?;
    objects::write(lab, "later")?;
    objects::says(lab, &["before", "later"])?;
    let nodes: Vec<String> = lab.layout.control_planes.iter().map(ToString::to_string).collect();
    wipe(lab, &nodes)?;
    lab.talmox(&["status"])?.well(&["not healthy"])?;
    // Done once, never again: an empty etcd where there was one is for a person to decide about.
    lab.talmox(&["plan"])?.badly(&["--restore"])?;
    lab.serve()?;
    let recover = ["-e", &first, "-n", &first, "bootstrap", "--recover-from", "talmox.snapshot"];
    lab.talosctl.wait(&recover, &["recovering from snapshot"])?;
    lab.wait_at(&first, &["etcd", "members"], &["cp-1", "cp-2", "cp-3"])?;
    well_again(lab)?;
    objects::says(lab, &["before"])
}

/// A snapshot of `talosctl`, all machines lost, and a cluster that talmox builds on it.
pub(super) fn restored_by_talmox(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    lab.at(&first, &["etcd", "snapshot", "talosctl.snapshot"])?.well(&["etcd snapshot saved to"])?;
    objects::write(lab, "later")?;
    let snapshot = lab.file("talosctl.snapshot");
    lab.own.ask(&["etcd", "restore", &snapshot])?.well(&["is a whole snapshot of etcd"])?;
    lab.talmox(&["destroy", "--auto-approve"])?.well(&["no VM is left"])?;
    lab.talmox(&["apply", "--restore", &snapshot, "--auto-approve"])?
        .well(&["healthy, 4 nodes as described"])?;
    lab.wait_at(&first, &["etcd", "members"], &["cp-1", "cp-2", "cp-3"])?;
    well_again(lab)?;
    objects::says(lab, &["before"])
}
