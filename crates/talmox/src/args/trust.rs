//! What a description may cause.

use clap::Args;
use clap::builder::FalseyValueParser;

use super::{Connection, Description, Output};

/// List what a description would cause on this machine, and allow it
///
/// A description alone causes nothing beyond reading its own folder. Programs it names, tokens and where they are sent, variables of the
/// environment, folders outside, servers talmox fetches from and receivers of secrets need a grant of yours. On a terminal missing
/// grants can be given here; they are kept in ~/.config/talmox/trust.yaml, for this folder alone, until something
/// of what was allowed changes. Exits with 1 if a grant is missing.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox trust -f lab                           what it needs, what you allowed, what is missing
  talmox trust -f lab --print                   the missing grants, for TALMOX_TRUST of a pipeline
  TALMOX_TRUST=\"$(talmox trust -f lab --print)\" talmox plan -f lab    after you have read them
  talmox trust -f lab --forget                  take back what you allowed this folder")]
pub(crate) struct Trust {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub connection: Connection,
    /// Print the missing grants as YAML instead, for `TALMOX_TRUST` or a file of `TALMOX_TRUST_FILE`
    #[arg(long, env = "TALMOX_PRINT", value_parser = FalseyValueParser::new(), conflicts_with = "forget")]
    pub print: bool,
    /// Take back everything that was allowed this folder
    #[arg(long)]
    pub forget: bool,
    #[command(flatten)]
    pub output: Output,
}
