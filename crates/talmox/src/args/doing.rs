//! Verbs that look at Proxmox, and those that change it.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use talmox_plan::{Moment, Until};
use talmox_talos::Fingerprint;
use talmox_types::{HostName, NodeName};

use super::{Connection, Description, Output, VariableFlags};
use crate::failure::Failure;
use crate::foreign_words::is_description;

/// Which nodes are meant, and what may be done to them.
#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Scope {
    /// Only this node; repeat it, or separate names by commas
    #[arg(long, env = "TALMOX_TARGET", value_name = "NODE", value_delimiter = ',')]
    pub target: Vec<NodeName>,
    /// Remove this node, which the description no longer has, with its disks
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub remove: Vec<NodeName>,
    /// Remove every node the description no longer has, with its disks
    #[arg(long)]
    pub prune: bool,
    /// Build the VM of this node anew; its disks are empty then, but for those with `keep: true`
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub replace: Vec<NodeName>,
    /// Configure this node once more though it is in maintenance mode and was configured before: compare the fingerprint in
    /// the plan with the one on the console first. Only the machine with this fingerprint gets anything
    #[arg(long, value_name = "NODE[=FINGERPRINT]", value_delimiter = ',')]
    pub reconfigure: Vec<ConfiguredAgain>,
    /// Build anew what follows something that has changed: `template` for nodes made from a template of the past
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub roll: Option<Roll>,
    /// This host of Proxmox is gone for good, so a node on it may be replaced elsewhere (with --replace)
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub host_gone: Vec<HostName>,
    /// Move the VM of a node to another host, running if it runs
    #[arg(long = "move", value_name = "NODE=HOST", value_delimiter = ',')]
    pub moves: Vec<Move>,
    /// Restart running VMs for changes that need it
    #[arg(long)]
    pub allow_reboot: bool,
    /// With --allow-reboot: stop the VM of a node hard, and start it again, if its guest does not shut down in time; what the
    /// guest has not written to its disks is lost
    #[arg(long, requires = "allow_reboot")]
    pub force_stop: bool,
    /// Leave this field of VMs alone though it differs; repeat it, or separate fields by commas
    #[arg(long, env = "TALMOX_IGNORE_DRIFT", value_name = "FIELD", value_delimiter = ',')]
    pub ignore_drift: Vec<String>,
    /// How many workers may be away at a time (default: 1)
    #[arg(long, env = "TALMOX_MAX_UNAVAILABLE", value_name = "N", value_parser = some_workers)]
    pub max_unavailable: Option<NonZeroUsize>,
    /// Install upgrades now, and leave the restart they need for later
    #[arg(long, env = "TALMOX_STAGE", value_parser = FalseyValueParser::new())]
    pub stage: bool,
    /// Interrupt nothing that runs before this: 2026-11-16T22:00:00Z, or 22:00 for that time of every day (in UTC)
    #[arg(long, env = "TALMOX_NOT_BEFORE", value_name = "TIME")]
    pub not_before: Option<Moment>,
    /// Interrupt nothing that runs after this; what is left then is said
    #[arg(long, env = "TALMOX_NOT_AFTER", value_name = "TIME")]
    pub not_after: Option<Moment>,
    /// Do without a snapshot of etcd before risky steps
    #[arg(long)]
    pub no_snapshot: bool,
    /// Begin a cluster that has no data with this snapshot of etcd; one encrypted with age is opened with the keys at hand
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,
    /// etcd has lost its majority for good: build control planes that still have data anew, for the snapshot of --restore, or
    /// for one that is taken of them and kept first (`etcd_backup`)
    #[arg(long)]
    pub quorum_lost: bool,
    /// How far the cluster is brought: vms, reachable, configured, bootstrapped or healthy (the default)
    #[arg(long, env = "TALMOX_UNTIL", value_name = "STATE", hide_possible_values = true)]
    pub until: Option<UntilWord>,
}

pub(super) fn some_workers(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a number from 1 on: with nobody away nothing could be upgraded".to_owned())
}

