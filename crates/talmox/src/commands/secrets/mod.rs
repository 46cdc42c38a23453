//! `talmox secrets`

mod convert;
mod generate;
mod rotate;
mod show;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use talmox_machine::Time;

use crate::args::{Secrets, SecretsWhat};
use crate::printer::Printer;

pub(super) use generate::for_a_new_description;

pub(super) fn run(args: &Secrets, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        SecretsWhat::Generate(args) => generate::run(args, printer),
        SecretsWhat::Show(args) => show::show(args, printer),
        SecretsWhat::Check(args) => show::check(args, printer),
        SecretsWhat::Encrypt(args) => convert::encrypt(args, printer),
        SecretsWhat::Decrypt(args) => convert::decrypt(args, printer),
        SecretsWhat::RotateClient(args) => rotate::run(args, printer),
    }
}

fn now() -> Time {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Time::from_unix(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The folder paths in a description are relative to.
fn folder_of(description: &Path) -> PathBuf {
    if description.is_dir() {
        description.to_owned()
    } else {
        description.parent().unwrap_or(Path::new("")).to_owned()
    }
}
