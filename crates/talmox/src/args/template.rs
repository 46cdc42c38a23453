//! Verbs about templates.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};

use super::{Approval, Connection, Output, PlanFormat, TrustArgs};

/// List, show, build and remove templates VMs are cloned from
///
/// apply builds what a cluster needs by itself. These verbs do it beforehand, for manifests of Karpenter for Proxmox, and clear up.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox template list                          what exists where, and what is stale
  talmox template build --simulate -f examples/templates
  talmox template prune                         remove what nothing asks for any more, after asking")]
pub(crate) struct Template {
    #[command(subcommand)]
    pub what: TemplateWhat,
}

#[derive(Subcommand)]
pub(crate) enum TemplateWhat {
    List(TemplateList),
    Show(TemplateShow),
    Build(TemplateBuild),
    Prune(TemplatePrune),
}

/// What says which templates are wanted.
#[derive(Args)]
pub(crate) struct TemplateSource {
    /// A description as everywhere, or manifests: a file or folder with `ProxmoxTemplate` and `ProxmoxUnmanagedTemplate`
    /// objects. For manifests Proxmox is reached as the environment says, or as the cluster.yaml beside them does
    #[arg(short, long, env = "TALMOX_FILE", value_name = "PATH", default_value = ".")]
    pub file: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
}

/// List templates and their images: where they are, whose, in what state
///
/// Lists every template the token may see, and the image files talmox brought. Those that nothing asks for any more are stale;
/// prune removes them unless a VM's disk stands on one.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox template list                          of the Proxmox of this description
  talmox template list -f templates.yaml        held against manifests
  talmox template list -o json | jq '.templates[] | select(.stale)'")]
pub(crate) struct TemplateList {
    #[command(flatten)]
    pub source: TemplateSource,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// Show one template: its definition, its mark, what stands on it, what differs
#[derive(Args)]
#[command(after_help = "Examples:
  talmox template show talos-1.13.9-ce4c980550dd on every host that has it
  talmox template show 9000                     by its VMID")]
pub(crate) struct TemplateShow {
    /// Its name or VMID
    #[arg(value_name = "NAME|VMID")]
    pub template: String,
    #[command(flatten)]
    pub source: TemplateSource,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub output: Output,
}

/// Build templates on every host that can hold one
///
/// Of a description: what its nodes are cloned from. Of manifests: any image they name. Has Proxmox fetch the image, makes a VM
/// of it and turns that into a template; what is there already stays, and is changed in place where only its settings differ. A
/// template that somebody else made (`ProxmoxUnmanagedTemplate`) is looked for on every host and checked.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox template build                         what this cluster's nodes need, beforehand
  talmox template build -f examples/templates --simulate
  talmox template build -f ubuntu.yaml --plan-only
  talmox template build -f ubuntu.yaml --auto-approve --log-format json")]
pub(crate) struct TemplateBuild {
    #[command(flatten)]
    pub source: TemplateSource,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub plan: PlanOnly,
    #[command(flatten)]
    pub approval: Approval,
}

/// Remove templates and images that nothing asks for any more
///
/// Only those talmox built for this description or these manifests, and only those no VM's disk stands on. Lists them and asks.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox template prune                         show what may go, ask, remove it
  talmox template prune --plan-only             show only
  talmox template prune --all                   what is described as well
  talmox template prune -f ubuntu.yaml          of these manifests")]
pub(crate) struct TemplatePrune {
    /// Remove those that are described, too: for a cluster that is gone, or before a host is
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub source: TemplateSource,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub plan: PlanOnly,
    #[command(flatten)]
    pub approval: Approval,
}

/// How the plan is shown, and whether that is all.
#[derive(Args)]
pub(crate) struct PlanOnly {
    /// Show what would be done, and do not do it
    #[arg(long, visible_alias = "dry-run", env = "TALMOX_PLAN_ONLY", value_parser = FalseyValueParser::new())]
    pub plan_only: bool,
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
}
