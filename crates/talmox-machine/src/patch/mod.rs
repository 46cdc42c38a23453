//! Patches: documents merged over a config by Talos' rules, or JSON patches for a config of one document.
//!
//! Errors name the place in the patch and what it was applied to. What a patch asks for and nothing comes of (a
//! document to delete that is not there) is reported beside the result, for the caller to refuse.

mod between;
mod delete;
mod idle;
mod json;
mod merge;
mod place;
mod tree;

use talmox_yaml::{Entry, Node, NodeKind, Scalar, Span, Style};

use crate::document::{Config, Document, find_kind, free, parse_nodes, read_document, top_level};
use crate::fault::{Fault, Faults, Path, Place, Source, Trail};
use crate::print::print;
use crate::read::Reader;
use crate::value::Value;

pub use between::{Between, Hide};
use delete::{Delete, NOT_FOUND, take_deletes};
use json::Operation;
pub use tree::{Filling, Leaf, Quoting, Tree};

/// A patch that was read. It may hold secrets, so `Debug` only names it.
#[derive(Clone)]
pub struct Patch {
    name: String,
    text: String,
    nodes: Vec<Node>,
    change: Change,
}

#[derive(Clone, Debug)]
enum Change {
    Documents(Vec<Part>),
    Json(Vec<Operation>),
}

/// A step of a patch, with the index of the document it comes from.
#[derive(Clone, Debug)]
enum Part {
    Merge { index: usize, document: Document },
    Delete { index: usize, kind: String, name: Option<String>, delete: Delete },
}

/// A patch could not be applied.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatchError {
    /// The config the patch is for cannot be read.
    #[error("{0}")]
    Config(Faults),
    /// The patch does not fit what is there.
    #[error("{patch}: {message}; applied to {target}")]
    Refused { patch: Place, target: String, message: String },
    /// The documents do not go together once the patch is applied.
    #[error("{patch}: {message}; after it was applied to {target}")]
    Clash { patch: Place, target: String, message: String },
}

/// What came of patches.
#[derive(Clone, Debug)]
pub struct Patched {
    state: State,
    /// Deletes of documents that are not there. Talos passes over them in silence.
    pub ignored: Vec<Fault>,
}

/// Between patches a config is text or documents, as it is to Talos: a JSON patch works on text without types.
#[derive(Clone)]
enum State {
    Text(String),
    Documents(Config),
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::Documents(config) => config.fmt(f),
        }
    }
}

impl std::fmt::Debug for Patch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patch").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Patched {
    /// The config as documents, read with all checks.
    pub fn into_config(self, name: &str) -> Result<Config, Faults> {
        match self.state {
            State::Text(text) => Config::parse(Source { name, text: &text }),
            State::Documents(config) => Ok(config),
        }
    }

    /// The config as text. It holds secrets.
    pub fn to_yaml(&self) -> String {
        match &self.state {
            State::Text(text) => text.clone(),
            State::Documents(config) => config.to_yaml(),
        }
    }
}

impl Patch {
    /// Reads a patch: documents, in which `$patch: delete` is allowed, or a list of JSON patch operations.
    pub fn parse(source: Source<'_>) -> Result<Self, Faults> {
        Tree::parse(source)?.read()
    }

    /// A patch of documents that were made rather than written; they are read as if they had been.
    pub fn from_values(name: &str, documents: Vec<Value>) -> Result<Self, Faults> {
        let nodes: Vec<Node> = documents.into_iter().map(to_node).collect();
        let parts = read_parts(Source { name, text: "" }, &nodes)?;
        Ok(Self { name: name.to_owned(), text: String::new(), nodes, change: Change::Documents(parts) })
    }

    /// What its places are told by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a JSON patch, which Talos applies to configs of one document only.
    pub fn is_json(&self) -> bool {
        matches!(self.change, Change::Json(_))
    }

