//! Verbs that show or make one piece.

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};

use super::{Connection, Description, Output};

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
pub(crate) struct Render {
    #[command(subcommand)]
    pub what: RenderWhat,
}

#[derive(Subcommand)]
pub(crate) enum RenderWhat {
    Vm(RenderVm),
}

/// Print a node's VM as `qm config` would
///
/// What Proxmox makes up by itself (vmgenid, meta, uuid, sizes of EFI disk and ISO) is left out. Where the description names
/// no VMID, the one an empty Proxmox would give is shown.
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
