//! The verb that takes VMs others made.

use std::net::IpAddr;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use talmox_types::NodeName;

use super::{Connection, Description, Output};

/// Take VMs that are there into the description
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
                                                as a node that the description does not have yet")]
pub(crate) struct Adopt {
    /// Node of the description whose VM is taken
    #[arg(value_name = "NODE", conflicts_with_all = ["all_matching", "name"])]
    pub node: Option<NodeName>,
    /// VM that is taken, by its id
    #[arg(
        long,
        env = "TALMOX_VMID",
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
    #[arg(long, env = "TALMOX_AUTO_APPROVE", value_parser = FalseyValueParser::new())]
    pub auto_approve: bool,
    #[command(flatten)]
    pub description: Description,
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
