//! `talmox secrets rotate-client`

use anyhow::Context as _;
use secrecy::ExposeSecret as _;
use talmox_machine::client::{ClientFile as _, TalosRole, Talosconfig};
use talmox_machine::{Source, SystemRandom};
use talmox_secrets::{Overwrite, write_secret_file};
use talmox_types::Realm;

use crate::args::SecretsRotateClient;
use crate::commands::configs::now;
use crate::commands::read;
use crate::commands::standing::Standing;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::Folder;
use crate::{secrets_file, sops as files};

const DAY: i64 = 24 * 60 * 60;

pub(super) fn run(args: &SecretsRotateClient, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (_, desired) = read(&folder, printer)?;
    let bundle = secrets_file::load(&desired, &folder)?.bundle;
    let file = args.talosconfig.display().to_string();
    let text = files::read(&args.talosconfig)?;
    let mut config = Talosconfig::parse(Source { name: &file, text: &text })
        .map_err(|faults| Failure::new(format!("{file} is no talosconfig:\n{faults}")))?;
    let context = args.context.clone().or_else(|| config.current().map(str::to_owned)).ok_or_else(|| {
        Failure::new(format!("{file} has no current context")).with_hint("--context NAME names one")
    })?;
    let old = config.certificate(&context).map(|certificate| certificate.not_after().to_string());
    if let Some(remark) = Standing::default().remark(&bundle, Realm::Talos) {
        printer.say(&remark);
    }
    let client = bundle
        .talos_client(&[TalosRole::Admin], now(), i64::from(args.days) * DAY, &mut SystemRandom)
        .context("could not sign a client certificate")?;
    config.replace_client(&context, &bundle, &client).map_err(|error| {
        let names = config.contexts();
        Failure::new(format!("{file}: {error}")).with_hint(format!("contexts: {}", names.join(", ")))
    })?;
    write_secret_file(&args.talosconfig, config.to_yaml().expose_secret().as_bytes(), Overwrite::Replace)?;
    let ended = old.map(|time| format!(" (the old one: {time})")).unwrap_or_default();
    printer.say(&format!(
        "renewed {context} in {file}: its certificate ends at {}{ended}",
        client.certificate.not_after()
    ));
    Ok(())
}
