//! Bundles: `talosctl`'s read by us, and both read from the config of a control plane.

use anyhow::ensure;
use secrecy::ExposeSecret as _;
use talmox_machine::sample::Sampler;
use talmox_machine::secrets::from_config;
use talmox_machine::{Bundle, Config, Role, Source};

use super::{Talosctl, inputs};
use crate::golden::compare;
use crate::scratch::Scratch;

/// Bundles differ by contract: one encryption secret before 1.3, another since; another service account key before 1.7.
pub(super) const CONTRACTS: [&str; 6] = ["v1.2", "v1.6", "v1.8", "v1.10", "v1.12", "v1.13"];

/// Its bundle is read, complete, printed back the same, and makes the same configs.
pub(super) fn theirs(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let path = scratch.file("theirs.yaml");
    let made = talosctl
        .run(scratch, &["gen", "secrets", "--talos-version", CONTRACTS[case], "--output-file", &path])?;
    made.map_err(anyhow::Error::msg)?;
    let text = scratch.read("theirs.yaml")?;
    let bundle = Bundle::parse(Source { name: "secrets.yaml", text: &text })?;
    // A day of grace: its certificates begin when it runs.
    let now = bundle.os.certificate.not_before().plus(86_400);
    same(&[], &bundle.check(now))?;
    same(&[], &compare::configs(&text, bundle.to_yaml().expose_secret())?)?;
    // An old encryption secret goes into old configs only.
    if CONTRACTS[case] == "v1.2" {
        return Ok(());
    }
    let drawn = inputs::draw(&mut Sampler::new(case as u64 + 1, talosctl.minor), talosctl.minor);
    let arguments = drawn.arguments(&path, &scratch.file("out"));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    talosctl.run(scratch, &words)?.map_err(anyhow::Error::msg)?;
    let ours = drawn.input(&bundle).generate(Role::ControlPlane)?.to_yaml();
    same(&[], &compare::configs(&scratch.read("out/controlplane.yaml")?, &ours)?)
}

/// From a control plane's config, ours, both read the bundle it was made of.
pub(super) fn extracted(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let drawn = inputs::draw(&mut Sampler::new(case as u64 + 1, talosctl.minor), talosctl.minor);
    let config = drawn.input(&talosctl.bundle).generate(Role::ControlPlane)?.to_yaml();
    let config_path = scratch.write("controlplane.yaml", &config)?;
    let path = scratch.file("extracted.yaml");
    let arguments = ["gen", "secrets", "--from-controlplane-config", &config_path, "--output-file", &path];
    talosctl.run(scratch, &arguments)?.map_err(anyhow::Error::msg)?;
    let wanted = talosctl.bundle.to_yaml();
    let theirs = scratch.read("extracted.yaml")?;
    same(&[], &compare::configs(&theirs, wanted.expose_secret())?)?;
    let ours = from_config(&Config::parse(Source { name: "controlplane.yaml", text: &config })?)?;
    same(&[], &compare::configs(wanted.expose_secret(), ours.to_yaml().expose_secret())?)
}

fn same(wanted: &[String], found: &[String]) -> anyhow::Result<()> {
    ensure!(wanted == found, "{}", found.join(", "));
    Ok(())
}
