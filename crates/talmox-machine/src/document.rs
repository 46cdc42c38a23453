//! Documents and the config they make up.

use std::fmt;

use talmox_yaml::{FaultKind, Node, NodeKind};

use crate::fault::{Fault, Faults, Path, Source, Trail, add};
use crate::hidden::Hidden;
use crate::mask::{CoveredKeys, Mask};
use crate::print::print_to;
use crate::read::{Reader, free_scalar};
use crate::schema::{self, API_VERSION, Kind};
use crate::value::{Map, Value};
use crate::view::{self, View};

/// A document: what it is, and what it says. `Debug` names it and shows no values.
#[derive(Clone)]
pub struct Document {
    pub(crate) kind: &'static Kind,
    pub(crate) body: Map,
}

impl Document {
    pub(crate) fn new(kind: &'static Kind, body: Map) -> Self {
        Self { kind, body }
    }

    /// The kind; empty for the document with `machine` and `cluster`.
    pub fn kind(&self) -> &'static str {
        self.kind.name
    }

    /// The name, if documents of this kind have one.
    pub fn name(&self) -> Option<&str> {
        self.kind.named.then(|| self.body.get("name").and_then(Value::as_text).unwrap_or_default())
    }

    /// What is found along keys.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        self.body.get(first)?.at(rest)
    }

    pub(crate) fn id(&self) -> Id<'_> {
        Id { kind: self.kind.name, name: self.name() }
    }

    /// Everything the document says, in Talos' order, with the fields it always prints.
    pub fn to_value(&self) -> Value {
        self.view().to_value()
    }

    /// The same, borrowed.
    fn view(&self) -> View<'_> {
        let mut entries = Vec::with_capacity(self.body.len() + 2);
        if !self.kind.name.is_empty() {
            entries.push(("apiVersion", View::text(API_VERSION)));
            entries.push(("kind", View::text(self.kind.name)));
        }
        view::arrange(&self.body, self.kind.body, &mut entries);
        View::Map(entries)
    }

    /// The same with every secret masked.
    #[must_use]
    pub fn redacted(&self) -> Self {
        self.masked(&Mask::Secrets)
    }

    pub(crate) fn covered_keys(&self, mask: &Mask<'_>) -> CoveredKeys {
        mask.keys(&self.body, self.kind.body)
    }

    pub(crate) fn masked(&self, mask: &Mask<'_>) -> Self {
        let mut body = self.body.clone();
        mask.document(&mut body, self.kind.body);
        Self { kind: self.kind, body }
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id() && self.to_value().without_nulls() == other.to_value().without_nulls()
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("id", &self.id().to_string()).finish_non_exhaustive()
    }
}

/// What tells documents of a config apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id<'a> {
    pub kind: &'a str,
    pub name: Option<&'a str>,
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind.is_empty() { "the document with machine and cluster" } else { self.kind };
        match self.name {
            Some(name) => write!(f, "{kind} {name}"),
            None => f.write_str(kind),
        }
    }
}

/// A machine config: its documents, the one with `machine` and `cluster` first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    documents: Vec<Document>,
}

impl Config {
    /// Reads a config as strictly as Talos does.
    pub fn parse(source: Source<'_>) -> Result<Self, Faults> {
        let nodes = parse_nodes(source)?;
        let mut reader = Reader::new(source);
        let documents: Vec<Document> = nodes
            .iter()
            .filter(|node| !node.is_null())
            .filter_map(|node| read_document(&mut reader, node))
            .collect();
        if !reader.faults.is_empty() {
            return Err(Faults(reader.faults));
        }
        Self::from_documents(documents).map_err(|message| {
            let place = source.place(talmox_yaml::Span::default(), &Path::default());
            Faults(vec![Fault { place, message }])
        })
    }

    /// Puts documents together; two that say something about the same are refused.
    pub(crate) fn from_documents(documents: Vec<Document>) -> Result<Self, String> {
        for (index, document) in documents.iter().enumerate() {
            if let Some(other) = documents[..index].iter().find(|other| clash(other, document)) {
                return Err(clash_message(other, document));
            }
        }
        let (first, rest) = documents.into_iter().partition::<Vec<_>, _>(|one| one.kind.name.is_empty());
        Ok(Self { documents: first.into_iter().chain(rest).collect() })
    }

    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    pub(crate) fn into_documents(self) -> Vec<Document> {
        self.documents
    }

    /// The document of a kind without names, or the first of one with names.
    pub fn document(&self, kind: &str) -> Option<&Document> {
        self.documents.iter().find(|document| document.kind.name == kind)
    }

