//! The folder a cluster's description is written into: all of it, or nothing.
//!
//! `cluster.yaml` comes last, and nothing is a description without it: a run that is killed before leaves nothing another
//! command would work with. One that fails takes back what it wrote.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use talmox_adopt::cluster::{Described, NewFile};
use talmox_machine::Bundle;
use talmox_secrets::Overwrite;

use crate::args::AdoptCluster;
use crate::commands::secrets::{FirstBundle, Readers, write_new_secrets};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::private_file;
use crate::secrets_file::NAMES;
use crate::trust::Folder;

/// What variables are kept in, plain and encrypted.
const VARIABLES: (&str, &str) = ("talenv.yaml", "talenv.sops.yaml");
/// The file without which there is no description.
const LAST: &str = "cluster.yaml";
const PATCHES: &str = "patches";

/// Refuses a folder that has any of the files already.
pub(super) fn refuse_existing(folder: &Path) -> Result<(), Failure> {
    let names = [LAST, "nodes.yaml", PATCHES, VARIABLES.0, VARIABLES.1];
    let existing: Vec<&str> =
        names.into_iter().chain(NAMES).filter(|name| folder.join(name).exists()).collect();
    let Some(first) = existing.first() else { return Ok(()) };
    let failure = Failure::new(format!("{} is there already", folder.join(first).display()))
        .with_hint("nothing was written; name another folder with -f");
    if existing.contains(&LAST) {
        return Err(failure);
    }
    let all: Vec<String> = existing.iter().map(|name| folder.join(name).display().to_string()).collect();
    Err(failure.with_hint(format!(
        "there is no {LAST}: if an earlier run was interrupted here, remove what it left ({}) and run it again",
        all.join(", ")
    )))
}

/// Writes everything; what was written is taken back if something fails.
pub(super) fn write(
    args: &AdoptCluster,
    described: &Described,
    (bundle, readers): (&Bundle, &Readers),
    printer: &Printer,
) -> anyhow::Result<()> {
    let folder = &args.file;
    fs::create_dir_all(folder).with_context(|| format!("could not make the folder {}", folder.display()))?;
    let mut written = Vec::new();
    let outcome = write_all(args, described, (bundle, readers), &mut written, printer);
    if outcome.is_err() {
        for path in written.iter().rev() {
            let _ = fs::remove_file(path);
        }
        // Only what is empty goes.
        for name in ["patches/nodes", PATCHES] {
            let _ = fs::remove_dir(folder.join(name));
        }
    }
    outcome.context("the description could not be written, and nothing of it was left")
}

fn write_all(
    args: &AdoptCluster,
    described: &Described,
    (bundle, readers): (&Bundle, &Readers),
    written: &mut Vec<PathBuf>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let folder = &args.file;
    let own = Folder::open(folder, &args.trust)?;
    let secrets = FirstBundle::choose_for(&args.age, readers, (&own, printer))?;
    written.extend(secrets.keep(bundle, printer)?);
    let (last, others): (Vec<&NewFile>, Vec<&NewFile>) =
        described.files.iter().partition(|file| file.name == LAST);
    for file in others.into_iter().chain(last) {
        let path = folder.join(&file.name);
        let failed = || format!("could not write {}", path.display());
        if file.secret {
            written.push(write_new_secrets(VARIABLES, &file.text, (&args.age, readers), (&own, printer))?);
            continue;
        }
        if file.name.starts_with(PATCHES) {
            // Taken from what machines run with: nobody knows what people put into a file or a manifest.
            private_file::write(&path, &file.text, Overwrite::Refuse).with_context(failed)?;
        } else {
            write_new(&path, &file.text).with_context(failed)?;
        }
        written.push(path.clone());
        printer.say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Writes a file beside its place, and puts it there whole; not over another.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let beside = PathBuf::from(beside);
    let made = OpenOptions::new().write(true).create_new(true).open(&beside).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let placed = made.and_then(|()| fs::hard_link(&beside, path));
    let _ = fs::remove_file(&beside);
    placed
}
