//! `talosctl upgrade-k8s`.

use super::{KUBERNETES, Lab};

/// Brings Kubernetes to the next version: `talosctl` does it, and talmox finds what it would have made.
pub(super) fn upgrade(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let ([old, new], first) = (KUBERNETES, lab.layout.first());
    let detected = format!("automatically detected the lowest Kubernetes version {old}");
    let step = format!("update kube-apiserver: v{old} -> {new}");
    let far = format!("unsupported upgrade path 1.36->1.38 (from \"{old}\" to \"1.38.0\")");
    lab.at(&first, &["upgrade-k8s", "--to", "1.38.0"])?.badly(&[&far])?;
    let dry = ["upgrade-k8s", "--to", new, "--dry-run"];
    let said = [detected.as_str(), &step, "skipped in dry-run", "updating manifests (dry run)"];
    lab.at(&first, &dry)?.well(&said)?;
    // It applies what is there once more, and nothing is another after that.
    lab.is_as_described()?;
    let said = [
        detected.as_str(),
        &step,
        "waiting for kube-apiserver pod update",
        "waiting for kubelet restart",
        "successfully updated",
        "updating manifests",
        "configured DaemonSet/kube-system/kube-proxy",
        "waiting for kubernetes objects to be fully reconciled",
        "done",
    ];
    lab.at(&first, &["upgrade-k8s", "--to", new])?.well(&said)?;
    let node = lab.worker();
    let image = format!("ghcr.io/siderolabs/kubelet:v{new}");
    lab.at(&node, &["get", "kubeletspec", "-o", "yaml"])?.well(&[&image])?;
    // Once more there is nothing to do.
    let said = ["skipped DaemonSet/kube-system/kube-proxy: no changes", "done"];
    lab.at(&first, &["upgrade-k8s", "--to", new])?.well(&said)?;
    lab.describe(new)?;
    lab.is_as_described()
}
