//! Where the programs are.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::root;

pub(crate) enum Peer {
    Folder(PathBuf),
    /// The line that excuses it.
    Unavailable(String),
}

/// `.ci/peers` gets it if it is not there.
const EXCUSED: i32 = 3;

pub(crate) fn get(name: &str) -> anyhow::Result<Peer> {
    let output = Command::new(root().join(".ci/peers"))
        .arg(name)
        .stderr(Stdio::inherit())
        .output()
        .context("could not run .ci/peers")?;
    let said = String::from_utf8(output.stdout)?.trim_end().to_owned();
    match output.status.code() {
        Some(0) => Ok(Peer::Folder(said.into())),
        Some(EXCUSED) => Ok(Peer::Unavailable(said)),
        _ => bail!("{name} cannot be had"),
    }
}
