//! `talmox secrets`

mod convert;
mod generate;
mod import;
mod rotate;
mod rotate_ca;
mod show;

use crate::args::{Secrets, SecretsWhat};
use crate::printer::Printer;

pub(super) use generate::{FirstBundle, write_new_secrets};
pub(super) use import::{Imported, Readers, import};

pub(super) fn run(args: &Secrets, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        SecretsWhat::Generate(args) => generate::run(args, printer),
        SecretsWhat::Show(args) => show::show(args, printer),
        SecretsWhat::Check(args) => show::check(args, printer),
        SecretsWhat::Encrypt(args) => convert::encrypt(args, printer),
        SecretsWhat::Decrypt(args) => convert::decrypt(args, printer),
        SecretsWhat::RotateClient(args) => rotate::run(args, printer),
        SecretsWhat::RotateCa(args) => rotate_ca::run(args, printer),
    }
}
