//! Machines: configurations on trial, staged and at once; restarts, upgrades and the way back.

use std::time::Instant;

use anyhow::ensure;

use super::super::programs::{PATIENCE, PAUSE, WAIT};
use super::Lab;

/// A setting nobody described.
const SETTING: &str = "net.core.somaxconn";

/// Asks for the configuration in force.
const CONFIGURATION: [&str; 5] = ["get", "machineconfig", "v1alpha1", "-o", "jsonpath={.spec}"];

/// Configurations by `talosctl`, in every mode.
pub(super) fn configure(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let worker = lab.worker();
    let own = configuration(lab, &worker)?;
    let setting = format!("machine:\n    sysctls:\n        {SETTING}: \"4096\"\n");
    let other = own.replacen("machine:\n", &setting, 1);
    ensure!(own != other, "the configuration has no machine section:\n{own}");
    std::fs::write(lab.talosctl.file("own.yaml"), &own)?;
    std::fs::write(lab.talosctl.file("other.yaml"), &other)?;
    for (mode, words) in [
        ("try", "Applied configuration without a reboot (skipped in dry-run)."),
        ("staged", "Staged configuration to be applied after the next reboot (skipped in dry-run)."),
        ("no-reboot", "Applied configuration without a reboot (skipped in dry-run)."),
    ] {
        let mode = format!("--mode={mode}");
        let said = [words, "Config diff:", SETTING];
        lab.at(&worker, &["apply-config", &mode, "--dry-run", "--file", "other.yaml"])?.well(&said)?;
    }
    lab.is_as_described()?;

    // A trial that nobody confirms is over after its time, and leaves nothing behind. It is long enough to be looked at by
    // programs that are slow, while time flies.
    let trial = ["apply-config", "--mode=try", "--timeout", "10m", "--file", "other.yaml"];
    let said = "The config is applied in 'try' mode and will be automatically reverted back in 10m0s";
    lab.at(&worker, &trial)?.well(&[said])?;
    ensure!(configuration(lab, &worker)?.contains(SETTING), "the trial is not in force");
    lab.talmox(&["plan"])?.well(&["machine.sysctls is on trial since", "Nothing can be done now."])?;
    lab.serve()?;
    let first = lab.layout.first();
    let active = [&["-e", &first, "-n", &worker], CONFIGURATION.as_slice()].concat();
    lab.talosctl.wait_for(&active, |text| !text.contains(SETTING))?;
    lab.is_as_described()?;

    // What is in force at once differs from the description; what is staged is in force after a restart.
    lab.at(&worker, &["apply-config", "--mode=no-reboot", "--file", "other.yaml"])?.well(&[])?;
    lab.talmox(&["plan"])?.well(&["worker-1", SETTING, "0 to destroy"])?;
    lab.at(&worker, &["apply-config", "--mode=staged", "--file", "own.yaml"])?
        .well(&["Staged configuration to be applied after the next reboot"])?;
    ensure!(configuration(lab, &worker)?.contains(SETTING), "what is staged is in force already");
    restarted(lab, &worker, &["reboot", "--wait=false"])?;
    ensure!(!configuration(lab, &worker)?.contains(SETTING), "what was staged is not in force");
    lab.is_as_described()
}

/// The configuration in force.
pub(super) fn configuration(lab: &mut Lab<'_>, node: &str) -> anyhow::Result<String> {
    Ok(lab.at(node, &CONFIGURATION)?.well(&["version: v1alpha1"])?.text)
}

/// Asks for something that restarts a machine, and waits until it is back and another boot.
fn restarted(lab: &mut Lab<'_>, node: &str, args: &[&str]) -> anyhow::Result<()> {
    let boot = ["read", "/proc/sys/kernel/random/boot_id"];
    let before = lab.at(node, &boot)?.well(&["-"])?.text;
    lab.at(node, args)?.well(&[])?;
    let first = lab.layout.first();
    let asked = [&["-e", &first, "-n", node], boot.as_slice()].concat();
    lab.talosctl.wait_for(&asked, |text| text.contains('-') && text != before)?;
    lab.is_ready(node)
}

/// An upgrade, the way back, and a machine that is switched off.
pub(super) fn restart(lab: &mut Lab<'_>) -> anyhow::Result<()> {
    let worker = lab.worker();
    let (old, new) = (format!("Tag:         v{}", lab.layout.version), format!("v{}", lab.layout.next));
    let image = format!("ghcr.io/siderolabs/installer:{new}");
    lab.at(&worker, &["rollback"])?.badly(&["code = Unknown desc = file does not exist"])?;
    let staged = ["upgrade", "--legacy", "--stage", "--drain=false", "--wait=false", "--image", &image];
    restarted(lab, &worker, &staged)?;
    lab.wait_at(&worker, &["version"], &[&format!("Tag:         {new}")])?;
    lab.talmox(&["plan"])?.well(&["worker-1", lab.layout.next, "0 to destroy"])?;
    restarted(lab, &worker, &["rollback"])?;
    lab.wait_at(&worker, &["version"], &[&old])?;
    lab.is_as_described()?;

    lab.at(&worker, &["shutdown", "--wait=false"])?.well(&[])?;
    switched_off(lab, &worker)?;
    lab.talmox(&["status"])?.well(&["stopped, described as running"])?;
    lab.talmox(&["plan"])?.well(&["worker-1", "it is stopped", "0 to destroy"])?;
    lab.talmox(&["apply", "--auto-approve"])?.well(&["healthy, 4 nodes as described"])?;
    let first = lab.layout.first();
    lab.at(&first, &["health", WAIT[0], WAIT[1]])?
        .well(&["waiting for all k8s nodes to report ready: OK"])?;
    lab.is_as_described()
}

/// Waits until a machine answers nobody and Proxmox knows that its VM is off.
fn switched_off(lab: &mut Lab<'_>, node: &str) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        lab.serve()?;
        while lab.talosctl.of(node, &["version"])?.well(&[]).is_ok() {
            ensure!(Instant::now() < deadline, "{node} is still there");
            std::thread::sleep(PAUSE);
        }
        let said = lab.talmox(&["status"])?;
        if said.text.contains("3 of 4 VMs run") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{node} is not switched off:\n{}", said.text);
    }
}
