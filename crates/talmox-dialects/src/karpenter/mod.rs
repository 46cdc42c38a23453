//! Manifests of Karpenter for Proxmox: `ProxmoxTemplate`, which is built, and `ProxmoxUnmanagedTemplate`, which somebody made.
//!
//! Fields, limits and defaults are those of the custom resources and of the controller behind them. What the controller gets
//! wrong is not copied: CPU flags are joined the way Proxmox wants it, the memory of a display is a number, and the agent's
//! type is sent.

pub mod image;
pub mod manifest;
pub mod template;
pub mod unmanaged;
pub mod values;

use std::collections::BTreeMap;
use std::path::Path;

use talmox_config::{Code, Location, Problem, Severity, Sources, add_file, fault_problem};
use talmox_types::desired::{Template, TemplateRef};
use talmox_yaml::{FaultKind, Node, NodeKind};

use manifest::Kind;

/// What a file of manifests says.
#[derive(Debug, Default)]
pub struct Manifests {
    pub sources: Sources,
    /// Templates to be built; only those without an error.
    pub templates: Vec<Template>,
    /// Templates that must be there.
    pub references: Vec<Reference>,
    pub problems: Vec<Problem>,
}

/// A template somebody else made, and what a manifest calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// `metadata.name`.
    pub name: String,
    pub template: TemplateRef,
}

impl Manifests {
    pub fn has_errors(&self) -> bool {
        self.errors() > 0
    }

    pub fn errors(&self) -> usize {
        self.problems.iter().filter(|problem| problem.severity == Severity::Error).count()
    }
}

/// Whether a text is one of Kubernetes manifests rather than a description: its first document has a kind.
pub fn are_manifests(text: &str) -> bool {
    let parsed = talmox_yaml::parse(text);
    let first = parsed.documents.iter().find(|document| !document.is_null());
    first.is_some_and(|document| {
        let NodeKind::Mapping(entries) = &document.kind else { return false };
        let keys = entries.iter().filter_map(|entry| entry.key.as_scalar());
        keys.filter(|key| ["apiVersion", "kind"].contains(&key.text.as_str())).count() > 0
    })
}

/// Reads files of manifests, each with as many documents as it likes.
pub fn read_paths<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Manifests {
    let mut reader = Reader::new();
    for path in paths {
        match add_file(&mut reader.manifests.sources, path) {
            Ok(source) => reader.source(source),
            Err(problem) => reader.manifests.problems.push(*problem),
        }
    }
    reader.finish()
}

/// Reads manifests from a text that is already there.
pub fn read_text(name: &str, text: &str) -> Manifests {
    let mut reader = Reader::new();
    let source = reader.manifests.sources.add(name.to_owned(), text.to_owned(), None);
    reader.source(source);
    reader.finish()
}

struct Reader {
    manifests: Manifests,
    /// Where each name of a kind stands first.
    names: BTreeMap<(Kind, String), Location>,
}

impl Reader {
    fn new() -> Self {
        let mut manifests = Manifests::default();
        // The first text of a list is the one nobody wrote.
        manifests.sources.add("built in".to_owned(), String::new(), None);
        Self { manifests, names: BTreeMap::new() }
    }

    fn source(&mut self, source: talmox_config::SourceId) {
        let parsed = talmox_yaml::parse(&self.manifests.sources.get(source).text);
        let broken = parsed.faults.iter().any(|fault| !matches!(fault.kind, FaultKind::DuplicateKey { .. }));
        for fault in parsed.faults {
            let location = Location { source, span: fault.span };
            self.manifests.problems.push(fault_problem(&fault.kind, location));
        }
        if !broken {
            for document in parsed.documents.iter().filter(|document| !document.is_null()) {
                self.document(source, document);
            }
        }
    }

    fn document(&mut self, source: talmox_config::SourceId, document: &Node) {
        let problems = &mut self.manifests.problems;
        let mut reading = talmox_config::read::Reading { source, problems };
        let Some(found) = manifest::read(document, &mut reading) else { return };
        let first = self.names.get(&(found.kind, found.name.value.clone())).copied();
        if let Some(first) = first {
            reading.report(
                Problem::error(
                    Code::DuplicateName,
                    format!("there are two of the name {}", found.name.value),
                )
                .at(found.name.location, "again")
                .related(first, "first here"),
            );
            return;
        }
        self.names.insert((found.kind, found.name.value.clone()), found.name.location);
        match found.kind {
            Kind::Template => {
                let template = template::read(&found, &mut reading);
                self.manifests.templates.extend(template);
            }
            Kind::UnmanagedTemplate => {
                let reference = unmanaged::read(&found, &mut reading);
                self.manifests.references.extend(reference);
            }
        }
    }

    fn finish(self) -> Manifests {
        let Self { mut manifests, names } = self;
        let nothing = names.is_empty() && !manifests.has_errors();
        if let Some(source) = manifests.sources.written().next().filter(|_| nothing) {
            let name = manifests.sources.get(source).name.clone();
            manifests.problems.push(
                Problem::error(Code::FileEmpty, format!("{name} has no template in it"))
                    .in_file(name, 1, 1)
                    .hint("a manifest has kind: ProxmoxTemplate or kind: ProxmoxUnmanagedTemplate"),
            );
        }
        talmox_config::sort(&mut manifests.problems);
        manifests
    }
}
