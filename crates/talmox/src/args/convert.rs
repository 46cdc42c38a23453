//! `talmox convert`

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Output, TrustArgs, VariableFlags};

/// Turn files of other tools into a description
#[derive(Args)]
#[command(after_help = "Examples:
  talmox convert talhelper talconfig.yaml --to lab     talhelper's file becomes cluster.yaml, nodes.yaml and patches")]
pub(crate) struct Convert {
    #[command(subcommand)]
    pub what: ConvertWhat,
}

#[derive(Subcommand)]
pub(crate) enum ConvertWhat {
    Talhelper(ConvertTalhelper),
}

/// Turn talhelper's talconfig.yaml into cluster.yaml, nodes.yaml and patches
///
/// Every field is reported as honoured, translated or unsupported. Variables such as ${NAME} stay in patches, where they
/// are replaced when a config is rendered, and talenv.yaml gets a line for each that has no value yet; elsewhere they are replaced
/// now, from --variable, `TALMOX_VAR_NAME` and the talenv.yaml beside FILE.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox convert talhelper talconfig.yaml              what would become of each field; nothing is written
  talmox convert talhelper talconfig.yaml --to lab     write the files
  talmox convert talhelper talconfig.yaml -o json | jq '.fields[] | select(.verdict == \"unsupported\")'")]
pub(crate) struct ConvertTalhelper {
    /// The talconfig.yaml
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Folder to write the files to (default: nothing is written)
    #[arg(long, env = "TALMOX_TO", value_name = "DIR")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Replace files that are there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub output: Output,
}