    fn place(&self, index: usize, path: &Path) -> Place {
        let node = self.nodes.get(index).map(|root| path.find(root));
        let span = node.map_or(Span::default(), Node::place);
        Source { name: &self.name, text: &self.text }.place(span, path)
    }
}

/// Applies patches in order to a config that is called `name` in errors.
pub fn apply(config: Config, name: &str, patches: &[Patch]) -> Result<Patched, PatchError> {
    run(State::Documents(config), name, patches)
}

/// Applies patches in order to the text of a config.
pub fn apply_to_text(source: Source<'_>, patches: &[Patch]) -> Result<Patched, PatchError> {
    run(State::Text(source.text.to_owned()), source.name, patches)
}

fn run(mut state: State, name: &str, patches: &[Patch]) -> Result<Patched, PatchError> {
    let mut ignored = Vec::new();
    for patch in patches {
        state = match &patch.change {
            Change::Documents(parts) => {
                let before = Patched { state, ignored: Vec::new() };
                let config = before.into_config(name).map_err(PatchError::Config)?;
                State::Documents(apply_parts(config, name, patch, parts, &mut ignored)?)
            }
            Change::Json(operations) => {
                let before = Patched { state, ignored: Vec::new() };
                State::Text(apply_json(&before.to_yaml(), name, patch, operations)?)
            }
        };
    }
    Ok(Patched { state, ignored })
}