/// What nodes are built anew for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Roll {
    /// The template they stand on is not described any more.
    Template,
}

/// How far a cluster is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UntilWord {
    /// The VMs run.
    Vms,
    /// Every machine answers.
    Reachable,
    /// Every machine has its configuration.
    Configured,
    /// etcd runs.
    Bootstrapped,
    /// Everything works.
    Healthy,
}

impl From<UntilWord> for Until {
    fn from(word: UntilWord) -> Self {
        match word {
            UntilWord::Vms => Self::Vms,
            UntilWord::Reachable => Self::Reachable,
            UntilWord::Configured => Self::Configured,
            UntilWord::Bootstrapped => Self::Bootstrapped,
            UntilWord::Healthy => Self::Healthy,
        }
    }
}

/// A node and the host its VM shall go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub node: NodeName,
    pub host: HostName,
}

impl std::str::FromStr for Move {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (node, host) = text.split_once('=').ok_or("a node and a host with = between: worker-1=pve2")?;
        let node = NodeName::parse(node).map_err(|error| error.to_string())?;
        let host = HostName::parse(host).map_err(|error| error.to_string())?;
        Ok(Self { node, host })
    }
}

/// A node whose machine may be configured again, and the certificate it must show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredAgain {
    pub node: NodeName,
    pub fingerprint: Option<Fingerprint>,
}

impl std::str::FromStr for ConfiguredAgain {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        // A fingerprint may end with = itself.
        let (node, fingerprint) =
            text.split_once('=').map_or((text, None), |(node, rest)| (node, Some(rest)));
        let node = NodeName::parse(node).map_err(|error| error.to_string())?;
        let parse =
            |text: &str| Fingerprint::parse(text).ok_or("a fingerprint has 43 characters and a = at its end");
        let fingerprint = fingerprint.map(parse).transpose()?;
        Ok(Self { node, fingerprint })
    }
}

