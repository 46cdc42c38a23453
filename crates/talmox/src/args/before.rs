//! Verbs before there is anything.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{Description, Output};

/// Write a description to start from
///
/// Asks for what it needs on a terminal; elsewhere flags and defaults decide. Existing files are never overwritten.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox init                                   ask, and write cluster.yaml and nodes.yaml here
  talmox init lab --name lab --endpoint https://pve.lan:8006 --node-cidr 10.0.7.0/24 --yes
  talmox init lab --control-planes 1 --workers 0 --yes")]
pub(crate) struct Init {
    /// Folder to write to; made if it is not there
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
    /// Name of the cluster
    #[arg(long, env = "TALMOX_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// Proxmox API
    #[arg(long, env = "TALMOX_ENDPOINT", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Proxmox host for the VMs
    #[arg(long, env = "TALMOX_HOST", value_name = "HOST")]
    pub host: Option<String>,
    /// Storage for the disks
    #[arg(long, env = "TALMOX_STORAGE", value_name = "STORAGE")]
    pub storage: Option<String>,
    /// Bridge for the network
    #[arg(long, env = "TALMOX_BRIDGE", value_name = "BRIDGE")]
    pub bridge: Option<String>,
    /// Network of the nodes
    #[arg(long, env = "TALMOX_NODE_CIDR", value_name = "CIDR")]
    pub node_cidr: Option<String>,
    /// Gateway of the nodes (default: first address of the network)
    #[arg(long, env = "TALMOX_GATEWAY", value_name = "ADDRESS")]
    pub gateway: Option<String>,
    /// Address of the first node; the others follow it
    #[arg(long, env = "TALMOX_FIRST_ADDRESS", value_name = "ADDRESS")]
    pub first_address: Option<String>,
    /// Virtual address of the Kubernetes API (default: the address before the first node's)
    #[arg(long, env = "TALMOX_VIP", value_name = "ADDRESS")]
    pub vip: Option<String>,
    /// How many control planes: 1, 3, 5 or 7
    #[arg(long, env = "TALMOX_CONTROL_PLANES", value_name = "N")]
    pub control_planes: Option<u16>,
    /// How many workers
    #[arg(long, env = "TALMOX_WORKERS", value_name = "N")]
    pub workers: Option<u16>,
    /// Take the default for everything not given, without asking
    #[arg(short, long, env = "TALMOX_YES", value_parser = FalseyValueParser::new())]
    pub yes: bool,
}

/// Check a description and explain every mistake in it
///
/// Reads the files only; nothing is sent anywhere. Problems go to stderr with their place, cause and a hint; with -o json
/// they are a list on stdout. Exits with 1 if there is an error.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox validate                               the description in this folder
  talmox validate -f examples/homelab           another one
  talmox validate -v                            notes too: keys that other tools read
  talmox validate -o json | jq '.[].message'    for programs")]
pub(crate) struct Validate {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub output: Output,
}
