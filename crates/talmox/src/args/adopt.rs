//! The verb that takes VMs and clusters others made.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand, ValueEnum};
use talmox_secrets::age::Recipient;
use talmox_types::{ClusterName, NodeName};

use super::{Connection, Description, Output, TrustArgs};

/// Take VMs, or whole clusters, that are there into a description
///
/// Looks at the VM, writes what it is into the description (comments and everything else are kept), and gives it the mark by
/// which talmox knows its VMs. Before anything is written it is proven that the next plan would refuse nothing and change
/// nothing that a running VM notices. A VM is taken without --vmid only if its MAC address, address or SMBIOS values are the
/// node's: a name proves nothing.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox adopt --all-matching --dry-run         what could be taken, and what would be written
  talmox adopt --all-matching --dry-run -o json the same for programs
  talmox adopt --all-matching                   take every VM that plainly is a node
  talmox adopt cp-1                             the VM of one node
  talmox adopt cp-1 --vmid 105                  this very VM, whatever it is called; a lost one too
  talmox adopt --vmid 105                       as the node it is
  talmox adopt --vmid 105 --as worker-4 --role worker
                                                as a node that the description does not have yet
  talmox adopt cluster -f lab                   write the description of a cluster that runs")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Adopt {
    #[command(subcommand)]
    pub what: Option<AdoptWhat>,
    /// Node of the description whose VM is taken
    #[arg(value_name = "NODE", conflicts_with_all = ["all_matching", "name"])]
    pub node: Option<NodeName>,
    /// VM that is taken, by its id
    #[arg(
        long,
        value_name = "ID",
        value_parser = clap::value_parser!(u32).range(100..=999_999_999),
        conflicts_with = "all_matching"
    )]
    pub vmid: Option<u32>,
    /// Every node whose VM is plain to see
    #[arg(long, env = "TALMOX_ALL_MATCHING", value_parser = FalseyValueParser::new())]
    pub all_matching: bool,
    /// Add the VM to the description under this name
    #[arg(long = "as", env = "TALMOX_AS", value_name = "NAME", requires = "vmid", requires = "role")]
    pub name: Option<NodeName>,
    /// What a node that is added is: controller or worker
    #[arg(long, env = "TALMOX_ROLE", value_name = "ROLE", hide_possible_values = true, requires = "name")]
    pub role: Option<RoleWord>,
    /// Address of a node that is added, if its VM does not tell; two for both families
    #[arg(long, env = "TALMOX_ADDRESS", value_name = "IP", value_delimiter = ',', requires = "name")]
    pub address: Vec<IpAddr>,
    /// Show what would be written, and write nothing
    #[arg(long, env = "TALMOX_DRY_RUN", value_parser = FalseyValueParser::new())]
    pub dry_run: bool,
    /// Do not ask
    #[arg(short = 'y', long, alias = "yes")]
    pub auto_approve: bool,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Subcommand)]
pub(crate) enum AdoptWhat {
    // In a box: it has a flag for everything a description would say.
    Cluster(Box<AdoptCluster>),
}

/// Write the description of a cluster that runs and that others made
///
/// Asks every machine what it runs with and Proxmox what the VMs are, and writes cluster.yaml, nodes.yaml, the cluster's
/// secrets (readable by their owner alone, or encrypted where a recipient is known) and patches: what the description has no word
/// for, of all nodes, of a role, of one node. What machines would then be given is proven to be what they run with, field for
/// field; what cannot be said is named. Neither Proxmox nor a machine is changed, and no file is overwritten.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox adopt cluster -f lab --endpoint https://pve.lan:8006 --fingerprint AB:CD:…
                                                with the user's talosconfig, into the folder lab
  talmox adopt cluster -f lab --talosconfig ./talosconfig --context lab
                                                another talosconfig; Proxmox as the environment says
  talmox adopt cluster -f lab --nodes 10.0.7.11,10.0.7.21
                                                where machines do not know of each other
  talmox adopt cluster -f lab --secrets talsecret.sops.yaml --nodes 10.0.7.11
                                                with talhelper's secrets instead of a talosconfig
  talmox adopt cluster -f lab --dry-run -o json what would be written, for programs
  talmox adopt --all-matching -f lab            afterwards: mark the VMs")]
pub(crate) struct AdoptCluster {
    /// Name the cluster gets in the description (default: the one its configuration has)
    #[arg(value_name = "NAME")]
    pub name: Option<ClusterName>,
    /// Folder to write to; made if it is not there
    #[arg(short, long, env = "TALMOX_FILE", value_name = "FOLDER", default_value = ".")]
    pub file: PathBuf,
    /// File that lets us in to the machines (default: that of `TALOSCONFIG`, else ~/.talos/config)
    #[arg(long, env = "TALMOX_TALOSCONFIG", value_name = "FILE", conflicts_with = "secrets")]
    pub talosconfig: Option<PathBuf>,
    /// Context of the talosconfig (default: the current one)
    #[arg(long, env = "TALMOX_CONTEXT", value_name = "NAME", conflicts_with = "secrets")]
    pub context: Option<String>,
    /// Secrets of the cluster instead of a talosconfig: talosctl's secrets.yaml or talhelper's talsecret.yaml, plain or encrypted
    #[arg(long, env = "TALMOX_SECRETS", value_name = "FILE", requires = "nodes")]
    pub secrets: Option<PathBuf>,
    /// Addresses of the machines (default: those of the talosconfig, and whoever they know as members)
    #[arg(long, env = "TALMOX_NODES", value_name = "IP", value_delimiter = ',')]
    pub nodes: Vec<IpAddr>,
    /// Proxmox API (default: as the environment says)
    #[arg(long, env = "TALMOX_ENDPOINT", value_name = "URL")]
    pub endpoint: Option<String>,
    /// Where the API token is, as in a description: `env:NAME`, `file:PATH` … (default: `env:PROXMOX_VE_API_TOKEN`)
    #[arg(long, env = "TALMOX_API_TOKEN", value_name = "REFERENCE", requires = "endpoint")]
    pub api_token: Option<String>,
    /// Public keys of age that may read the secrets, with commas between them (default: those of .sops.yaml)
    #[arg(long, env = "TALMOX_AGE", value_name = "RECIPIENT", value_delimiter = ',')]
    pub age: Vec<Recipient>,
    /// Show what would be written, and write nothing
    #[arg(long, env = "TALMOX_DRY_RUN", value_parser = FalseyValueParser::new())]
    pub dry_run: bool,
    #[command(flatten)]
    pub trust: TrustArgs,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleWord {
    Controller,
    Worker,
}
