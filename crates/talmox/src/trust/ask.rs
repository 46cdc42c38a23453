//! The question to the person, once for everything a description needs.

use talmox_trust::{Grant, Need};

use super::folder::Folder;
use super::store;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::prompt;

/// Meets the needs that no grant meets yet: by asking where a person is there, else by refusing with all of them. A yes is
/// kept for this folder.
pub(crate) fn settle(needs: &[Need], folder: &Folder, printer: &Printer) -> anyhow::Result<()> {
    let grants = folder.granted();
    let missing = grants.missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    if !Printer::can_ask() {
        return Err(folder.refusal(&missing).into());
    }
    let list: String = missing.iter().map(|need| format!("\n  {need}")).collect();
    printer.problem(&format!(
        "The description in {} would, beyond reading its own folder:{list}",
        folder.real().display()
    ));
    let answer = prompt::line("Allow this for this folder from now on? [y/N] ")?.unwrap_or_default();
    if !prompt::is_yes(&answer) {
        return Err(folder.refusal(&missing).into());
    }
    let granted: Vec<Grant> = missing.into_iter().map(Need::grant).collect();
    keep(&granted, folder, printer)?;
    Ok(())
}

/// Keeps grants for this folder, and puts them in force for this run.
pub(crate) fn keep(granted: &[Grant], folder: &Folder, printer: &Printer) -> Result<(), Failure> {
    folder.add(granted);
    if store::place().is_none() {
        printer.say("not kept, since there is no home folder: give it to later runs as TALMOX_TRUST (talmox trust --print)");
        return Ok(());
    }
    let path = store::add(folder.real(), granted)?;
    printer.say(&format!("kept in {}; talmox trust lists it, --forget takes it back", path.display()));
    Ok(())
}
