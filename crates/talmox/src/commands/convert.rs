//! `talmox convert`

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;
use talmox_config::{Colour, MAX_FILE_SIZE, Problem, Severity, report};
use talmox_dialects::talhelper::{Converted, Field, Surroundings, Verdict, convert_path};
use talmox_machine::Source;
use talmox_render::Variables;
use talmox_secrets::{Overwrite, write_secret_file};
use talmox_yaml::NodeKind;
use zeroize::Zeroizing;

use super::init::new_uid;
use crate::args::{ConvertTalhelper, ConvertWhat, Format};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::screens::conversion_text;
use crate::trust::Folder;
use crate::{secrets_file, variables_file};

/// What talhelper keeps a cluster's secrets in.
const SECRETS: [&str; 4] = ["talsecret.sops.yaml", "talsecret.sops.yml", "talsecret.yaml", "talsecret.yml"];

pub(super) fn run(args: &crate::args::Convert, printer: &Printer) -> anyhow::Result<()> {
    match &args.what {
        ConvertWhat::Talhelper(args) => talhelper(args, printer),
    }
}

/// The folder of a talconfig.yaml, and what its variables stand for.
struct Beside<'a> {
    folder: &'a Folder,
    variables: &'a Variables,
}

impl Surroundings for Beside<'_> {
    fn file(&self, name: &str) -> Result<String, String> {
        self.folder.text(name).map_err(|failure| failure.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(str::to_owned)
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
    let variables = variables_file::load(&folder, &args.variables)?;
    let mut converted = convert_path(&args.file, &Beside { folder: &folder, variables: &variables });
    show_problems(&converted, printer);
    if converted.has_errors() {
        let name = args.file.display();
        return Err(Failure::new(format!("{name} could not be converted; nothing was written")).into());
    }
    if let Some(to) = &args.to {
        complete(&mut converted, folder.real(), to)?;
        write(&converted, to, args.force, printer)?;
        Kept::new(&converted, folder.real(), to)?.write(printer)?;
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

/// The new name of a file of variables.
const VARIABLES: &str = "talenv.yaml";

/// The file of variables beside the description, and the names patches refer to that are not in it.
struct Kept {
    path: PathBuf,
    /// Its text; none if there is no such file yet.
    text: Option<Zeroizing<String>>,
    /// It was found beside `talconfig.yaml`, and belongs beside the description too.
    is_copied: bool,
    missing: BTreeSet<String>,
}

impl Kept {
    fn new(converted: &Converted, folder: &Path, to: &Path) -> anyhow::Result<Self> {
        let there = variables_file::find(to);
        let source = there.clone().or_else(|| variables_file::find(folder));
        let text = source.as_deref().map(secrets_file::read_as_it_is).transpose()?;
        let name = source.as_deref().and_then(Path::file_name).unwrap_or(VARIABLES.as_ref());
        let known = text.as_deref().map(|text| variables_file::names_in(text)).unwrap_or_default();
        let patches = converted.files.iter().filter(|(name, _)| name.starts_with("patches/"));
        let named = patches.flat_map(|(name, text)| talmox_render::names(Source { name, text }));
        Ok(Self {
            path: to.join(name),
            is_copied: there.is_none() && text.is_some(),
            text,
            missing: named.filter(|name| !known.contains(name)).collect(),
        })
    }

    /// Adds a line for each name that is missing; what is there stays. An encrypted file is left to `sops`.
    fn write(self, printer: &Printer) -> anyhow::Result<()> {
        let Self { path, text, is_copied, missing } = self;
        let name = path.display();
        let is_encrypted = text.as_deref().is_some_and(|text| talmox_secrets::sops::is_sops(text));
        let lines: String = missing.iter().map(|name| format!("{name}:\n")).collect();
        let added = if is_encrypted { "" } else { lines.as_str() };
        let old = text.as_deref().map_or(HEADER, String::as_str);
        let end = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
        if is_copied || !added.is_empty() {
            let whole = Zeroizing::new(format!("{old}{end}{added}"));
            write_secret_file(&path, whole.as_bytes(), Overwrite::Replace)
                .with_context(|| format!("could not write {name}"))?;
            printer.say(&format!("wrote {name}"));
        }
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(String::as_str).collect();
            let how =
                if is_encrypted { format!("; add them with `sops {name}`") } else { format!(" in {name}") };
            printer.say(&format!("variables that need a value{how}: {}", names.join(", ")));
        }
        Ok(())
    }
}

/// Stands above names in a new file.
const HEADER: &str = "# What ${VARIABLES} in patches stand for, NAME: value. Keep it out of version control, or encrypt it (talenv.sops.yaml).\n";
