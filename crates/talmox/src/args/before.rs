//! Verbs before there is anything.

use std::path::PathBuf;

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{Connection, Description, Output, TrustArgs, VariableFlags};

/// Write a description to start from
///
/// Asks for what it needs on a terminal; elsewhere flags and defaults decide. Existing files are never overwritten. With
/// an endpoint, by --endpoint or `PROXMOX_VE_ENDPOINT`, it shows the certificate to compare, and with a token in the
/// environment it offers the hosts, storages, bridges, ids and pools that are there. The cluster's secrets are made too:
/// secrets.sops.yaml where a `.sops.yaml` names an age recipient for it, else secrets.yaml and lines in .gitignore.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox init                                   ask, and write cluster.yaml and nodes.yaml here
  talmox init lab --simulate                    choose from what a simulated Proxmox has
  PROXMOX_VE_API_TOKEN=… talmox init lab --endpoint https://pve.lan:8006
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
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub connection: Connection,
    /// Proxmox host for the VMs
    #[arg(long, env = "TALMOX_HOST", value_name = "HOST")]
    pub host: Option<String>,
    /// Storage for the disks
    #[arg(long, env = "TALMOX_STORAGE", value_name = "STORAGE")]
    pub storage: Option<String>,
    /// Storage for disk images that templates are built from
    #[arg(long, env = "TALMOX_IMAGE_STORAGE", value_name = "STORAGE")]
    pub image_storage: Option<String>,
    /// Pool of the VMs (default: talmox-NAME)
    #[arg(long, env = "TALMOX_POOL", value_name = "POOL")]
    pub pool: Option<String>,
    /// Ids of the VMs, first and last (default: 2000-2999)
    #[arg(long, env = "TALMOX_IDS", value_name = "FIRST-LAST")]
    pub ids: Option<String>,
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
    #[arg(short, long)]
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
  talmox validate --untrusted                   a stranger's: nothing outside its folder is read, nothing of this environment seen
  talmox validate -o json | jq '.[].message'    for programs")]
pub(crate) struct Validate {
    #[command(flatten)]
    pub description: Description,
    /// Treat the description as a stranger's: no file outside its folder, no program, no network, no variable, and a limit
    /// of time and memory
    #[arg(long, env = "TALMOX_UNTRUSTED", value_parser = FalseyValueParser::new(), help_heading = "Trust")]
    pub untrusted: bool,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub output: Output,
}

/// Look whether everything is there that a run needs
///
/// Asks Proxmox and changes nothing: endpoints and certificates, versions and clocks, the token and every privilege this
/// description needs with the path where it is missing, storages, bridges, addresses, ids, capacity, devices, and the agents of
/// nodes that run. Exits with 1 if there is a problem. With --setup it prints the lines that grant a token just what is
/// needed, to paste on a Proxmox host.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox check                                  everything, one line each
  talmox check -o json | jq '.checks[] | select(.verdict == \"problem\")'
  talmox check --setup > setup.sh               lines for a Proxmox host: roles, user, token, rights
  talmox check --setup --expire 30              a token that ends after thirty days
  talmox check --setup -f templates.yaml        the same for manifests of templates")]
pub(crate) struct Check {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// Print lines to paste on a Proxmox host instead: least rights for this description and that version
    #[arg(long, env = "TALMOX_SETUP", value_parser = FalseyValueParser::new())]
    pub setup: bool,
    /// With --setup: the user to make (default: talmox-CLUSTER@pve)
    #[arg(long, env = "TALMOX_USER", value_name = "USER@REALM", requires = "setup")]
    pub user: Option<String>,
    /// With --setup: days until the token ends
    #[arg(
        long,
        env = "TALMOX_EXPIRE",
        value_name = "DAYS",
        default_value_t = 365,
        value_parser = clap::value_parser!(u64).range(1..=36_500)
    )]
    pub expire: u64,
    #[command(flatten)]
    pub output: Output,
}
