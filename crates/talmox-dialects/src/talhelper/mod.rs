//! talhelper's `talconfig.yaml`, turned into a description and patches.
//!
//! Every field is reported as honoured (a key of ours, or a patch as it stands, says the same), translated (the same is said
//! another way) or unsupported (left out, with the reason and what to do instead). Variables stay in patches, where they are
//! replaced when a config is rendered; keys of a description have none, so there they are replaced now.

mod cluster;
mod draft;
mod file;
mod group;
mod images;
mod network;
mod nodes;
mod patches;
mod variables;
mod write;

use std::path::Path;

use talmox_config::read::{Reading, Value as _};
use talmox_config::{Code, Location, Problem, Severity, SourceId, Sources, add_file, fault_problem};
use talmox_types::{Contract, Version, support};

use draft::Draft;
use file::TalconfigBlock;

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A key or a patch of ours says the same.
    Honoured,
    /// The same is said another way.
    Translated,
    /// Left out.
    Unsupported,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Translated => "translated",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A field of the file, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub path: String,
    pub verdict: Verdict,
    /// Our key, or the reason.
    pub note: String,
}

/// What came of a `talconfig.yaml`.
#[derive(Debug, Default)]
pub struct Converted {
    pub sources: Sources,
    pub problems: Vec<Problem>,
    pub fields: Vec<Field>,
    /// Paths and texts, to be written into one folder; none if there are errors.
    pub files: Vec<(String, String)>,
}

impl Converted {
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// What a `talconfig.yaml` refers to.
pub trait Surroundings {
    /// The text of a file beside it, or why there is none.
    fn file(&self, name: &str) -> Result<String, String>;
    /// The value of a variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// Converts the file at a path.
pub fn convert_path(path: &Path, around: &dyn Surroundings) -> Converted {
    let mut converted = started();
    match add_file(&mut converted.sources, path) {
        Ok(source) => read(&mut converted, source, around),
        Err(problem) => converted.problems.push(*problem),
    }
    finished(converted)
}

/// Converts a text.
pub fn convert_text(name: &str, text: &str, around: &dyn Surroundings) -> Converted {
    let mut converted = started();
    let source = converted.sources.add(name.to_owned(), text.to_owned(), None);
    read(&mut converted, source, around);
    finished(converted)
}

fn started() -> Converted {
    let mut converted = Converted::default();
    // The first text of a list is the one nobody wrote.
    converted.sources.add("built in".to_owned(), String::new(), None);
    converted
}

fn finished(mut converted: Converted) -> Converted {
    talmox_config::sort(&mut converted.problems);
    if converted.has_errors() {
        converted.files.clear();
    }
    converted
}

fn read(converted: &mut Converted, source: SourceId, around: &dyn Surroundings) {
    let parsed = talmox_yaml::parse(&converted.sources.get(source).text);
    let problems = &mut converted.problems;
    for fault in &parsed.faults {
        problems.push(fault_problem(&fault.kind, Location { source, span: fault.span }));
    }
    let Some(document) = parsed.documents.iter().find(|document| !document.is_null()) else {
        let name = converted.sources.get(source).name.clone();
        problems.push(Problem::error(Code::FileEmpty, format!("{name} says nothing")).in_file(name, 1, 1));
        return;
    };
    let config = TalconfigBlock::read(document, &mut Reading { source, problems });
    let Some(config) = config else { return };
    required(&config, Location { source, span: document.place() }, problems);
    let nodes = config.nodes.iter().flat_map(|nodes| nodes.value.iter());
    let names = nodes.map(|node| node.value.hostname.as_ref().map_or("node", |at| &at.value.0).to_owned());
    let mut draft = Draft::new(around, problems, names.collect::<Vec<_>>().into_iter());
    cluster::convert(&mut draft, &config);
    nodes::convert(&mut draft, &config);
    group::convert(&mut draft, &config, contract(&config));
    network::convert(&mut draft, &config);
    images::convert(&mut draft, &config);
    patches::convert(&mut draft, &config);
    (converted.files, converted.fields) = write::files(draft, &config);
}

fn required(config: &TalconfigBlock, top: Location, problems: &mut Vec<Problem>) {
    let there = [
        ("clusterName", config.cluster_name.is_some()),
        ("kubernetesVersion", config.kubernetes_version.is_some()),
        ("endpoint", config.endpoint.is_some()),
        ("nodes", config.nodes.is_some()),
    ];
    for (key, _) in there.into_iter().filter(|(key, there)| !there && !config.broken.contains(key)) {
        problems.push(
            Problem::error(Code::MissingKey, format!("talconfig.yaml needs {key}"))
                .at(top, "not here")
                .hint("talhelper refuses it as well: is it the right file?"),
        );
    }
}

/// The layout of configs for the version that is named: what of the network is a document depends on it.
fn contract(config: &TalconfigBlock) -> Option<Contract> {
    let text = &config.talos_version.as_ref()?.value.0;
    let version = Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()?;
    Some(support::default_contract(&version))
}
