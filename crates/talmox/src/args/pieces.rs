//! Verbs that show or make one piece.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use talmox_types::Version;

use super::{Connection, Description, Output, RenderAll, RenderConfig, TrustArgs};

/// Show what a node gets and where each value came from
#[derive(Args)]
#[command(after_help = "Examples:
  talmox explain worker-2                       every field of a node
  talmox explain worker-2.memory                one field, and every place that has a say
  talmox explain worker-2.node_gateway -o json  fields of the whole cluster too
  talmox explain worker-2.memory --live         and what Proxmox holds for it")]
pub(crate) struct Explain {
    /// A node, or one field of it
    #[arg(value_name = "NODE[.FIELD]")]
    pub subject: String,
    #[command(flatten)]
    pub description: Description,
    /// Look at Proxmox too, and say what it holds (--simulate does as well)
    #[arg(long, env = "TALMOX_LIVE", value_parser = FalseyValueParser::new())]
    pub live: bool,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// Print what a description amounts to, without touching anything
#[derive(Args)]
#[command(after_help = "Examples:
  talmox render vm cp-1                         the VM as `qm config` prints it
  talmox render config cp-1 --redact            its machine configuration, secrets masked")]
pub(crate) struct Render {
    #[command(subcommand)]
    pub what: RenderWhat,
}

#[derive(Subcommand)]
pub(crate) enum RenderWhat {
    Vm(RenderVm),
    Config(RenderConfig),
    All(RenderAll),
    InstallImage(RenderInstallImage),
}

/// Print a node's VM as `qm config` would
///
/// What Proxmox makes up by itself (vmgenid, meta, uuid, sizes of EFI disk and ISO) is left out. Where the description names
/// no VMID, the one an empty Proxmox would give is shown. Proxmox is not asked: volumes are named as on block storages, and
/// `startup` is there although credentials without Sys.Modify on / cannot set it.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox render vm cp-1                         as described
  talmox render vm cp-1 --boot iso              as if booted from an ISO
  diff <(ssh pve qm config 2000) <(talmox render vm cp-1)")]
pub(crate) struct RenderVm {
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Another boot source than the description's: template, iso or import
    #[arg(long, env = "TALMOX_BOOT", value_name = "SOURCE", hide_possible_values = true)]
    pub boot: Option<BootSource>,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub output: Output,
}

/// Print which install image machines of a provider get, and what is added for them
///
/// The image is the provider's own (`install_images` of the description, or `TALOS_VM_INSTALL_IMAGE_PROXMOX` and its like,
/// which win), else the default one, else none. Works without a description too.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox render install-image --provider proxmox
  talmox render install-image --provider proxmox-prod --node cp-1 -f lab
  TALOS_VM_INSTALL_IMAGE_KVM=example.org/installer:v1 talmox render install-image --provider qemu")]
pub(crate) struct RenderInstallImage {
    /// The provider's name, as machines report it
    #[arg(long, env = "TALMOX_PROVIDER", value_name = "NAME")]
    pub provider: String,
    /// Only this node (default: all of the description)
    #[arg(long, env = "TALMOX_NODE", value_name = "NODE")]
    pub node: Option<String>,
    /// Talos version (default: the description's)
    #[arg(long, env = "TALMOX_TALOS_VERSION", value_name = "VERSION", value_parser = Version::parse)]
    pub talos_version: Option<Version>,
    /// Description: a folder with cluster.yaml and nodes.yaml, or one file (default: this folder, if it has one)
    #[arg(short, long, env = "TALMOX_FILE", value_name = "PATH")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BootSource {
    Template,
    Iso,
    Import,
}

/// Print VMID, name, host, address and MAC of every node, for other tools
#[derive(Args)]
#[command(after_help = "Examples:
  talmox output                                 as a table
  talmox output -o json | jq -r '.nodes[\"cp-1\"].ip_address'")]
pub(crate) struct Outputs {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}
