//! What every manifest has around its `spec`.

use talmox_config::read::{At, Reading, Shape, Text, Value, block, read_block, suggest};
use talmox_config::{Code, Problem};
use talmox_yaml::{Node, NodeKind};

use crate::tree::Tree;

pub(super) const API_VERSION: &str = "karpenter.proxmox.sinextra.dev/v1alpha1";

/// Kinds that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Template,
    UnmanagedTemplate,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Template, Self::UnmanagedTemplate];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Template => "ProxmoxTemplate",
            Self::UnmanagedTemplate => "ProxmoxUnmanagedTemplate",
        }
    }
}

/// A manifest of a kind that is read.
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) name: At<String>,
    pub(super) spec: Node,
}

block! {
    /// A Kubernetes object.
    pub struct ManifestBlock as "a manifest" {
        /// Whose kind it is.
        api_version: Text = "apiVersion",
        /// What it is.
        kind: Text = "kind",
        /// Its name.
        metadata: MetadataBlock = "metadata",
        /// What is wanted.
        spec: Tree = "spec",
        /// What is the case, as a controller reports it: not read.
        status: Tree = "status",
    }
}

/// `metadata`: of all that may stand there only the name is read.
#[derive(Clone, Debug)]
pub struct MetadataBlock {
    name: Option<At<String>>,
}

/// What the name of a template may be: Kubernetes' own rule, and short enough for a VM and a file.
const NAME_RULE: &str =
    "lower-case letters, digits, `-` and `.`, at most 63, beginning and ending with a letter or digit";

fn is_name(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 63 && text.split('.').all(label)
}

impl Value for MetadataBlock {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let NodeKind::Mapping(entries) = &node.kind else {
            reading.wrong_type(node, "a mapping");
            return None;
        };
        let own = entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|key| key.text == "name"));
        let Some(entry) = own else { return Some(Self { name: None }) };
        let name = Text::read(&entry.value, reading)?.0;
        let location = reading.location(&entry.value);
        if !is_name(&name) {
            reading.report(
                Problem::error(Code::InvalidValue, format!("{name:?} cannot be the name of a template"))
                    .at(location, "not a name")
                    .hint(NAME_RULE),
            );
            return None;
        }
        Some(Self { name: Some(At { value: name, location, key: "name" }) })
    }

    fn shape() -> Shape {
        Shape::Any
    }

    fn show(&self) -> String {
        self.name.as_ref().map(|name| name.value.clone()).unwrap_or_default()
    }
}

/// Reads what surrounds the `spec`. None if it is of a kind nobody asks for here, or broken.
pub(super) fn read(document: &Node, reading: &mut Reading<'_>) -> Option<Found> {
    let foreign = foreign_kind(document);
    if let Some(kind) = foreign {
        let location = reading.location(document);
        reading.report(
            Problem::note(Code::KeyNotOurs, format!("{kind} is left to other tools"))
                .at(location, "not read by talmox"),
        );
        return None;
    }
    let block: ManifestBlock = read_block(document, reading, &mut |_, _, _| false)?;
    let kind = kind(&block, document, reading)?;
    version(&block, kind, document, reading);
    let missing = |key: &str, hint: String| {
        Problem::error(Code::MissingKey, format!("a {} needs {key}", kind.word())).hint(hint)
    };
    let top = reading.location(document);
    let named = block.metadata.as_ref().and_then(|metadata| metadata.value.name.clone());
    if named.is_none() && !block.broken.contains(&"metadata") {
        let at = block.metadata.as_ref().map_or(top, |metadata| metadata.location);
        reading.report(missing("metadata.name", "metadata: {name: default}".to_owned()).at(at, "no name"));
    }
    if block.spec.is_none() && !block.broken.contains(&"spec") {
        reading.report(missing("a spec", "spec: says what is wanted".to_owned()).at(top, "no spec"));
    }
    Some(Found { kind, name: named?, spec: block.spec?.value.0 })
}

/// The kind of a document that is none of ours and no misspelling of one.
fn foreign_kind(document: &Node) -> Option<String> {
    let NodeKind::Mapping(entries) = &document.kind else { return None };
    let value = |name: &str| {
        let entry = entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|key| key.text == name))?;
        entry.value.as_scalar().map(|value| value.text.clone())
    };
    let kind = value("kind")?;
    let ours =
        value("apiVersion").is_none_or(|version| version.split('/').next() == API_VERSION.split('/').next());
    let others = ["ProxmoxNodeClass"].contains(&kind.as_str());
    let known = Kind::ALL.iter().any(|own| own.word() == kind);
    (others || (!ours && !known)).then_some(kind)
}

fn kind(block: &ManifestBlock, document: &Node, reading: &mut Reading<'_>) -> Option<Kind> {
    let words = || Kind::ALL.map(Kind::word);
    let Some(written) = &block.kind else {
        if !block.broken.contains(&"kind") {
            let location = reading.location(document);
            reading.report(
                Problem::error(Code::MissingKey, "a manifest says what kind it is")
                    .at(location, "no kind")
                    .hint(format!("kind: {}", words().join(" or "))),
            );
        }
        return None;
    };
    let text = written.value.0.as_str();
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.word() == text) {
        return Some(kind);
    }
    let close = Kind::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(text));
    let close = close.map(Kind::word).or_else(|| suggest(text, words()));
    let problem = Problem::error(Code::InvalidValue, format!("{text} is no kind of template"))
        .at(written.location, "unknown kind");
    reading.report(problem.hint(match close {
        Some(close) => format!("did you mean {close}?"),
        None => words().join(" or "),
    }));
    None
}

fn version(block: &ManifestBlock, kind: Kind, document: &Node, reading: &mut Reading<'_>) {
    let hint = format!("apiVersion: {API_VERSION}");
    let problem = match &block.api_version {
        Some(written) if written.value.0 == API_VERSION => return,
        Some(written) => {
            let text = &written.value.0;
            Problem::error(Code::InvalidValue, format!("{} is not of {text}", kind.word()))
                .at(written.location, "another version")
        }
        None if block.broken.contains(&"apiVersion") => return,
        None => {
            let location = reading.location(document);
            Problem::error(Code::MissingKey, "a manifest says whose kind it is").at(location, "no apiVersion")
        }
    };
    reading.report(problem.hint(hint));
}