    /// Documents of a kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Document> {
        self.documents.iter().filter(move |document| document.kind.name == kind)
    }

    /// What the document with `machine` and `cluster` says.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        self.document("")?.at(path)
    }

    /// The config as Talos prints it. It holds secrets.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        for (index, document) in self.documents.iter().enumerate() {
            if index > 0 {
                text.push_str("---\n");
            }
            print_to(&mut text, &document.view());
        }
        text
    }

    /// The same with every secret masked.
    #[must_use]
    pub fn redacted(&self) -> Self {
        Self { documents: self.documents.iter().map(Document::redacted).collect() }
    }

    /// The same with what people wrote into files, manifests and variables of programs masked as well, and with it everything hidden,
    /// in keys too.
    #[must_use]
    pub fn guarded(&self, hidden: &Hidden) -> Self {
        let mask = Mask::Guarded { hidden, mark: None };
        let guarded = |document: &Document| {
            let mut masked = document.masked(&mask);
            document.covered_keys(&mask).rename_in(&mut masked.body);
            masked
        };
        Self { documents: self.documents.iter().map(guarded).collect() }
    }
}

fn clash(one: &Document, other: &Document) -> bool {
    let same_name = one.name() == other.name();
    one.id() == other.id()
        || same_name && one.kind.link && other.kind.link
        || same_name && one.kind.excludes.contains(&other.kind.name)
        || same_name && other.kind.excludes.contains(&one.kind.name)
}

fn clash_message(one: &Document, other: &Document) -> String {
    if one.id() == other.id() {
        format!("{} is there twice", one.id())
    } else {
        format!("{} and {} exclude each other", one.id(), other.id())
    }
}

/// The documents of any YAML text as values, with the meaning plain scalars have to Talos.
pub fn read_values(source: Source<'_>) -> Result<Vec<Value>, Faults> {
    Ok(parse_nodes(source)?.iter().map(free).collect())
}

/// A tree as values, without knowing what they are.
pub(crate) fn free(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Scalar(scalar) => free_scalar(scalar, node.tag.as_deref()),
        NodeKind::Sequence(items) => Value::List(items.iter().map(free).collect()),
        NodeKind::Mapping(entries) => Value::Map(
            entries
                .iter()
                .filter_map(|entry| Some((entry.key.as_scalar()?.text.clone(), free(&entry.value))))
                .collect(),
        ),
    }
}

/// The trees of a text, or what keeps it from being YAML.
pub(crate) fn parse_nodes(source: Source<'_>) -> Result<Vec<Node>, Faults> {
    let parsed = talmox_yaml::parse(source.text);
    if parsed.faults.is_empty() {
        return Ok(parsed.documents);
    }
    let (mut faults, mut more) = (Vec::new(), 0);
    for fault in &parsed.faults {
        add(&mut faults, &mut more, || Fault {
            place: source.place(fault.span, &Path::default()),
            message: words(&fault.kind),
        });
    }
    Err(Faults(faults))
}

fn words(kind: &FaultKind) -> String {
    match kind {
        FaultKind::Syntax(words) => format!("not YAML: {words}"),
        FaultKind::Tab => "a tab, where YAML wants blanks".to_owned(),
        FaultKind::DuplicateKey { key, .. } => format!("`{key}` is there twice"),
        // What looks like an alias may be a secret without its quotes.
        FaultKind::UnknownAlias(_) => {
            "an alias without its anchor; text that begins with * needs quotes".to_owned()
        }
        FaultKind::AliasKnot => "an alias inside its own anchor".to_owned(),
        FaultKind::Limit(limit) => limit.to_string(),
        FaultKind::ComplexKey => "a key that is a list or a mapping".to_owned(),
    }
}

/// The scalar a top-level key has.
pub(crate) fn top_level<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let NodeKind::Mapping(entries) = &node.kind else { return None };
    entries
        .iter()
        .find(|entry| entry.key.as_scalar().is_some_and(|k| k.text == key))
        .map(|entry| &entry.value)
}

fn top_level_text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    top_level(node, key)?.as_scalar().map(|scalar| scalar.text.as_str()).filter(|text| !text.is_empty())
}

/// The kind of document a tree is.
pub(crate) fn find_kind(node: &Node) -> Result<&'static Kind, String> {
    if !matches!(node.kind, NodeKind::Mapping(_)) {
        return Err("a document is a mapping".to_owned());
    }
    let legacy = ["machine", "cluster", "debug", "persist"].iter().any(|key| top_level(node, key).is_some());
    match (top_level_text(node, "apiVersion"), top_level_text(node, "kind")) {
        (None | Some(API_VERSION), None) if legacy => Ok(&schema::V1ALPHA1),
        (Some(API_VERSION), None) => Ok(&schema::V1ALPHA1),
        (_, None) => Err("a document without `kind` has `machine` or `cluster`".to_owned()),
        (None, Some(_)) if !legacy => Err("`apiVersion: v1alpha1` is missing".to_owned()),
        (None | Some(API_VERSION), Some(name)) => {
            schema::kind(name).ok_or_else(|| format!("Talos knows no document of kind {name}"))
        }
        (Some(version), Some(_)) => Err(format!("Talos knows no documents of version {version}")),
    }
}

pub(crate) fn read_document(reader: &mut Reader<'_>, node: &Node) -> Option<Document> {
    match find_kind(node) {
        Ok(kind) => {
            let skip: &[&str] = if kind.name.is_empty() { &[] } else { &["apiVersion", "kind"] };
            Some(Document::new(kind, reader.structure(node, kind.body, skip, &Trail::default())))
        }
        Err(message) => {
            reader.fault(node, &Trail::default(), message);
            None
        }
    }
}
