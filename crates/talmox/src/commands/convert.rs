//! `talmox convert`

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use talmox_config::{Colour, MAX_FILE_SIZE, Problem, Severity, report};
use talmox_dialects::talhelper::{Converted, Field, Surroundings, Verdict, convert_path};
use talmox_yaml::NodeKind;

use super::init::new_uid;
use crate::args::{ConvertTalhelper, ConvertWhat, Format};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::conversion_text;
use crate::trust::Folder;

/// What talhelper keeps a cluster's secrets in.
const SECRETS: [&str; 4] = ["talsecret.sops.yaml", "talsecret.sops.yml", "talsecret.yaml", "talsecret.yml"];

pub(super) fn run(args: &crate::args::Convert, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        ConvertWhat::Talhelper(args) => talhelper(args, printer),
    }
}

/// The folder of a talconfig.yaml, and the environment.
struct Beside<'a>(&'a Folder);

impl Surroundings for Beside<'_> {
    fn file(&self, name: &str) -> Result<String, String> {
        self.0.text(name).map_err(|failure| failure.to_string())
    }

    #[expect(clippy::disallowed_methods, reason = "names of variables come from the file")]
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_FILE_SIZE).read_to_string(&mut text)?;
    Ok(text)
}

/// What is said, for programs.
#[derive(Serialize)]
struct Data<'a> {
    fields: Vec<FieldData<'a>>,
    files: Vec<String>,
}

#[derive(Serialize)]
struct FieldData<'a> {
    path: &'a str,
    verdict: &'static str,
    note: &'a str,
}

impl<'a> From<&'a Field> for FieldData<'a> {
    fn from(field: &'a Field) -> Self {
        Self { path: &field.path, verdict: field.verdict.word(), note: &field.note }
    }
}

fn talhelper(args: &ConvertTalhelper, printer: &Printer) -> anyhow::Result<()> {
    let folder = Folder::open(&args.file, &args.trust)?;
    let mut converted = convert_path(&args.file, &Beside(&folder));
    show_problems(&converted, printer);
    if converted.has_errors() {
        let name = args.file.display();
        return Err(Failure::new(format!("{name} could not be converted; nothing was written")).into());
    }
    if let Some(to) = &args.to {
        complete(&mut converted, folder.real(), to)?;
        write(&converted, to, args.force, printer)?;
    }
    match args.output.output {
        Format::Table => printer.data(&conversion_text(&converted.fields))?,
        format @ (Format::Json | Format::Yaml) => {
            let files = converted.files.iter().map(|(path, _)| path.clone()).collect();
            let fields = converted.fields.iter().map(FieldData::from).collect();
            printer.structured(format, &Data { fields, files })?;
        }
    }
    printer.say(&summary(&converted, args.to.as_deref()));
    Ok(())
}

fn show_problems(converted: &Converted, printer: &Printer) {
    let errors_first =
        |severity| converted.problems.iter().filter(move |problem| problem.severity == severity);
    let problems: Vec<&Problem> =
        errors_first(Severity::Error).chain(errors_first(Severity::Warning)).collect();
    if !problems.is_empty() {
        printer.problem(report(&converted.sources, problems, Colour::Always).trim_end_matches('\n'));
        printer.problem("");
    }
}

fn summary(converted: &Converted, to: Option<&Path>) -> String {
    let count = |verdict| converted.fields.iter().filter(|field| field.verdict == verdict).count();
    let counted = format!(
        "\n{} honoured, {} translated, {} unsupported",
        count(Verdict::Honoured),
        count(Verdict::Translated),
        count(Verdict::Unsupported)
    );
    match to {
        None => format!("{counted}; nothing was written: --to DIR writes {} files", converted.files.len()),
        Some(to) => format!("{counted}\nnext:  talmox validate -f {}", to.display()),
    }
}

/// Adds what a description has and a `talconfig.yaml` has not: what tells this cluster from others of its name, kept if
/// it is there already, and where its secrets are.
fn complete(converted: &mut Converted, folder: &Path, to: &Path) -> anyhow::Result<()> {
    let cluster = &mut converted.files[0].1;
    let uid = match existing_uid(&to.join("cluster.yaml")) {
        Some(uid) => uid,
        None => new_uid()?.to_string(),
    };
    cluster.push_str(&format!("cluster_uid: \"{uid}\"\n"));
    let Some(secrets) = SECRETS.map(|name| folder.join(name)).into_iter().find(|path| path.exists()) else {
        return Ok(());
    };
    let named = named_from(&secrets, folder, to).context("could not find the folder of the secrets")?;
    cluster.push_str(&format!("secrets_file: \"{}\"\n", named.display()));
    converted.fields.push(Field {
        path: secrets.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        verdict: Verdict::Honoured,
        note: "secrets_file".to_owned(),
    });
    Ok(())
}

/// A file's name for somebody in another folder.
fn named_from(file: &Path, folder: &Path, to: &Path) -> std::io::Result<PathBuf> {
    let same = to.canonicalize().is_ok_and(|to| folder.canonicalize().is_ok_and(|folder| to == folder));
    match file.file_name() {
        Some(name) if same => Ok(PathBuf::from(name)),
        Some(_) | None => file.canonicalize(),
    }
}

fn existing_uid(path: &Path) -> Option<String> {
    let parsed = talmox_yaml::parse(&read(path).ok()?);
    let NodeKind::Mapping(entries) = &parsed.documents.first()?.kind else { return None };
    let entry =
        entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|key| key.text == "cluster_uid"))?;
    Some(entry.value.as_scalar()?.text.clone())
}

/// All of them or none: what is in the way is found before anything is written.
fn write(converted: &Converted, to: &Path, force: bool, printer: &Printer) -> anyhow::Result<()> {
    let taken = converted.files.iter().map(|(name, _)| to.join(name)).find(|path| path.exists());
    if let Some(path) = taken.filter(|_| !force) {
        return Err(Failure::new(format!("{} is there already", path.display()))
            .with_hint("nothing was changed; name another folder, or replace what is there with --force")
            .into());
    }
    for (name, text) in &converted.files {
        let path = to.join(name);
        let written = write_file(&path, text, force);
        written.with_context(|| format!("could not write {}", path.display()))?;
        printer.say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// Beside it first, then in its place; never over one somebody made meanwhile. Patches may hold keys: 0600.
fn write_file(path: &Path, text: &str, force: bool) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let open = |path: &Path| OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if !force {
        return open(path)?.write_all(text.as_bytes());
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}.new", std::process::id()));
    let mut file = open(Path::new(&beside))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
