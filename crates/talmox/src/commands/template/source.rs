//! Which templates are wanted: those of a description, or those of manifests.

use std::path::{Path, PathBuf};

use talmox_config::{Colour, Outcome, Problem, Severity, Sources, add_file, report, without_cluster};
use talmox_dialects::karpenter::{self, Manifests, Reference};
use talmox_trust::Verb;
use talmox_types::desired::{Desired, TemplateRef};

use crate::args::{Connection, TemplateSource, TrustArgs};
use crate::commands::read_by;
use crate::commands::shared::{Job, boxed};
use crate::failure::Failure;
use crate::printer::Printer;
use crate::trust::Folder;

/// What was read, with the way to its Proxmox.
pub(in crate::commands) struct Source {
    pub(in crate::commands) job: Job,
    /// Templates somebody else made, which manifests name.
    pub(in crate::commands) references: Vec<Reference>,
}

/// Whether a folder without anything to read will do: somebody only wants to look.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Need {
    Templates,
    Nothing,
}

impl Source {
    pub(in crate::commands) async fn open(
        source: &TemplateSource,
        connection: &Connection,
        (verb, need): (Verb, Need),
        printer: &Printer,
    ) -> anyhow::Result<Self> {
        let file = source.file.as_path();
        let folder = Folder::open(file, &source.trust)?;
        let files = manifest_files(file);
        let (read, references) = if !files.is_empty() {
            let manifests = read_manifests(&files, printer)?;
            (wanted(&folder, manifests.templates, &source.trust, printer)?, manifests.references)
        } else if need == Need::Nothing && file == Path::new(".") && !is_description(file) {
            (without_description()?, Vec::new())
        } else {
            (boxed(&folder, printer)?, Vec::new())
        };
        let named: Vec<TemplateRef> = references.iter().map(|named| named.template.clone()).collect();
        let job = Job::of(verb, read, &named, folder, connection, printer).await?;
        Ok(Self { job, references })
    }
}

/// What manifests want, without asking Proxmox; none if it is a description.
pub(in crate::commands) fn read_if_manifests(
    file: &Path,
    trust: &TrustArgs,
    printer: &Printer,
) -> anyhow::Result<Option<Desired>> {
    let files = manifest_files(file);
    if files.is_empty() {
        return Ok(None);
    }
    let manifests = read_manifests(&files, printer)?;
    let (_, desired) = wanted(&Folder::open(file, trust)?, manifests.templates, trust, printer)?;
    Ok(Some(desired))
}

/// Whether a file, or a folder, is manifests and no description.
pub(in crate::commands) fn are_manifests(file: &Path) -> bool {
    !manifest_files(file).is_empty()
}

fn is_description(folder: &Path) -> bool {
    ["cluster.yaml", "cluster.yml", "cluster.toml"].iter().any(|name| folder.join(name).exists())
}

/// The manifests in a file or folder; none if it is a description, or nothing at all.
fn manifest_files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        let mut sources = Sources::default();
        let text = add_file(&mut sources, path).map(|id| sources.get(id).text.clone());
        let are = text.is_ok_and(|text| karpenter::are_manifests(&text));
        return if are { vec![path.to_owned()] } else { Vec::new() };
    }
    if is_description(path) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_yaml).collect();
    files.sort();
    files
}

fn read_manifests(files: &[PathBuf], printer: &Printer) -> anyhow::Result<Manifests> {
    let manifests = karpenter::read_paths(files.iter().map(PathBuf::as_path));
    let shown = |problem: &&Problem| printer.is_verbose() || problem.severity != Severity::Note;
    let (errors, others): (Vec<&Problem>, Vec<&Problem>) =
        manifests.problems.iter().filter(shown).partition(|problem| problem.severity == Severity::Error);
    let text = |problems: Vec<&Problem>| report(&manifests.sources, problems, Colour::Always);
    if !others.is_empty() {
        printer.say(text(others).trim_end_matches('\n'));
        printer.say("");
    }
    if errors.is_empty() {
        return Ok(manifests);
    }
    let count = errors.len();
    printer.problem(text(errors).trim_end_matches('\n'));
    printer.problem("");
    let problems = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    Err(Failure::new(format!("{problems} in the manifests. Nothing was sent to Proxmox.")).into())
}

/// Manifests say nothing of Proxmox: the `cluster.yaml` beside them does, which needs no nodes for that, or else the
/// environment. Nothing of that cluster is wanted here, and none of its templates are ours to remove.
fn wanted(
    manifests: &Folder,
    templates: Vec<talmox_types::desired::Template>,
    trust: &TrustArgs,
    printer: &Printer,
) -> anyhow::Result<(Box<Outcome>, Desired)> {
    let beside = manifests.path();
    let beside = if beside.as_os_str().is_empty() { Path::new(".") } else { beside };
    let (outcome, desired) = if is_description(beside) {
        let (outcome, desired) =
            read_by(talmox_config::read_settings, &Folder::open(beside, trust)?, printer)?;
        (Box::new(outcome), desired)
    } else {
        without_description()?
    };
    let desired = Desired { uid: None, nodes: Vec::new(), templates, ..desired };
    Ok((outcome, desired))
}

fn without_description() -> anyhow::Result<(Box<Outcome>, Desired)> {
    let mut outcome = without_cluster();
    let desired = outcome.desired.take();
    let desired = desired.ok_or_else(|| Failure::new("the built-in description cannot be read"))?;
    Ok((Box::new(outcome), desired))
}
