//! Our own program, for chores that run it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Builds it and gives its path; `how` goes to `cargo build`.
pub(crate) fn build(how: &[&str]) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "talmox", "--message-format", "json"])
        .args(how)
        .stderr(Stdio::inherit())
        .output()
        .context("could not run cargo")?;
    ensure!(built.status.success(), "talmox could not be built");
    let messages = String::from_utf8(built.stdout)?;
    let mut programs = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == "talmox";
        message["executable"].as_str().filter(|_| is_ours).map(PathBuf::from)
    });
    programs.next_back().context("cargo named no program")
}