/// How a run is let loose, and how it reports.
#[derive(Args)]
pub(crate) struct Approval {
    /// Do not ask
    #[arg(short = 'y', long, alias = "yes")]
    pub auto_approve: bool,
    /// Exit with 0 though something is left that only waits: for a lock, a maintenance window, a host that is down, or a
    /// restart that is not allowed. What is left is named either way; a failure or a refusal stays 1
    #[arg(long)]
    pub allow_incomplete: bool,
    /// How many steps at a time (default: as many as Proxmox bears well)
    #[arg(long, env = "TALMOX_PARALLELISM", value_name = "N")]
    pub parallelism: Option<NonZeroUsize>,
    /// How progress is told: text, or json for one object per line on stderr
    #[arg(
        long,
        env = "TALMOX_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Show what apply would do, without doing it
///
/// Looks at Proxmox and compares it with the description; nothing is written. What a change comes from stands below it.
/// Exits with 1 if something is refused; with --detailed-exitcode 2 means that there are changes.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox plan                                   what would be done, and why
  talmox plan --simulate -f examples/homelab    the same on a simulated Proxmox
  talmox plan --target worker-2 --allow-reboot  one node, and let it restart
  talmox plan --ignore-drift tags               as if nobody cared about tags
  talmox plan --out homelab.plan                keep it, for: talmox apply homelab.plan
  talmox plan -o markdown                       for a pull request; json and yaml for programs
  talmox plan --untrusted --simulate            a stranger's pull request, without anything of yours")]
pub(crate) struct Plan {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub scope: Scope,
    /// Format of the plan on stdout: table, json, yaml or markdown
    #[arg(
        short,
        long,
        env = "TALMOX_OUTPUT",
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    pub output: PlanFormat,
    /// File to keep the plan in, for apply; no secret is in it
    #[arg(long, env = "TALMOX_OUT", value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Exit with 2 if there are changes
    #[arg(long, env = "TALMOX_DETAILED_EXITCODE", value_parser = FalseyValueParser::new())]
    pub detailed_exitcode: bool,
    /// With --simulate: treat the description as a stranger's: no file outside its folder, no program, no network, no
    /// variable, and a limit of time and memory
    #[arg(long, env = "TALMOX_UNTRUSTED", value_parser = FalseyValueParser::new(), conflicts_with = "out", help_heading = "Trust")]
    pub untrusted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    Table,
    Json,
    Yaml,
    Markdown,
}

/// Make the cluster as described: from nothing to a healthy Kubernetes
///
/// Shows the plan, asks, and carries it out: VMs, their configuration, one bootstrap, client files, and a wait until everything
/// works. Running it again is always safe, and the way to go on after anything went wrong. Ctrl-C finishes what is under way; a second one stops at once. With a plan file exactly that plan is carried out,
/// and refused if the description or Proxmox have changed since. Exits with 0 if everything it was asked for is so, with --until or
/// --target that part; otherwise with 1, and names each thing that is left with the command that goes on.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox apply                                  show the plan, ask, do it
  talmox apply --simulate -f examples/homelab   the same on a simulated Proxmox
  talmox apply homelab.plan                     the plan that was kept and looked at
  talmox apply --replace worker-2               build one VM anew
  talmox apply --reconfigure worker-2           give it its configuration again, after a look at its console
  talmox apply --move worker-2=pve3             move one VM to another host
  talmox apply --restore etcd.snapshot          build a lost cluster anew, with what a snapshot of etcd holds
  talmox apply --restore etcd.snapshot --quorum-lost   the same where members are left that can do nothing any more
  talmox apply --allow-reboot --force-stop      restart VMs, also those that ignore the ACPI power button
  talmox apply --not-before 22:00 --not-after 04:00   interrupt nothing by day
  talmox apply --until vms                      only the VMs; nothing is asked of what runs in them
  talmox apply --until reachable                and wait until every machine answers
  talmox apply --config-url https://ops.example.org:8443 --config-cert ops.pem --config-key ops.key
                                                where machines fetch their configuration
  talmox apply --auto-approve --log-format json for a pipeline
  talmox apply --auto-approve --allow-incomplete   for one where a VM may be locked by a backup")]
pub(crate) struct Apply {
    /// A plan that `talmox plan --out` kept; its nodes and permissions are those it was made with
    #[arg(
        value_name = "PLANFILE",
        conflicts_with_all = [
            "target", "remove", "prune", "replace", "reconfigure", "roll", "host_gone", "moves", "allow_reboot", "force_stop", "ignore_drift", "max_unavailable", "stage",
            "not_before", "not_after", "no_snapshot", "restore", "quorum_lost",
        ]
    )]
    pub plan: Option<PathBuf>,
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub scope: Scope,
    /// Take the lease of another run over that has died or is wrong
    #[arg(long)]
    pub take_over: bool,
    #[command(flatten)]
    pub serving: ConfigServing,
    #[command(flatten)]
    pub approval: Approval,
}

impl Apply {
    /// The same where a description stands in the place of a plan: `talmox apply lab` is `talmox apply -f lab`.
    pub(crate) fn of_description(mut self) -> Result<Self, Failure> {
        let Some(path) = self.plan.take_if(|path| is_description(path)) else { return Ok(self) };
        if self.description.file != Path::new(".") && self.description.file != path {
            let (one, other) = (path.display(), self.description.file.display());
            return Err(Failure::new(format!("{one} and {other} are both named as the description"))
                .with_hint(format!("name one of them: talmox apply -f {one}")));
        }
        self.description.file = path;
        Ok(self)
    }
}

