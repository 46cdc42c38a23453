//! `talmox man`

use std::path::Path;

use anyhow::Context as _;

use super::completion::shown;
use crate::args::Man;
use crate::help::command;
use crate::printer::Printer;

pub(super) fn run(args: &Man, printer: &Printer) -> anyhow::Result<()> {
    // The pages list verbs by themselves; the template is for the help page.
    let command = shown(command()).help_template("{all-args}");
    match &args.to {
        Some(folder) => write_all(command, folder, printer),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            printer.data(&String::from_utf8(page)?)
        }
    }
}

fn write_all(command: clap::Command, folder: &Path, printer: &Printer) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("could not make the folder {}", folder.display()))?;
    clap_mangen::generate_to(command, folder)
        .with_context(|| format!("could not write manual pages to {}", folder.display()))?;
    printer.say(&format!("wrote manual pages to {}", folder.display()));
    Ok(())
}
