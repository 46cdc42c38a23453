//! Verbs about hosts of Proxmox that somebody works on.

use std::num::NonZeroUsize;

use clap::{Args, Subcommand};
use talmox_types::HostName;

use super::doing::some_workers;
use super::{Approval, Connection, Description, PlanOnly, VariableFlags};

/// Take nodes off a host of Proxmox before somebody works on it, and put them back
///
/// Nodes that can run elsewhere are moved while they run; others are drained and stopped, one at a time and never more than etcd
/// bears. What was done stands in the mark of each VM: nothing else has to be kept, and both verbs can be run again.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox host drain pve2                        show what would happen, ask, do it
  talmox host drain pve2 --plan-only            show only
  talmox host return pve2                       start again what was stopped
  talmox host return pve2 --move-back           and move back what was moved")]
pub(crate) struct Host {
    #[command(subcommand)]
    pub what: HostWhat,
}

#[derive(Subcommand)]
pub(crate) enum HostWhat {
    Drain(HostDrain),
    Return(HostReturn),
}

/// Take the nodes of the cluster off a host
///
/// A node that can run on another host is moved there while it runs, disks and all if it has to be. One that cannot, because
/// of a device or for want of room, is drained of its pods and stopped. Control planes go one at a time, and stay where etcd
/// would have no majority without them.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox host drain pve2                        show the plan, ask, do it
  talmox host drain pve2 --plan-only -o json    for programs
  talmox host drain pve2 --auto-approve         without asking
  talmox host drain pve2 --max-unavailable 2    though a worker elsewhere is away")]
pub(crate) struct HostDrain {
    /// The host, as Proxmox calls it
    #[arg(value_name = "HOST")]
    pub host: HostName,
    /// How many workers may be away at a time (default: 1); those that are stopped for the host do not count
    #[arg(long, env = "TALMOX_MAX_UNAVAILABLE", value_name = "N", value_parser = some_workers)]
    pub max_unavailable: Option<NonZeroUsize>,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub plan: PlanOnly,
    #[command(flatten)]
    pub approval: Approval,
}

/// Start again what was stopped when a host was drained
///
/// Waits until each node is well and lets pods back. What was moved stays where it is, unless it is asked back.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox host return pve2                       start what was stopped
  talmox host return pve2 --move-back           and move back what was moved")]
pub(crate) struct HostReturn {
    /// The host, as Proxmox calls it
    #[arg(value_name = "HOST")]
    pub host: HostName,
    /// Move back what was moved away when the host was drained
    #[arg(long)]
    pub move_back: bool,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub plan: PlanOnly,
    #[command(flatten)]
    pub approval: Approval,
}
