//! Where OpenTofu looks for the one provider it gets.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// What the provider is called by those who want it.
pub(crate) const ADDRESS: &str = "registry.opentofu.org/bpg/proxmox/0.112.0/linux_amd64";
pub(crate) const BINARY: &str = "terraform-provider-proxmox_v0.112.0";

/// The file `TF_CLI_CONFIG_FILE` names: this mirror and nothing else.
pub(crate) fn settings(mirror: &Path) -> String {
    format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
        mirror.display()
    )
}

/// Makes a mirror with the one provider in a folder, and the file of settings that names it.
pub(super) fn mirror(folder: &Path, bpg: &Path) -> anyhow::Result<PathBuf> {
    let mirror = folder.join("mirror");
    let place = mirror.join(ADDRESS);
    fs::create_dir_all(&place)?;
    symlink(bpg.join(BINARY), place.join(BINARY)).context("no mirror")?;
    let file = folder.join("tofurc");
    fs::write(&file, settings(&mirror))?;
    Ok(file)
}
