//! Chains of patches, applied by both to drawn documents.

use anyhow::{bail, ensure};
use talmox_machine::sample::Sampler;
use talmox_machine::{Config, Patch, Source, patch};

use super::Talosctl;
use crate::golden::compare;
use crate::scratch::Scratch;
use crate::talos::UNSETTABLE;

/// Among how many seeds one whose patches apply is looked for. Some delete what is not there, and before 1.14 Talos could
/// not merge some values at all.
const TRIES: usize = 12;

pub(super) fn check(talosctl: &Talosctl, scratch: &Scratch, case: usize) -> anyhow::Result<()> {
    for attempt in 0..TRIES {
        if chain(talosctl, scratch, case * TRIES + attempt)? {
            return Ok(());
        }
    }
    bail!("of {TRIES} chains none could be applied")
}

/// False where both refuse, or Talos could not merge the values at all.
fn chain(talosctl: &Talosctl, scratch: &Scratch, seed: usize) -> anyhow::Result<bool> {
    let mut sampler = Sampler::new(seed as u64 + 1, talosctl.minor);
    let base = sampler.config();
    let Ok(config) = Config::parse(Source { name: "base", text: &base }) else { return Ok(false) };
    let mut arguments =
        vec!["machineconfig".to_owned(), "patch".to_owned(), scratch.write("base.yaml", &base)?];
    let mut patches = Vec::new();
    let mut shown = format!("--- base\n{base}");
    for index in 0..=sampler.below(3) {
        let text = sampler.patch(&config);
        let path = scratch.write(&format!("patch{index}.yaml"), &text)?;
        arguments.extend(["--patch".to_owned(), format!("@{path}")]);
        patches.push(Patch::parse(Source { name: "patch", text: &text })?);
        shown.push_str(&format!("--- patch {index}\n{text}"));
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let theirs = talosctl.run(scratch, &words)?;
    let ours = patch::apply_to_text(Source { name: "base", text: &base }, &patches);
    match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => {
            let differences = compare::configs(&theirs, &ours.to_yaml())?;
            ensure!(differences.is_empty(), "{}\n{shown}", differences.join(", "));
            Ok(true)
        }
        (Err(_), Err(_)) => Ok(false),
        (Err(theirs), Ok(_)) if theirs.contains(UNSETTABLE) => Ok(false),
        (Err(theirs), Ok(_)) => bail!("only talosctl refuses: {theirs}\n{shown}"),
        (Ok(_), Err(ours)) => bail!("only we refuse: {ours}\n{shown}"),
    }
}