/// The tree a value would be read as once it was printed.
fn to_node(value: Value) -> Node {
    let plain = |text: String| NodeKind::Scalar(Scalar { text, style: Style::Plain });
    let kind = match value {
        Value::Text(text) => NodeKind::Scalar(Scalar { text, style: Style::Quoted }),
        Value::List(items) => NodeKind::Sequence(items.into_iter().map(to_node).collect()),
        Value::Map(map) => {
            let entry = |(key, value)| Entry { key: to_node(Value::Text(key)), value: to_node(value) };
            NodeKind::Mapping(map.into_iter().map(entry).collect())
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Octal(_) | Value::Float(_) => {
            plain(print(&value).trim_end().to_owned())
        }
    };
    Node { kind, span: Span::default(), alias: None, tag: None }
}

fn read_parts(source: Source<'_>, nodes: &[Node]) -> Result<Vec<Part>, Faults> {
    let mut reader = Reader::new(source);
    let mut parts = Vec::new();
    for (index, node) in nodes.iter().enumerate().filter(|(_, node)| !node.is_null()) {
        read_part(&mut reader, index, node, &mut parts);
    }
    if parts.is_empty() && reader.faults.is_empty() {
        let place = source.place(Span::default(), &Path::default());
        reader.faults.push(Fault { place, message: "the patch says nothing".to_owned() });
    }
    // What is deleted from the document with machine and cluster goes before everything else, wherever it is written.
    parts.sort_by_key(|part| !matches!(part, Part::Delete { kind, .. } if kind.is_empty()));
    if reader.faults.is_empty() { Ok(parts) } else { Err(Faults(reader.faults)) }
}

fn read_part(reader: &mut Reader<'_>, index: usize, node: &Node, parts: &mut Vec<Part>) {
    let (deletes, left) = match take_deletes(node) {
        Ok(taken) => taken,
        Err(misplaced) => {
            reader.fault_at(misplaced.span, &misplaced.path, misplaced.message);
            return;
        }
    };
    if !deletes.is_empty() {
        match identity(node, &deletes) {
            Ok((kind, name)) => {
                parts.extend(deletes.into_iter().map(|delete| Part::Delete {
                    index,
                    kind: kind.clone(),
                    name: name.clone(),
                    delete,
                }));
            }
            Err(message) => reader.fault(node, &Trail::default(), message),
        }
    }
    if let Some(left) = left
        && let Some(document) = read_document(reader, &left)
    {
        parts.push(Part::Merge { index, document });
    }
}

/// The document that deletes are about.
fn identity(node: &Node, deletes: &[Delete]) -> Result<(String, Option<String>), String> {
    let text = |key: &str| top_level(node, key).and_then(Node::as_scalar).map(|scalar| scalar.text.clone());
    let whole = deletes.iter().any(|delete| delete.path.0.is_empty());
    match (text("apiVersion"), text("kind")) {
        (None, None) if whole => Err("the document with machine and cluster cannot be deleted".to_owned()),
        (None, None) => Ok((String::new(), None)),
        (Some(_), Some(kind)) => {
            if !whole {
                find_kind(node)?;
            }
            Ok((kind, text("name").filter(|name| !name.is_empty())))
        }
        _ => Err("a document that deletes needs both `apiVersion` and `kind`".to_owned()),
    }
}

fn apply_parts(
    config: Config,
    name: &str,
    patch: &Patch,
    parts: &[Part],
    ignored: &mut Vec<Fault>,
) -> Result<Config, PatchError> {
    let mut documents = config.into_documents();
    for part in parts {
        match part {
            Part::Merge { index, document } => {
                merge_document(&mut documents, document).map_err(|mismatch| PatchError::Refused {
                    patch: patch.place(*index, &mismatch.path),
                    target: target(name, document),
                    message: mismatch.message,
                })?;
            }
            Part::Delete { index, kind, name: wanted, delete } => {
                let found =
                    documents.iter().position(|one| one.kind() == kind && one.name() == wanted.as_deref());
                let place = Source { name: &patch.name, text: &patch.text }.place(delete.span, &delete.path);
                let Some(at) = found else {
                    let message = format!("there is no {} to delete from", describe(kind, wanted.as_deref()));
                    ignored.push(Fault { place, message });
                    continue;
                };
                delete_from(&mut documents, at, delete).map_err(|message| PatchError::Refused {
                    patch: patch.place(*index, &delete.path),
                    target: target(name, &documents[at]),
                    message: message.to_owned(),
                })?;
            }
        }
    }
    Config::from_documents(documents).map_err(|message| PatchError::Clash {
        patch: patch.place(0, &Path::default()),
        target: name.to_owned(),
        message,
    })
}

fn describe(kind: &str, name: Option<&str>) -> String {
    crate::document::Id { kind, name }.to_string()
}

fn target(name: &str, document: &Document) -> String {
    format!("{} of {name}", document.id())
}

fn merge_document(documents: &mut Vec<Document>, patch: &Document) -> Result<(), merge::Mismatch> {
    match documents.iter_mut().find(|document| document.id() == patch.id()) {
        Some(document) => {
            merge::merge_struct(&mut document.body, &patch.body, document.kind.body, &Trail::default())
        }
        None => {
            documents.push(patch.clone());
            Ok(())
        }
    }
}

fn delete_from(documents: &mut Vec<Document>, at: usize, delete: &Delete) -> Result<(), &'static str> {
    if delete.path.0.is_empty() {
        documents.remove(at);
        return Ok(());
    }
    documents.get_mut(at).map_or(Err(NOT_FOUND), |document| delete.apply(document))
}

fn apply_json(text: &str, name: &str, patch: &Patch, operations: &[Operation]) -> Result<String, PatchError> {
    let refused = |index: Option<usize>, message: String| PatchError::Refused {
        patch: patch.place(0, &index.map_or_else(Path::default, |index| Path::default().item(index))),
        target: name.to_owned(),
        message,
    };
    let nodes = parse_nodes(Source { name, text }).map_err(PatchError::Config)?;
    let [node] = nodes.as_slice() else {
        let message = format!(
            "a JSON patch works on a config of one document, and this one has {}; write it as a strategic merge patch",
            nodes.len()
        );
        return Err(refused(None, message));
    };
    let mut value = free(node);
    for (index, operation) in operations.iter().enumerate() {
        operation.apply(&mut value).map_err(|message| refused(Some(index), message))?;
    }
    Ok(print(&value))
}
