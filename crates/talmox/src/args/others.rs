//! Verbs beside the daily work.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Output;

/// Run a simulated Proxmox VE on this machine
///
/// Serves the API of a Proxmox VE cluster over HTTPS on 127.0.0.1, with hosts pve1 and so on, the storages local and
/// local-zfs and what --storage adds, and the bridge vmbr0. Nothing is virtualised: VMs exist, are configured, start and stop, and that is all.
/// Answers are held against recordings of real servers; `talmox sim behaviours` says what is proven by what. When it is
/// ready, where and how to reach it is printed on stdout; Ctrl-C ends it.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  talmox sim                                    one host, gone when it ends
  talmox sim --hosts 3 --state lab-sim          a cluster that is kept in a folder
  talmox sim --fault faults.yaml                what goes wrong, and when
  talmox sim --version 8.4 --storage fast=lvmthin:500G --storage ceph=rbd
                                                another version, and storages of its own
  talmox sim --latency 0 --speed 60 -o json     for programs: fast, one line of JSON when ready
  talmox sim behaviours                         what is simulated, and what proves it")]
pub(crate) struct Sim {
    #[command(subcommand)]
    pub what: Option<SimWhat>,
    /// How many hosts; a world from --state keeps its own
    #[arg(long, env = "TALMOX_HOSTS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub hosts: Option<u32>,
    /// Version of Proxmox VE: 8.4, 9.0 or 9.2 (default: 9.2), or of each host: `pve1=8.4,pve2=9.2`; a world from
    /// --state keeps its own
    #[arg(long, env = "TALMOX_VERSION", value_name = "VERSION")]
    pub version: Option<String>,
    /// A storage beside local and local-zfs, or in place of one: `NAME=TYPE[:SIZE][,shared][,nodes=A+B][,content=X+Y]`
    #[arg(long = "storage", env = "TALMOX_STORAGE", value_name = "STORAGE", value_delimiter = ' ')]
    pub storages: Vec<talmox_sim::Storage>,
    /// Median round trip of a read in milliseconds; other calls take longer, as on recorded servers
    #[arg(
        long,
        env = "TALMOX_LATENCY",
        value_name = "MS",
        default_value_t = talmox_sim::serve::RECORDED_GET,
        value_parser = clap::value_parser!(u64).range(..=60_000)
    )]
    pub latency: u64,
    /// How much faster than real time tasks run; 0 stops the clock
    #[arg(long, env = "TALMOX_SPEED", value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,
    /// Where ids, addresses and secrets come from; the same seed makes the same (default: a new one)
    #[arg(long, env = "TALMOX_SEED", value_name = "N")]
    pub seed: Option<u64>,
    /// Folder to keep the world in; made if it is not there
    #[arg(long, env = "TALMOX_STATE", value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// File that says what goes wrong, and when: calls that fail, hang or get lost, workers that die, hosts that are
    /// lost; `talmox schema faults` describes it
    #[arg(long, env = "TALMOX_FAULT", value_name = "FILE")]
    pub fault: Option<PathBuf>,
    /// Port of the first host, the others take the next ones; 0 for any that is free
    #[arg(long, env = "TALMOX_PORT", value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// An authority, as PEM, that Talos nodes trust when they fetch their configuration (`config_delivery: url`); without it
    /// they trust nobody's
    #[arg(long, env = "TALMOX_CONFIG_CA", value_name = "FILE")]
    pub config_ca: Option<PathBuf>,
    /// File to write every call to, one JSON object per line: method, path, status, time; never what was sent
    #[arg(long, env = "TALMOX_CALL_LOG", value_name = "FILE")]
    pub call_log: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

#[derive(Subcommand)]
pub(crate) enum SimWhat {
    Behaviours(SimBehaviours),
}

/// List what is simulated, and what proves each behaviour
#[derive(Args)]
#[command(after_help = "Examples:
  talmox sim behaviours                         as a table
  talmox sim behaviours -o json | jq '.[] | select(.proof == \"unproven\")'")]
pub(crate) struct SimBehaviours {
    #[command(flatten)]
    pub output: Output,
}

/// Print the JSON Schema of the description files and of fault plans, for editors, or of what `plan -o json` prints
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schema > cluster.schema.json
  talmox schema nodes > nodes.schema.json
  talmox schema plan > plan.schema.json
  talmox schema faults > faults.schema.json
  # yaml-language-server: $schema=cluster.schema.json   as the first line of cluster.yaml")]
pub(crate) struct Schema {
    /// Which one: cluster, nodes, plan or faults
    #[arg(value_name = "WHICH", default_value = "cluster", hide_possible_values = true)]
    pub file: SchemaFile,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaFile {
    Cluster,
    Nodes,
    Plan,
    Faults,
}

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = "Examples:
  source <(talmox completion bash)
  talmox completion zsh > ~/.zfunc/_talmox
  talmox completion fish > ~/.config/fish/completions/talmox.fish")]
pub(crate) struct Completion {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL", hide_possible_values = true)]
    pub shell: Shell,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the manual page, or write the pages of all verbs to a folder
#[derive(Args)]
#[command(after_help = "Examples:
  talmox man | man -l -
  talmox man --to /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// Folder to write talmox.1, talmox-validate.1 and so on to
    #[arg(long, env = "TALMOX_TO", value_name = "FOLDER")]
    pub to: Option<PathBuf>,
}

/// Print the version, and the versions of Talos and Kubernetes it knows
#[derive(Args)]
pub(crate) struct Version {
    #[command(flatten)]
    pub output: Output,
}

/// A slower or faster clock helps no one and ends in numbers that no longer fit.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

/// The factor of a clock that runs.
pub(super) fn running_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if SPEEDS.contains(&factor) => Ok(factor),
        Ok(_) | Err(_) => Err("1 is real time, 60 makes a minute a second".to_owned()),
    }
}

/// The factor of a clock that may stand still.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if factor == 0.0 => Ok(factor),
        Ok(_) | Err(_) => running_speed(text).map_err(|hint| format!("{hint}, 0 stops the clock")),
    }
}
