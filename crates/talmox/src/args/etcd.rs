//! Verbs about etcd.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use talmox_secrets::age::Recipient;

use super::{Connection, Description, Output};

/// Look at etcd, keep snapshots of it, give space back
///
/// etcd holds everything Kubernetes knows. A snapshot of it, the secrets bundle and the description are all it takes to build a
/// cluster anew: apply --restore.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd status                            each member: size, leader, alarms
  talmox etcd snapshot                          to where etcd_backup of the description says
  talmox etcd snapshot today.snapshot           to a file
  talmox etcd defrag                            give back what the databases do not use")]
pub(crate) struct Etcd {
    #[command(subcommand)]
    pub what: EtcdWhat,
}

#[derive(Subcommand)]
pub(crate) enum EtcdWhat {
    Status(EtcdStatus),
    Members(EtcdMembers),
    Snapshot(EtcdSnapshot),
    Defrag(EtcdDefrag),
    Restore(EtcdRestore),
}

/// Show what each member says: version, size, leader, raft, alarms, and what to do where something is wrong
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd status
  talmox etcd status -o json | jq '.nodes[] | select(.alarms != [])'")]
pub(crate) struct EtcdStatus {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// List the members etcd knows
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd members
  talmox etcd members -o json | jq -r '.members[] | .id + \" \" + .hostname'")]
pub(crate) struct EtcdMembers {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// Take a snapshot: of a healthy member, checked, for its owner alone to read
///
/// Without FILE it goes where `etcd_backup` of the description says, and the oldest go that are more than it keeps. It is
/// encrypted with age where a recipient is known. A file that is there is not overwritten. Without a quorum the member that
/// knows most gives what it has.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd snapshot                          to where etcd_backup says
  talmox etcd snapshot today.snapshot           to a file
  talmox etcd snapshot today.snapshot.age --age age1…
  talmox etcd snapshot - | ssh vault 'cat > lab.snapshot'")]
pub(crate) struct EtcdSnapshot {
    /// File to write; - for stdout, which must not be a terminal
    #[arg(value_name = "FILE")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// Public keys of age that may read it, with commas between them (default: those of `etcd_backup`)
    #[arg(long, env = "TALMOX_AGE", value_name = "RECIPIENT", value_delimiter = ',')]
    pub age: Vec<Recipient>,
    /// Do not encrypt it, though `etcd_backup` names recipients
    #[arg(long, conflicts_with = "age")]
    pub plain: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Give back what the databases do not use: one member after the other, the leader last
///
/// A member answers nobody while it is busy, so all others must be healthy, and it itself again before the next.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd defrag
  talmox etcd defrag --disarm                   and take a NOSPACE alarm back once there is space")]
pub(crate) struct EtcdDefrag {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// Take alarms back once every member is defragmented: etcd takes writes again
    #[arg(long)]
    pub disarm: bool,
    /// Take the lease of another run over that has died or is wrong
    #[arg(long)]
    pub take_over: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Check a snapshot, and say how a cluster is built on it
///
/// Nothing is changed. The file is read from its beginning to its end; one that is encrypted is opened with the age keys at hand.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox etcd restore today.snapshot            is it whole, and what to type
  talmox apply --restore today.snapshot         do it")]
pub(crate) struct EtcdRestore {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub snapshot: PathBuf,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub output: Output,
}
