//! `talmox trust`

use secrecy::ExposeSecret as _;
use serde::Serialize;
use talmox_secrets::sops::SopsFile;
use talmox_secrets::{Overwrite, SystemRandom};
use talmox_trust::{Grant, Need, Verb, list};
use talmox_types::SecretRef;
use talmox_types::desired::Desired;

use super::configs::now;
use super::shared::boxed;
use crate::args::{Format, Trust};
use crate::connect::secret::{beside, sealed};
use crate::connect::token_needs;
use crate::failure::{Failure, Told};
use crate::printer::{GREEN, Printer, RED};
use crate::trust::{Aim, Folder, Listed, forget, listed, needs, settle, store_place};
use crate::variables_file::wanted_of_environment;
use crate::{prompt, sops};

/// What is listed, for programs.
#[derive(Serialize)]
struct Data {
    format: &'static str,
    folder: String,
    needs: Vec<Listed>,
}

pub(super) fn run(args: &Trust, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    if args.forget {
        let count = forget(folder.real())?;
        printer.say(&format!("{count} grants of {} taken back", folder.real().display()));
        return Ok(());
    }
    let (outcome, desired) = boxed(&folder, printer)?;
    // `apply` causes everything there is.
    let mut all = needs(Aim { verb: Verb::Apply, simulated: false }, &outcome, &desired, &folder)?;
    all.extend(wanted_of_environment(&outcome, &folder)?.into_iter().map(Need::Variable));
    all.extend(folder.granted().variables().into_iter().map(Need::Variable));
    match token_needs(&desired, &folder, &args.connection) {
        Ok(token) => all.extend(token),
        Err(failure) => printer.say(&format!("the token was not looked at: {failure}")),
    }
    let grants = folder.granted();
    let missing: Vec<Need> = grants.missing(&all).into_iter().cloned().collect();
    if args.print {
        let grants: Vec<Grant> = missing.iter().map(Need::grant).collect();
        return printer.data(&list(&grants));
    }
    show(&all, &folder, args.output.output, printer)?;
    offer_endpoint(&desired, &folder, printer)?;
    if missing.is_empty() {
        return Ok(());
    }
    if !Printer::can_ask() || args.output.output != Format::Table {
        return Err(Told.into());
    }
    settle(&missing, &folder, printer)
}

fn show(all: &[Need], folder: &Folder, format: Format, printer: &Printer) -> anyhow::Result<()> {
    let needs = listed(all, folder);
    let name = folder.real().display().to_string();
    if format != Format::Table {
        return printer.structured(format, &Data { format: "talmox.trust/v1", folder: name, needs });
    }
    if needs.is_empty() {
        return printer.data(&format!("The description in {name} causes nothing that needs a grant.\n"));
    }
    let mut text = format!("The description in {name} would:\n");
    for need in &needs {
        let (style, word) = if need.granted { (GREEN, "allowed") } else { (RED, "missing") };
        text.push_str(&format!("  {style}{word}{style:#}  {:<10}  {}\n", need.kind, need.would));
    }
    if let Some(place) = store_place() {
        text.push_str(&format!("\nGrants are kept in {}.\n", place.display()));
    }
    printer.screen(&text)
}

/// A token in a SOPS file is best kept with its endpoint: then it needs no grant on any machine that has the key.
fn offer_endpoint(desired: &Desired, folder: &Folder, printer: &Printer) -> anyhow::Result<()> {
    let Some(SecretRef::Sops { file, key }) = &desired.proxmox.api_token else { return Ok(()) };
    let [endpoint] = desired.proxmox.endpoints.as_slice() else { return Ok(()) };
    let path = folder.writable(file)?;
    let (opened, known) = sealed(&path, &beside(key, "endpoint"))?;
    if known.is_some() {
        return Ok(());
    }
    let name = path.display();
    if !Printer::can_ask() {
        printer.say(&format!(
            "{name} does not say where its token goes: with {} beside it, encrypted, no grant is needed for that",
            beside(key, "endpoint")
        ));
        return Ok(());
    }
    let question =
        format!("Write {endpoint} into {name}, encrypted beside the token? Then it needs no grant. [y/N] ");
    if !prompt::is_yes(&prompt::line(&question)?.unwrap_or_default()) {
        return Ok(());
    }
    let text = opened.with_text_beside(key, "endpoint", endpoint).ok_or_else(|| {
        Failure::new(format!(
            "{name} has an endpoint beside the token that is not encrypted, or no place for one"
        ))
        .with_hint("sops FILE edits it by hand")
    })?;
    let written = opened
        .update(text.expose_secret(), &now().to_string(), &mut SystemRandom)
        .map_err(|error| Failure::new(format!("could not write {name}: {error}")))?;
    // A rule of the file may leave such keys in plain text: then it would vouch for nothing.
    let kept = SopsFile::parse(&written).ok().and_then(|file| file.decrypt(&sops::identities().ok()?).ok());
    if kept.is_none_or(|file| file.encrypted_value(&beside(key, "endpoint")).is_none()) {
        return Err(Failure::new(format!(
            "the rules of {name} leave endpoints in plain text; nothing was written"
        ))
        .with_hint("let encrypted_regex of the file cover `endpoint`")
        .into());
    }
    talmox_secrets::write_secret_file(&path, written.as_bytes(), Overwrite::Replace)?;
    printer.say(&format!("wrote {} into {name}", beside(key, "endpoint")));
    Ok(())
}
