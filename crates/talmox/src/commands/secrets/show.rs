//! `talmox secrets show` and `check`

use std::path::Path;

use serde::Serialize;
use talmox_secrets::sops::SopsFile;

use crate::args::{Format, SecretsCheck, SecretsShow};
use crate::commands::configs::now;
use crate::commands::read;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::{SecretsData, secrets_text};
use crate::trust::Folder;
use crate::{secrets_file, sops as files};

pub(super) fn show(args: &SecretsShow, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (_, desired) = read(&folder, printer)?;
    let loaded = secrets_file::load(&desired, &folder)?;
    let file = SopsFile::parse(&files::read(&loaded.path)?).ok();
    let recipients = file.map(|file| file.recipients());
    let shown = SecretsData::new(loaded.path.display().to_string(), recipients, loaded.bundle.held(), now());
    match args.output.output {
        Format::Table => printer.data(&secrets_text(&shown)),
        format @ (Format::Json | Format::Yaml) => printer.structured(format, &shown),
    }
}

#[derive(Serialize)]
struct Checked {
    file: String,
    problems: Vec<String>,
}

pub(super) fn check(args: &SecretsCheck, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.description.file, &args.description.trust)?;
    let (_, desired) = read(&folder, printer)?;
    let loaded = secrets_file::load(&desired, &folder)?;
    let mut problems = loaded.bundle.check(now());
    problems.extend(readable_by_others(&loaded.path)?);
    let checked = Checked { file: loaded.path.display().to_string(), problems };
    if args.output.output != Format::Table {
        printer.structured(args.output.output, &checked)?;
    }
    let Checked { file, problems } = checked;
    if problems.is_empty() {
        printer.say(&format!("{file}: the secrets are whole"));
        return Ok(());
    }
    let count =
        if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
    Err(Failure::new(format!("{count} in {file}:\n  {}", problems.join("\n  "))).into())
}

/// A plain file that others on this machine may read.
fn readable_by_others(path: &Path) -> anyhow::Result<Option<String>> {
    if SopsFile::parse(&files::read(path)?).is_ok() {
        return Ok(None);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).map(|data| data.permissions().mode() & 0o777)?;
        if mode & 0o077 != 0 {
            return Ok(Some(format!(
                "others on this machine may read it (mode {mode:04o}): chmod 600 {}",
                path.display()
            )));
        }
    }
    Ok(None)
}
