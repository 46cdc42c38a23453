//! The cluster's secrets, and files with secrets.

use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Subcommand};
use talmox_secrets::age::Recipient;

use super::{Connection, Description, Output, TrustArgs, VariableFlags};

/// Make, show, check, convert and rotate the cluster's secrets
///
/// A cluster has one secrets bundle: its authorities, keys and tokens. It lies beside the description, as secrets.sops.yaml
/// (encrypted with SOPS and age, which talmox reads and writes itself) or as secrets.yaml, or where `secrets_file` of the
/// description says.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets generate -f lab                make the bundle, once
  talmox secrets show -f lab                    what it holds, and when certificates end
  talmox secrets encrypt lab/secrets.yaml --age age1…
  talmox secrets decrypt lab/secrets.sops.yaml --stdout
  talmox secrets rotate-ca -f lab               new authorities, then talmox apply")]
pub(crate) struct Secrets {
    #[command(subcommand)]
    pub what: SecretsWhat,
}

#[derive(Subcommand)]
pub(crate) enum SecretsWhat {
    Generate(SecretsGenerate),
    Show(SecretsShow),
    Check(SecretsCheck),
    Encrypt(SecretsEncrypt),
    Decrypt(SecretsDecrypt),
    RotateClient(SecretsRotateClient),
    RotateCa(SecretsRotateCa),
}

/// Make the secrets of a new cluster, or take over those of one that exists
///
/// Writes secrets.sops.yaml where a recipient is known, by --age or by a `.sops.yaml` in the folder or above it; else
/// secrets.yaml, and a line in .gitignore. A cluster that has VMs never gets a second bundle: Proxmox is asked first.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets generate -f lab
  talmox secrets generate -f lab --age age1…    encrypted, whatever .sops.yaml says
  talmox secrets generate -f lab --from secrets.yaml      talosctl's, or talhelper's talsecret.sops.yaml
  talmox secrets generate -f lab --from controlplane.yaml those of a cluster that runs
  talmox secrets generate -f lab --offline      without asking Proxmox for VMs of this cluster")]
pub(crate) struct SecretsGenerate {
    #[command(flatten)]
    pub description: Description,
    /// Take the secrets from here: talosctl's secrets.yaml, talhelper's talsecret.yaml, plain or encrypted with SOPS,
    /// or the config of a control plane
    #[arg(long, env = "TALMOX_FROM", value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Public keys of age that may read it, with commas between them (default: those of .sops.yaml)
    #[arg(long, env = "TALMOX_AGE", value_name = "RECIPIENT", value_delimiter = ',')]
    pub age: Vec<Recipient>,
    /// Overwrite a bundle that is there; refused if the cluster has VMs
    #[arg(long)]
    pub force: bool,
    /// Do not ask Proxmox whether the cluster has VMs
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub connection: Connection,
}

/// List what the bundle holds and when each certificate ends, never a secret
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets show -f lab
  talmox secrets show -f lab -o json | jq -r '.held[] | select(.ends) | .ends + \" \" + .name'")]
pub(crate) struct SecretsShow {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub output: Output,
}

/// Check that the bundle is whole: keys belong to certificates, nothing has ended, nobody else may read it
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets check -f lab
  talmox secrets check -f lab -o json")]
pub(crate) struct SecretsCheck {
    #[command(flatten)]
    pub description: Description,
    #[command(flatten)]
    pub output: Output,
}

/// Encrypt a YAML file with SOPS and age
///
/// The rules of the nearest `.sops.yaml` decide who may read it and what is encrypted, unless --age names recipients.
/// The plain file stays where it is. A SOPS file that is encrypted for others than age is never overwritten.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets encrypt secrets.yaml           to secrets.sops.yaml
  talmox secrets encrypt token.yaml --age age1…,age1… --to token.sops.yaml")]
pub(crate) struct SecretsEncrypt {
    /// The plain file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// File to write (default: FILE with .sops before its .yaml)
    #[arg(long, env = "TALMOX_TO", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Public keys of age that may read it, with commas between them (default: those of .sops.yaml)
    #[arg(long, env = "TALMOX_AGE", value_name = "RECIPIENT", value_delimiter = ',')]
    pub age: Vec<Recipient>,
    /// Overwrite a file that is there; for the recipients it has, unless --age names others
    #[arg(long)]
    pub force: bool,
}

/// Decrypt a SOPS file with the age keys at hand
///
/// Keys are looked for where sops looks: `SOPS_AGE_KEY`, `SOPS_AGE_KEY_FILE`, `SOPS_AGE_KEY_CMD` and
/// ~/.config/sops/age/keys.txt. A file that was changed after it was encrypted is refused.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets decrypt secrets.sops.yaml      to secrets.yaml, which only you may read
  talmox secrets decrypt secrets.sops.yaml --stdout | less")]
pub(crate) struct SecretsDecrypt {
    /// The encrypted file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// File to write, for nobody else to read (default: FILE without .sops)
    #[arg(long, env = "TALMOX_TO", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Print it instead
    #[arg(long, env = "TALMOX_STDOUT", value_parser = FalseyValueParser::new(), conflicts_with = "to")]
    pub stdout: bool,
    /// Overwrite a file that is there
    #[arg(long)]
    pub force: bool,
}

/// Have the authorities of Talos and Kubernetes replaced by new ones
///
/// Makes the new authorities and writes them into the secrets beside the present ones; nothing else. `talmox plan` then shows,
/// and `talmox apply` goes through, the phases: every machine accepts the new one, signs with it, drops the old one; at the end
/// the secrets hold the new one alone. Run again meanwhile it changes nothing, unless an authority is named. Commit the file before the apply, if it is in
/// version control: whoever has another copy of it is locked out.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets rotate-ca -f lab               both, Talos first; then: talmox apply -f lab
  talmox secrets rotate-ca -f lab --talos       that of Talos alone
  talmox secrets rotate-ca -f lab --kubernetes")]
pub(crate) struct SecretsRotateCa {
    #[command(flatten)]
    pub description: Description,
    /// That of Talos (default: both)
    #[arg(long)]
    pub talos: bool,
    /// That of Kubernetes (default: both)
    #[arg(long)]
    pub kubernetes: bool,
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub variables: VariableFlags,
    #[command(flatten)]
    pub output: Output,
}

/// Renew the client certificate of a talosconfig
///
/// Signs a new administrator's certificate with the cluster's authority and puts it into the context; endpoints, nodes
/// and other contexts stay as they are. The old certificate is valid until it ends.
#[derive(Args)]
#[command(after_help = "Examples:
  talmox secrets rotate-client -f lab           the current context of ./talosconfig
  talmox secrets rotate-client -f lab --talosconfig ~/.talos/config --context lab --days 30")]
pub(crate) struct SecretsRotateClient {
    #[command(flatten)]
    pub description: Description,
    /// The file
    #[arg(long, env = "TALMOX_TALOSCONFIG", value_name = "FILE", default_value = "talosconfig")]
    pub talosconfig: PathBuf,
    /// The context (default: the current one)
    #[arg(long, env = "TALMOX_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// How many days the new certificate is valid
    #[arg(
        long,
        env = "TALMOX_DAYS",
        value_name = "N",
        default_value_t = 365,
        value_parser = clap::value_parser!(u32).range(1..=3650)
    )]
    pub days: u32,
}
