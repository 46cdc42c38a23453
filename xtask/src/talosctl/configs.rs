//! Machine configs: made by both, validated by both.

use anyhow::{Context as _, bail, ensure};
use talmox_machine::sample::Sampler;
use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Config, Role, Source};
use talmox_types::Contract;

use super::{Talosctl, inputs};
use crate::golden::compare;
use crate::scratch::Scratch;
use crate::talos::descriptions;

pub(super) fn check(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let mut sampler = Sampler::new(case as u64 + 1, talosctl.minor);
    let drawn = inputs::draw(&mut sampler, talosctl.minor);
    let arguments = drawn.arguments(&talosctl.scratch.file("secrets.yaml"), &scratch.file("out"));
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    talosctl.run(scratch, &words)?.map_err(anyhow::Error::msg)?;
    let input = drawn.input(&talosctl.bundle);
    for (role, name) in [(Role::ControlPlane, "controlplane.yaml"), (Role::Worker, "worker.yaml")] {
        let config = input.generate(role)?;
        let differences = compare::configs(&scratch.read(&format!("out/{name}"))?, &config.to_yaml())?;
        ensure!(differences.is_empty(), "contract {}, {name}: {}", drawn.contract, differences.join(", "));
        accepted(talosctl, scratch, &config)
            .with_context(|| format!("contract {}, {name}", drawn.contract))?;
    }
    Ok(())
}

/// Configs of the nodes of a drawn description are accepted.
pub(super) fn described(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    let drawn = descriptions::case(case as u64, &talosctl.version, talosctl.minor, &talosctl.bundle)?;
    for (node, text) in &drawn.configs {
        let config = Config::parse(Source { name: node, text })?;
        accepted(talosctl, scratch, &config).with_context(|| format!("{node} of\n{}", drawn.text))?;
    }
    Ok(())
}

/// Both accept a config of ours, in either mode.
pub(super) fn accepted(talosctl: &Talosctl, scratch: &Scratch, config: &Config) -> anyhow::Result<()> {
    let path = scratch.write("ours.yaml", &config.to_yaml())?;
    for (mode, word) in [(Mode::Metal, "metal"), (Mode::Cloud, "cloud")] {
        let verdict = talosctl.run(scratch, &["validate", "--config", &path, "--mode", word])?;
        if let Err(reason) = verdict {
            bail!("refused in {word} mode: {reason}");
        }
        let problems = config.validate(mode, Contract { major: 1, minor: talosctl.minor });
        let refused = problems.iter().find(|problem| problem.severity == Severity::Error);
        ensure!(refused.is_none(), "we refuse in {word} mode what Talos takes: {refused:?}");
    }
    Ok(())
}
