//! Where OpenTofu looks for the one provider it gets.

use std::path::Path;

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
