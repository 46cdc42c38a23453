//! What is being written: settings, patches and the report, by whom they are for.

use talmox_config::read::{At, Text};
use talmox_config::{Code, Location, Problem};
use talmox_yaml::{Entry, Node, NodeKind};

use super::variables;
use super::{Field, Surroundings, Verdict};
use crate::tree;

/// Whom something is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Everyone,
    ControlPlanes,
    Workers,
    /// By its position.
    Node(usize),
}

/// Where a field stands, and whom it is for.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub path: String,
    pub whom: Vec<Whom>,
}

/// What one of them gets.
#[derive(Debug)]
pub(super) struct Share {
    /// As it is called in file names.
    pub name: String,
    pub settings: Vec<(String, Node)>,
    /// A patch of the document with `machine` and `cluster`.
    legacy: Node,
    documents: Vec<Node>,
    /// Files of patches somebody wrote.
    pub patches: Vec<String>,
}

impl Share {
    fn new(name: &str) -> Self {
        let empty = tree::map::<&str>([]);
        Self {
            name: name.to_owned(),
            settings: Vec::new(),
            legacy: empty,
            documents: Vec::new(),
            patches: Vec::new(),
        }
    }

    /// The text of the patch made of fields, if there are any.
    pub(super) fn patch(&self) -> Option<String> {
        let legacy = tree::entries(&self.legacy).next().map(|_| &self.legacy);
        let texts: Vec<String> = legacy.into_iter().chain(&self.documents).map(talmox_yaml::print).collect();
        (!texts.is_empty()).then(|| texts.join("---\n"))
    }
}

/// Everything that comes of a `talconfig.yaml`.
pub(super) struct Draft<'a> {
    around: &'a dyn Surroundings,
    problems: &'a mut Vec<Problem>,
    pub fields: Vec<Field>,
    /// Keys of `cluster.yaml`.
    pub cluster: Vec<(String, Node)>,
    shares: Vec<Share>,
    pub files: Vec<(String, String)>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(
        around: &'a dyn Surroundings,
        problems: &'a mut Vec<Problem>,
        nodes: impl Iterator<Item = String>,
    ) -> Self {
        let mut shares = vec![Share::new("cluster"), Share::new("control-planes"), Share::new("workers")];
        shares.extend(nodes.map(|name| Share::new(&name)));
        Self { around, problems, fields: Vec::new(), cluster: Vec::new(), shares, files: Vec::new() }
    }

    pub(super) fn share(&mut self, whom: Whom) -> &mut Share {
        let index = match whom {
            Whom::Everyone => 0,
            Whom::ControlPlanes => 1,
            Whom::Workers => 2,
            Whom::Node(position) => 3 + position,
        };
        &mut self.shares[index]
    }

    pub(super) fn report(&mut self, path: impl Into<String>, verdict: Verdict, note: impl Into<String>) {
        self.fields.push(Field { path: path.into(), verdict, note: note.into() });
    }

    pub(super) fn honoured(&mut self, path: impl Into<String>, key: &str) {
        self.report(path, Verdict::Honoured, key);
    }

    pub(super) fn translated(&mut self, path: impl Into<String>, note: impl Into<String>) {
        self.report(path, Verdict::Translated, note);
    }

    pub(super) fn unsupported(&mut self, path: impl Into<String>, note: impl Into<String>) {
        self.report(path, Verdict::Unsupported, note);
    }

    /// A key of `cluster.yaml`.
    pub(super) fn cluster_key(&mut self, key: &str, value: Node) {
        self.cluster.push((key.to_owned(), value));
    }

    /// A setting of everybody a place is for.
    pub(super) fn setting(&mut self, place: &Place, key: &str, value: &Node) {
        for whom in &place.whom {
            self.share(*whom).settings.push((key.to_owned(), value.clone()));
        }
    }

    /// A field of the document with `machine` and `cluster`, as part of a patch.
    pub(super) fn legacy(&mut self, place: &Place, path: &[&str], value: &Node) {
        for whom in &place.whom {
            insert(&mut self.share(*whom).legacy, path, value.clone());
        }
        self.translated(place.path.as_str(), format!("patch of {}", path.join(".")));
    }

    /// Documents, as part of a patch.
    pub(super) fn documents(&mut self, place: &Place, kind: &str, documents: &[Node]) {
        for whom in &place.whom {
            self.share(*whom).documents.extend(documents.iter().cloned());
        }
        self.translated(place.path.as_str(), format!("patch with {kind}"));
    }

    /// A text with its variables replaced: keys of a description have none.
    pub(super) fn text(&mut self, at: &At<Text>) -> Option<String> {
        self.substituted(&at.value.0, at.location)
    }

    pub(super) fn texts(&mut self, list: &[At<Text>]) -> Vec<String> {
        list.iter().filter_map(|item| self.text(item)).collect()
    }

    pub(super) fn substituted(&mut self, text: &str, location: Location) -> Option<String> {
        match variables::substitute(text, &|name| self.around.variable(name)) {
            Ok(text) => Some(text),
            Err(name) => {
                self.problems.push(
                    Problem::error(Code::InvalidValue, format!("the variable {name} is not set"))
                        .at(location, "stands for nothing")
                        .hint(format!(
                            "give --variable {name}=VALUE, set TALMOX_VAR_{name} in the environment, or add {name} to the \
                             talenv.yaml beside this file"
                        )),
                );
                None
            }
        }
    }

    /// The text of a file beside `talconfig.yaml`.
    pub(super) fn file(&mut self, name: &str, location: Location) -> Option<String> {
        match self.around.file(name) {
            Ok(text) => Some(text),
            Err(reason) => {
                self.problems.push(
                    Problem::error(Code::FileMissing, format!("could not read {name}: {reason}"))
                        .at(location, "named here")
                        .hint("paths are relative to the folder of talconfig.yaml"),
                );
                None
            }
        }
    }

    /// Keeps a text as a file of its own, under a name no other has.
    pub(super) fn keep(&mut self, name: &str, text: String) -> String {
        let taken = |path: &str, files: &[(String, String)]| {
            files.iter().any(|(known, content)| known == path && *content != text)
        };
        let stem = name.trim_end_matches(".yaml").trim_end_matches(".yml");
        let mut path = format!("patches/{stem}.yaml");
        let mut number = 2;
        while taken(&path, &self.files) {
            path = format!("patches/{stem}-{number}.yaml");
            number += 1;
        }
        if !self.files.iter().any(|(known, _)| *known == path) {
            self.files.push((path.clone(), text));
        }
        path
    }
}

/// Sets a value deep in a mapping; where there is one already, lists are joined.
fn insert(root: &mut Node, path: &[&str], value: Node) {
    let NodeKind::Mapping(entries) = &mut root.kind else { return };
    let Some((first, rest)) = path.split_first() else { return };
    let known = entries.iter().position(|entry| entry.key.as_scalar().is_some_and(|key| key.text == *first));
    let index = known.unwrap_or_else(|| {
        entries.push(Entry { key: tree::text(first), value: tree::map::<&str>([]) });
        entries.len() - 1
    });
    let slot = &mut entries[index].value;
    if !rest.is_empty() {
        insert(slot, rest, value);
    } else if let (NodeKind::Sequence(items), NodeKind::Sequence(more)) = (&mut slot.kind, &value.kind) {
        items.extend(more.iter().cloned());
    } else {
        *slot = value;
    }
}
