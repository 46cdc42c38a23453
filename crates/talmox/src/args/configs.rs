//! Verbs about machine configuration and the files people reach a cluster with.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{Connection, Description, Output, VariableFlags};

/// What machine configuration is made from.
#[derive(Args)]
pub(crate) struct Making {
    #[command(flatten)]
    pub description: Description,
    /// Look at Proxmox for addresses, ids and hosts that are not declared (--simulate does as well)
    #[arg(long, env = "TALMOX_LIVE", value_parser = FalseyValueParser::new())]
    pub live: bool,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
}

/// Print a node's machine configuration
///
/// What `talosctl gen config` would make, then what the description says, then its patches (cluster, role, pool, node), and then
/// everything Talos would refuse. It holds the cluster's keys; --redact masks them.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox render config cp-1 --redact            to look at
  talmox render config cp-1 > cp-1.yaml         to send; keep it to yourself
  talmox render config worker-1 -o json --redact | jq '.[].kind'")]
pub(crate) struct RenderConfig {
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Mask every secret
    #[arg(long, env = "TALMOX_REDACT", value_parser = FalseyValueParser::new())]
    pub redact: bool,
    #[command(flatten)]
    pub making: Making,
    #[command(flatten)]
    pub output: Output,
}

/// Write every node's machine configuration, and a talosconfig
///
/// Files are called CLUSTER-NODE.yaml and talosconfig, and only their owner may read them. Either all are written or, where
/// one is there already, none; --force replaces them.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox render all --to clusterconfig          for talosctl apply-config
  talmox render all --to clusterconfig --force  once more, over what is there
  talmox render all --to new -o json            and say for programs what was written")]
pub(crate) struct RenderAll {
    /// Folder to write to; made if it is not there
    #[arg(long, env = "TALMOX_TO", value_name = "FOLDER")]
    pub to: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub making: Making,
    #[command(flatten)]
    pub output: Output,
}

/// Compare a node's machine configuration with what it runs with, or with a file
///
/// Field by field, from what the node has, or the file says, to what the description amounts to now. Secrets are masked on both
/// sides. A folder stands for the node's file in it, as `render all` writes it.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox diff cp-1                              what the running node has, and what it should have
  talmox diff cp-1 clusterconfig                what changed since render all --to clusterconfig
  talmox diff cp-1 saved.yaml --detailed-exitcode
  talmox diff cp-1 clusterconfig -o json | jq '.[].path'")]
pub(crate) struct Diff {
    /// The node
    #[arg(value_name = "NODE")]
    pub node: String,
    /// A file with a machine configuration, or a folder that `render all` wrote (default: ask the node)
    #[arg(value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// Exit with 2 if there are differences
    #[arg(long, env = "TALMOX_DETAILED_EXITCODE", value_parser = FalseyValueParser::new())]
    pub detailed_exitcode: bool,
    #[command(flatten)]
    pub making: Making,
    #[command(flatten)]
    pub output: Output,
}

/// Where a file for clients goes.
#[derive(Args)]
pub(crate) struct ClientFile {
    /// File to write instead of the standard output
    #[arg(long, env = "TALMOX_TO", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Merge into the file, or without --to into the user's own
    #[arg(long, env = "TALMOX_MERGE", value_parser = FalseyValueParser::new())]
    pub merge: bool,
    /// Replace a file that is there, or with --merge a certificate that is still good
    #[arg(long)]
    pub force: bool,
}

/// Make a talosconfig from the secrets bundle
///
/// Printed, or written to a file only its owner may read. Merged, the user's own file is that of `TALOSCONFIG`, else
/// ~/.talos/config; a context of the same cluster is renewed once two thirds of its certificate's life are over, another
/// cluster's context of that name is left alone and the new one gets a number.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox talosconfig --merge                    into ~/.talos/config; again whenever you like
  talmox talosconfig --to lab/talosconfig       a file of its own
  talosctl --talosconfig <(talmox talosconfig) version")]
pub(crate) struct Talosconfig {
    #[command(flatten)]
    pub file: ClientFile,
    #[command(flatten)]
    pub making: Making,
}

/// Make an administrator's kubeconfig from the secrets bundle
///
/// Printed, or written to a file only its owner may read. Merged, the user's own file is the first of `KUBECONFIG`, else
/// ~/.kube/config; a context of the same cluster is renewed once two thirds of its certificate's life are over, entries of
/// another cluster with these names are left alone and the new ones get a number.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox kubeconfig --merge                     into ~/.kube/config; again whenever you like
  talmox kubeconfig --to lab/kubeconfig         a file of its own
  KUBECONFIG=lab/kubeconfig talmox kubeconfig --merge")]
pub(crate) struct Kubeconfig {
    #[command(flatten)]
    pub file: ClientFile,
    #[command(flatten)]
    pub description: Description,
}
