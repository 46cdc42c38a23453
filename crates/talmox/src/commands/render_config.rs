//! `talmox render config` and `talmox render all`

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use talmox_machine::client::ClientFile as _;
use talmox_machine::{Config, Value};
use talmox_secrets::Overwrite;
use talmox_trust::Verb;

use super::configs::{Workshop, file_name, now};
use crate::args::{Format, RenderAll, RenderConfig};
use crate::derived_file;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::private_file;
use crate::screens::plural;

pub(super) fn config(args: &RenderConfig, printer: &Printer) -> anyhow::Result<()> {
    let workshop = Workshop::open(Verb::RenderConfig, &args.making, printer)?;
    let rendered = workshop.render(workshop.node(&args.node)?, printer)?;
    let config = if args.redact { rendered.config.guarded(&rendered.hidden) } else { rendered.config };
    match args.output.output {
        Format::Table | Format::Yaml => printer.data(&config.to_yaml()),
        format @ Format::Json => printer.structured(format, &documents(&config)),
    }
}

/// The documents as JSON has them.
fn documents(config: &Config) -> Vec<serde_json::Value> {
    config.documents().iter().map(|document| json(&document.to_value())).collect()
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Integer(value) => i64::try_from(*value)
            .map(Into::into)
            .or_else(|_| u64::try_from(*value).map(Into::into))
            .unwrap_or_else(|_| value.to_string().into()),
        Value::Octal(value) => (*value).into(),
        Value::Float(value) => (*value).into(),
        Value::Text(text) => text.as_str().into(),
        Value::List(items) => items.iter().map(json).collect(),
        Value::Map(map) => map.iter().map(|(key, value)| (key.to_owned(), json(value))).collect(),
    }
}

/// A file to be written.
struct Piece {
    path: PathBuf,
    node: Option<String>,
    text: SecretString,
}

/// What was written, for programs.
#[derive(Serialize)]
struct Written {
    file: String,
    /// None for the talosconfig.
    node: Option<String>,
}

pub(super) fn all(args: &RenderAll, printer: &Printer) -> anyhow::Result<()> {
    let workshop = Workshop::open(Verb::RenderAll, &args.making, printer)?;
    let mut pieces: Vec<Piece> = Vec::new();
    workshop.render_all(printer, |node, rendered| {
        pieces.push(Piece {
            path: args.to.join(file_name(&workshop.desired, &node.name)),
            node: Some(node.name.to_string()),
            text: SecretString::from(rendered.config.to_yaml()),
        });
    })?;
    // Where nodes come from pools, what was said of their addresses is not said twice.
    let quiet = Printer::silent();
    let talosconfig = workshop.talosconfig(now(), &quiet)?.to_yaml();
    pieces.push(Piece { path: args.to.join("talosconfig"), node: None, text: talosconfig });
    refuse_existing(args, &pieces)?;
    let overwrite = if args.force { Overwrite::Replace } else { Overwrite::Refuse };
    private_file::make_folder(&args.to)
        .with_context(|| format!("could not make the folder {}", args.to.display()))?;
    for piece in &pieces {
        derived_file::write(&piece.path, piece.text.expose_secret(), overwrite)
            .with_context(|| format!("could not write {}", piece.path.display()))?;
    }
    say_what_was_written(args, &pieces, printer)
}

/// Nothing is written where something would be lost.
fn refuse_existing(args: &RenderAll, pieces: &[Piece]) -> Result<(), Failure> {
    let there: Vec<String> = pieces
        .iter()
        .filter(|piece| !args.force && piece.path.symlink_metadata().is_ok())
        .map(|piece| piece.path.display().to_string())
        .collect();
    match there.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let others = if rest.is_empty() {
                String::new()
            } else {
                format!(" and {}", plural(rest.len(), "other file"))
            };
            Err(Failure::new(format!("{first}{others} would be overwritten; nothing was written"))
                .with_hint("--force replaces them; talmox diff NODE FOLDER shows what would change"))
        }
    }
}

fn say_what_was_written(args: &RenderAll, pieces: &[Piece], printer: &Printer) -> anyhow::Result<()> {
    let others_may_look = |path: &Path| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|folder| folder.permissions().mode() & 0o077 != 0)
    };
    match args.output.output {
        Format::Table => {
            let names: String = pieces.iter().map(|piece| format!("{}\n", piece.path.display())).collect();
            printer.data(&names)?;
        }
        format @ (Format::Json | Format::Yaml) => {
            let written: Vec<Written> = pieces
                .iter()
                .map(|piece| Written { file: piece.path.display().to_string(), node: piece.node.clone() })
                .collect();
            printer.structured(format, &written)?;
        }
    }
    let folder = args.to.display();
    printer.say(&format!(
        "{} written to {folder}. They hold the cluster's keys: keep them out of version control.",
        plural(pieces.len(), "file")
    ));
    if others_may_look(&args.to) {
        printer.say(&format!("others may look into {folder}, though not into its files: chmod 700 {folder}"));
    }
    Ok(())
}
