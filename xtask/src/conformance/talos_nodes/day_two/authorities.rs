//! Certificate authorities: replaced by `talosctl rotate-ca` behind talmox' back, and by talmox.

use std::path::PathBuf;

use anyhow::ensure;

use super::super::programs::WAIT;
use super::{Lab, machines};

/// What clients of the old authority hear.
const NOT_TRUSTED: &str = "certificate signed by unknown authority";

/// `talosctl` replaces both authorities. talmox has the old secrets then: it must not touch anything, and says how to get
/// the new ones.
pub(super) fn replaced_by_talosctl(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    let control_planes: Vec<String> = lab.layout.control_planes.iter().map(ToString::to_string).collect();
    let (control_planes, worker) = (control_planes.join(","), lab.worker());
    let rotate = |more: &[&'static str]| {
        let mut words =
            vec!["rotate-ca", "--with-docs=false", "--with-examples=false", "-o", "new-talosconfig"];
        words.extend(more);
        words
    };
    let nodes = ["--control-plane-nodes", &control_planes, "--worker-nodes", &worker];
    let dry = [rotate(&["--talos=false"]).as_slice(), &nodes].concat();
    lab.at(&first, &dry)?.well(&["Dry-run mode enabled, no changes were made to the cluster"])?;
    lab.is_as_described()?;

    let kubernetes = [rotate(&["--talos=false", "--dry-run=false"]).as_slice(), &nodes].concat();
    lab.at(&first, &kubernetes)?.well(&["OK (4 nodes ready)", "Kubernetes CA rotation done"])?;
    refused(lab)?;

    let talos = [rotate(&["--kubernetes=false", "--dry-run=false"]).as_slice(), &nodes].concat();
    lab.at(&first, &talos)?.well(&["Removing old Talos CA", "Writing new talosconfig"])?;
    lab.at(&first, &["version"])?.badly(&[NOT_TRUSTED])?;
    refused(lab)?;

    // The way out: the secrets are taken from a control plane, with the talosconfig that was written.
    let file = lab.talosctl.file("new-talosconfig");
    lab.talosctl.use_config(file);
    let text = machines::configuration(lab, &first)?;
    std::fs::write(lab.scratch.path().join("controlplane.yaml"), text)?;
    let secrets = lab.scratch.path().join("secrets.yaml");
    std::fs::rename(&secrets, lab.scratch.path().join("secrets.old"))?;
    lab.talmox(&["secrets", "generate", "--from", "controlplane.yaml"])?.well(&["wrote"])?;
    ensure!(secrets.is_file(), "the secrets are not where they were");
    lab.is_as_described()?;
    lab.talmox(&["apply", "--auto-approve"])?.well(&[])?;
    Ok(())
}

/// talmox changes nothing, and names what happened and what to do.
fn refused(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let said = ["authority", "secrets generate --from"];
    lab.talmox(&["plan"])?.badly(&said)?;
    lab.talmox(&["apply", "--auto-approve"])?.badly(&said)?;
    Ok(())
}

/// talmox replaces the authority of Talos; whoever has the old talosconfig is locked out, the new one works.
pub(super) fn replaced_by_talmox(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let first = lab.layout.first();
    let kept: PathBuf = lab.folder.join("talosconfig");
    let old = lab.talosctl.file("old-talosconfig");
    std::fs::copy(&kept, &old)?;
    lab.talosctl.use_config(old);
    lab.at(&first, &["version"])?.well(&["Server:"])?;
    // It changes the bundle alone, and a simulation leaves the description's own as it is.
    let said = ["wrote a new authority of Talos", "no machine knows it yet"];
    lab.own.ask(&["secrets", "rotate-ca"])?.well(&said)?;
    lab.talmox(&["apply", "--auto-approve"])?.well(&["healthy, 4 nodes as described"])?;
    lab.at(&first, &["version"])?.badly(&[NOT_TRUSTED])?;
    lab.talosctl.use_config(kept);
    for node in lab.layout.everybody().map(|node| node.to_string()).collect::<Vec<_>>() {
        lab.at(&node, &["version"])?.well(&["Server:"])?;
    }
    lab.at(&first, &["health", WAIT[0], WAIT[1]])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    lab.is_as_described()
}
