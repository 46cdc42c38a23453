//! Every verb and flag.
//!
//! A flag has a `TALMOX_*` variable of its name, unless it destroys, overwrites, approves or lifts a safeguard: these are
//! listed in [`typed`], and a run with the variable of one fails. `--variable NAME=VALUE` has `TALMOX_VAR_NAME`.

mod adopt;
mod before;
mod configs;
mod convert;
mod doing;
mod etcd;
mod host;
mod others;
mod pieces;
mod schematic;
mod secrets;
mod template;
mod trust;
pub(crate) mod typed;
mod variables;

pub(crate) use adopt::{Adopt, AdoptCluster, AdoptWhat, RoleWord};
pub(crate) use before::{Check, Init, Validate};
pub(crate) use configs::{ClientFile, Diff, Kubeconfig, Making, RenderAll, RenderConfig, Talosconfig};
pub(crate) use convert::{Convert, ConvertTalhelper, ConvertWhat};
pub(crate) use doing::{
    Apply, Approval, ConfigServing, ConfiguredAgain, Destroy, Health, LogFormat, Move, Plan, PlanFormat,
    Roll, Scope, Status,
};
pub(crate) use etcd::{Etcd, EtcdDefrag, EtcdMembers, EtcdRestore, EtcdSnapshot, EtcdStatus, EtcdWhat};
pub(crate) use host::{Host, HostDrain, HostReturn, HostWhat};
pub(crate) use others::{Completion, Man, Schema, SchemaFile, Shell, Sim, SimBehaviours, SimWhat, Version};
pub(crate) use pieces::{BootSource, Explain, Outputs, Render, RenderInstallImage, RenderVm, RenderWhat};
pub(crate) use schematic::{MadeOf, Schematic, SchematicUrl, SchematicWhat, Wanted};
pub(crate) use secrets::{
    Secrets, SecretsCheck, SecretsDecrypt, SecretsEncrypt, SecretsGenerate, SecretsRotateCa,
    SecretsRotateClient, SecretsShow, SecretsWhat,
};
pub(crate) use trust::Trust;

pub(crate) use template::{
    PlanOnly, Template, TemplateBuild, TemplateList, TemplatePrune, TemplateShow, TemplateSource,
    TemplateWhat,
};
pub(crate) use variables::VariableFlags;

use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use talmox_trust::Verb;
use talmox_types::Fingerprint;

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
    // In a box: it has a flag for every question.
    Init(Box<Init>),
    Validate(Validate),
    Check(Check),
    Plan(Plan),
    Apply(Apply),
    Status(Status),
    Health(Health),
    Destroy(Destroy),
    Adopt(Adopt),
    Explain(Explain),
    Render(Render),
    Diff(Diff),
    Talosconfig(Talosconfig),
    Kubeconfig(Kubeconfig),
    Output(Outputs),
    Secrets(Secrets),
    Etcd(Etcd),
    Schematic(Schematic),
    Convert(Convert),
    Template(Template),
    Host(Host),
    Trust(Trust),
    Sim(Sim),
    Schema(Schema),
    Completion(Completion),
    Man(Man),
    Version(Version),
}

impl Command {
    /// Whether what is printed is all there is to it: nothing is changed or written, and no exit code is a verdict.
    pub(crate) fn only_shows(&self) -> bool {
        match self {
            Self::Plan(plan) => plan.out.is_none() && !plan.detailed_exitcode,
            Self::Diff(diff) => !diff.detailed_exitcode,
            Self::Status(_)
            | Self::Explain(_)
            | Self::Render(_)
            | Self::Output(_)
            | Self::Schema(_)
            | Self::Completion(_)
            | Self::Man(_)
            | Self::Version(_) => true,
            Self::Init(_)
            | Self::Validate(_)
            | Self::Check(_)
            | Self::Apply(_)
            | Self::Health(_)
            | Self::Destroy(_)
            | Self::Adopt(_)
            | Self::Talosconfig(_)
            | Self::Kubeconfig(_)
            | Self::Secrets(_)
            | Self::Etcd(_)
            | Self::Schematic(_)
            | Self::Convert(_)
            | Self::Template(_)
            | Self::Host(_)
            | Self::Trust(_)
            | Self::Sim(_) => false,
        }
    }