/// How machines fetch their configuration from a run, with `config_delivery: url`.
#[derive(Args)]
#[expect(clippy::struct_field_names, reason = "they are called what the flags are called")]
pub(crate) struct ConfigServing {
    /// With `config_delivery: url`, where machines reach this one to fetch their configuration: `https://HOST[:PORT]`
    #[arg(long, env = "TALMOX_CONFIG_URL", value_name = "URL")]
    pub config_url: Option<String>,
    /// The certificate they are shown there, as PEM, with those that vouch for it; stock Talos trusts public authorities alone
    #[arg(long, env = "TALMOX_CONFIG_CERT", value_name = "FILE")]
    pub config_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, env = "TALMOX_CONFIG_KEY", value_name = "FILE")]
    pub config_key: Option<PathBuf>,
    /// An authority, as PEM, that the machines trust besides: of an image made for it, or with --simulate
    #[arg(long, env = "TALMOX_CONFIG_CA", value_name = "FILE")]
    pub config_ca: Option<PathBuf>,
    /// Where to listen for them (default: the port of --config-url on every address); with port 0 any that is free, which
    /// --config-url gets if it names none
    #[arg(long, env = "TALMOX_CONFIG_LISTEN", value_name = "ADDRESS:PORT")]
    pub config_listen: Option<SocketAddr>,
}

/// Check whether the cluster is healthy, and wait until it is
///
/// The checks of `talosctl health`, in its order: etcd, the machines, Kubernetes. What is waited for is named, and why. When time
/// is up it says what is missing, what the nodes in question last said, and exits with 1.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox health                                 wait until it is healthy, 20 minutes at most
  talmox health --timeout 0                     one look
  talmox health --timeout 90s -o json           for programs")]
pub(crate) struct Health {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// How long to wait: seconds, or a number with s, m or h
    #[arg(long, env = "TALMOX_TIMEOUT", value_name = "TIME", default_value = "20m")]
    pub timeout: Timeout,
    #[command(flatten)]
    pub output: Output,
}

/// A time people write: `90`, `90s`, `20m`, `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeout(pub Duration);

impl std::str::FromStr for Timeout {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = text.split_at(text.trim_end_matches(['s', 'm', 'h']).len());
        let number: u32 = number.parse().map_err(|_| "a number of seconds, or one with s, m or h: 20m")?;
        let seconds = match unit {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            _ => return Err("one of s, m and h after the number: 20m"),
        };
        Ok(Self(Duration::from_secs(u64::from(number) * seconds)))
    }
}

/// Remove the cluster's VMs and their disks
///
/// Lists every VM and disk and asks for the cluster's name to be typed. What is not proven to be this cluster's is not
/// touched.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox destroy                                everything of this cluster
  talmox destroy --target worker-3              one node
  talmox destroy --simulate --auto-approve      on a simulated Proxmox, without asking")]
pub(crate) struct Destroy {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// Only this node; repeat it, or separate names by commas
    #[arg(long, env = "TALMOX_TARGET", value_name = "NODE", value_delimiter = ',')]
    pub target: Vec<NodeName>,
    /// Take the lease of another run over that has died or is wrong
    #[arg(long)]
    pub take_over: bool,
    #[command(flatten)]
    pub approval: Approval,
}

/// Show every node: its VM, host, power, address, Talos, Kubernetes, and what differs
#[derive(Args)]
#[command(after_help = "Examples:
  talmox status                                 one look
  talmox status --until vms                     ask Proxmox alone, and none of the machines
  talmox status --watch                         again every two seconds; --watch=10 every ten
  talmox status -o json | jq '.nodes[] | select(.state != \"present\")'")]
pub(crate) struct Status {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    /// Look again every so many seconds (default: 2)
    #[arg(
        long,
        env = "TALMOX_WATCH",
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u16).range(1..=3600)
    )]
    pub watch: Option<u16>,
    /// How far to look: with vms Proxmox alone is asked, and no machine
    #[arg(long, env = "TALMOX_UNTIL", value_name = "STATE", hide_possible_values = true)]
    pub until: Option<UntilWord>,
    /// Leave this field of VMs alone though it differs; repeat it, or separate fields by commas
    #[arg(long, env = "TALMOX_IGNORE_DRIFT", value_name = "FIELD", value_delimiter = ',')]
    pub ignore_drift: Vec<String>,
    #[command(flatten)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text: &str| text.parse::<Timeout>().map(|timeout| timeout.0.as_secs());
        for (text, expected) in [("0", 0), ("90", 90), ("90s", 90), ("20m", 1200), ("1h", 3600)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["", "m", "1d", "1ms", "-1", "1.5m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
