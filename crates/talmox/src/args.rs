//! Every verb and flag. Each flag has a `TALMOX_*` variable of its name.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(name = "talmox", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args)]
pub(crate) struct Global {
    /// Say less: errors only
    #[arg(
        short,
        long,
        global = true,
        env = "TALMOX_QUIET",
        value_parser = FalseyValueParser::new(),
        conflicts_with = "verbose",
        help_heading = "Everywhere"
    )]
    pub quiet: bool,
    /// Say more: notes too
    #[arg(
        short,
        long,
        global = true,
        env = "TALMOX_VERBOSE",
        value_parser = FalseyValueParser::new(),
        help_heading = "Everywhere"
    )]
    pub verbose: bool,
    /// When to use colour: auto, always or never (`NO_COLOR` is honoured too)
    #[arg(
        long,
        global = true,
        env = "TALMOX_COLOR",
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        help_heading = "Everywhere"
    )]
    pub color: When,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Init(Init),
    Validate(Validate),
    Explain(Explain),
    Render(Render),
    Sim(Sim),
    Schema(Schema),
    Completion(Completion),
    Man(Man),
    Version(Version),
}

/// The description a command works on.
#[derive(Args)]
pub(crate) struct Description {
    /// Description: a folder with cluster.yaml and nodes.yaml, or one file
    #[arg(short, long, env = "TALMOX_FILE", value_name = "PATH", default_value = ".")]
    pub file: PathBuf,
}

/// How data is printed.
#[derive(Args)]
pub(crate) struct Output {
    /// Format of the data on stdout: table, json or yaml
    #[arg(
        short,
        long,
        env = "TALMOX_OUTPUT",
        value_name = "FORMAT",
        default_value = "table",
        hide_possible_values = true
    )]
    pub output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

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

/// Show what a node gets and where each value came from
#[derive(Args)]
#[command(after_help = "Examples:
  talmox explain worker-2                       every field of a node
  talmox explain worker-2.memory                one field, and every place that has a say
  talmox explain worker-2.node_gateway -o json  fields of the whole cluster too")]
pub(crate) struct Explain {
    /// A node, or one field of it
    #[arg(value_name = "NODE[.FIELD]")]
    pub subject: String,
    #[command(flatten)]
    pub description: Description,
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

/// Run a simulated Proxmox VE on this machine
///
/// Serves the API of a Proxmox VE cluster over HTTPS on 127.0.0.1, with hosts pve1 and so on, the storages local and
/// local-zfs, and the bridge vmbr0. Nothing is virtualised: VMs exist, are configured, start and stop, and that is all.
/// Answers are held against recordings of real servers; `talmox sim behaviours` says what is proven by what. When it is
/// ready, where and how to reach it is printed on stdout; Ctrl-C ends it.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  talmox sim                                    one host, gone when it ends
  talmox sim --hosts 3 --state lab-sim          a cluster that is kept in a folder
  talmox sim --latency 0 --speed 60 -o json     for programs: fast, one line of JSON when ready
  talmox sim behaviours                         what is simulated, and what proves it")]
pub(crate) struct Sim {
    #[command(subcommand)]
    pub what: Option<SimWhat>,
    /// How many hosts; a world from --state keeps its own
    #[arg(long, env = "TALMOX_HOSTS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    pub hosts: Option<u32>,
    /// Version of Proxmox VE
    #[arg(long, env = "TALMOX_VERSION", value_name = "VERSION", default_value = talmox_sim::RELEASE)]
    pub version: String,
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
    #[arg(long, env = "TALMOX_SPEED", value_name = "FACTOR", default_value_t = 1.0)]
    pub speed: f64,
    /// Where ids, addresses and secrets come from; the same seed makes the same (default: a new one)
    #[arg(long, env = "TALMOX_SEED", value_name = "N")]
    pub seed: Option<u64>,
    /// Folder to keep the world in; made if it is not there
    #[arg(long, env = "TALMOX_STATE", value_name = "FOLDER")]
    pub state: Option<PathBuf>,
    /// Port of the first host, the others take the next ones; 0 for any that is free
    #[arg(long, env = "TALMOX_PORT", value_name = "PORT", default_value_t = 0)]
    pub port: u16,
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

/// Print the JSON Schema of the description files, for editors
#[derive(Args)]
#[command(after_help = "Examples:
  talmox schema > cluster.schema.json
  talmox schema nodes > nodes.schema.json
  # yaml-language-server: $schema=cluster.schema.json   as the first line of cluster.yaml")]
pub(crate) struct Schema {
    /// Which file: cluster or nodes
    #[arg(value_name = "FILE", default_value = "cluster", hide_possible_values = true)]
    pub file: SchemaFile,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaFile {
    Cluster,
    Nodes,
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