    /// The verb down to its last word: what it may cause is decided by that. A new one does not compile until it has a row in
    /// `talmox-trust`.
    pub(crate) fn verb(&self) -> Verb {
        match self {
            Self::Init(_) => Verb::Init,
            Self::Validate(_) => Verb::Validate,
            Self::Check(_) => Verb::Check,
            Self::Plan(_) => Verb::Plan,
            Self::Apply(_) => Verb::Apply,
            Self::Status(_) => Verb::Status,
            Self::Health(_) => Verb::Health,
            Self::Destroy(_) => Verb::Destroy,
            Self::Adopt(Adopt { what: None, .. }) => Verb::Adopt,
            Self::Adopt(Adopt { what: Some(AdoptWhat::Cluster(_)), .. }) => Verb::AdoptCluster,
            Self::Explain(_) => Verb::Explain,
            Self::Render(Render { what }) => match what {
                RenderWhat::Vm(_) => Verb::RenderVm,
                RenderWhat::Config(_) => Verb::RenderConfig,
                RenderWhat::All(_) => Verb::RenderAll,
                RenderWhat::InstallImage(_) => Verb::RenderInstallImage,
            },
            Self::Diff(_) => Verb::Diff,
            Self::Talosconfig(_) => Verb::Talosconfig,
            Self::Kubeconfig(_) => Verb::Kubeconfig,
            Self::Output(_) => Verb::Output,
            Self::Secrets(Secrets { what }) => match what {
                SecretsWhat::Generate(_) => Verb::SecretsGenerate,
                SecretsWhat::Show(_) => Verb::SecretsShow,
                SecretsWhat::Check(_) => Verb::SecretsCheck,
                SecretsWhat::Encrypt(_) => Verb::SecretsEncrypt,
                SecretsWhat::Decrypt(_) => Verb::SecretsDecrypt,
                SecretsWhat::RotateClient(_) => Verb::SecretsRotateClient,
                SecretsWhat::RotateCa(_) => Verb::SecretsRotateCa,
            },
            Self::Etcd(Etcd { what }) => match what {
                EtcdWhat::Status(_) => Verb::EtcdStatus,
                EtcdWhat::Members(_) => Verb::EtcdMembers,
                EtcdWhat::Snapshot(_) => Verb::EtcdSnapshot,
                EtcdWhat::Defrag(_) => Verb::EtcdDefrag,
                EtcdWhat::Restore(_) => Verb::EtcdRestore,
            },
            Self::Schematic(Schematic { what }) => match what {
                SchematicWhat::Id(_) => Verb::SchematicId,
                SchematicWhat::Url(_) => Verb::SchematicUrl,
                SchematicWhat::Show(_) => Verb::SchematicShow,
            },
            Self::Convert(Convert { what: ConvertWhat::Talhelper(_) }) => Verb::Convert,
            Self::Template(Template { what }) => match what {
                TemplateWhat::Build(_) => Verb::TemplateBuild,
                TemplateWhat::List(_) => Verb::TemplateList,
                TemplateWhat::Show(_) => Verb::TemplateShow,
                TemplateWhat::Prune(_) => Verb::TemplatePrune,
            },
            Self::Host(Host { what: HostWhat::Drain(_) }) => Verb::HostDrain,
            Self::Host(Host { what: HostWhat::Return(_) }) => Verb::HostReturn,
            Self::Trust(_) => Verb::Trust,
            Self::Sim(_) => Verb::Sim,
            Self::Schema(_) => Verb::Schema,
            Self::Completion(_) => Verb::Completion,
            Self::Man(_) => Verb::Man,
            Self::Version(_) => Verb::Version,
        }
    }

    /// Whether what is said on stderr is for programs.
    pub(crate) fn talks_json(&self) -> bool {
        self.approval().is_some_and(|approval| approval.log_format == LogFormat::Json)
    }

    fn approval(&self) -> Option<&Approval> {
        if let Self::Apply(Apply { approval, .. })
        | Self::Destroy(Destroy { approval, .. })
        | Self::Host(Host {
            what: HostWhat::Drain(HostDrain { approval, .. }) | HostWhat::Return(HostReturn { approval, .. }),
        })
        | Self::Template(Template {
            what:
                TemplateWhat::Build(TemplateBuild { approval, .. })
                | TemplateWhat::Prune(TemplatePrune { approval, .. }),
        }) = self
        {
            Some(approval)
        } else {
            None
        }
    }
}

/// The description a command works on.
#[derive(Args)]
pub(crate) struct Description {
    /// Description: a folder with cluster.yaml and nodes.yaml, or one file
    #[arg(short, long, env = "TALMOX_FILE", value_name = "PATH", default_value = ".")]
    pub file: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// What the person allows a description in this run, beside what `talmox trust` keeps.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TrustArgs {
    /// Allow the description this, in this run: grants as YAML, as `talmox trust --print` writes them
    #[arg(
        long,
        env = "TALMOX_TRUST",
        value_name = "GRANTS",
        allow_hyphen_values = true,
        help_heading = "Trust"
    )]
    pub trust: Vec<String>,
    /// The same from a file, which must not lie beside or above the description
    #[arg(long, env = "TALMOX_TRUST_FILE", value_name = "FILE", help_heading = "Trust")]
    pub trust_file: Option<PathBuf>,
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

/// Which world a command works on.
#[derive(Args)]
pub(crate) struct Connection {
    /// Work on a simulated Proxmox, made to fit the description and kept in a folder (default: one in the
    /// user's state folder)
    #[arg(
        long,
        env = "TALMOX_SIMULATE",
        value_name = "FOLDER",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        default_value = "off",
        hide_default_value = true
    )]
    pub simulate: Simulate,
    /// File that says what goes wrong on the simulated Proxmox, and when; needs --simulate
    #[arg(long, env = "TALMOX_FAULT", value_name = "FILE")]
    pub fault: Option<PathBuf>,
    /// Fingerprint of a certificate that Proxmox may show; repeat it, or separate fingerprints by commas
    #[arg(
        long,
        env = "TALMOX_FINGERPRINT",
        value_name = "SHA256",
        value_delimiter = ',',
        help_heading = "Trust"
    )]
    pub fingerprint: Vec<Fingerprint>,
    /// Certificate authority that vouches for Proxmox, as PEM: /etc/pve/pve-root-ca.pem of a host
    #[arg(long, env = "TALMOX_CA_FILE", value_name = "FILE", help_heading = "Trust")]
    pub ca_file: Option<PathBuf>,
    /// How much faster than real time the simulated Proxmox and its machines are (default: 10); needs --simulate
    #[arg(long, env = "TALMOX_SPEED", value_name = "FACTOR", value_parser = others::running_speed)]
    pub speed: Option<f64>,
}

/// Whether the world is simulated, and where it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Simulate {
    Off,
    Here,
    Folder(PathBuf),
}

impl FromStr for Simulate {
    type Err = Infallible;

    /// The words a switch takes mean what they mean everywhere; anything else is a folder.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.to_ascii_lowercase().as_str() {
            "" | "1" | "y" | "yes" | "t" | "true" | "on" => Self::Here,
            "0" | "n" | "no" | "f" | "false" | "off" => Self::Off,
            _ => Self::Folder(PathBuf::from(text)),
        })
    }
}
