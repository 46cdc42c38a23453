//! A patch that is parsed and not yet understood: texts may still be put into its scalars.
//!
//! Whatever is put in, the shape stays: a scalar never becomes a mapping, a list, an anchor or a comment, and a key never becomes
//! a merge key.

use std::collections::BTreeSet;

use talmox_yaml::{Entry, Node, NodeKind, Scalar, Span, Style};

use super::{Change, Patch, json, read_parts};
use crate::document::{free, parse_nodes};
use crate::fault::{Fault, Faults, Path, Source, Trail};
use crate::resolve;
use crate::value::Value;

/// The documents of a patch. They may hold secrets, so there is no `Debug`.
#[derive(Clone)]
pub struct Tree {
    name: String,
    /// As it was written: places are told by it.
    text: String,
    nodes: Vec<Node>,
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    Plain,
    Single,
    Double,
    Block,
}

/// A scalar, and where it is.
#[derive(Clone, Copy)]
pub struct Leaf<'a> {
    /// What is written, escapes resolved.
    pub text: &'a str,
    pub quoting: Quoting,
    source: Source<'a>,
    span: Span,
}

impl Leaf<'_> {
    /// The line it is on, counted from 1.
    pub fn line(&self) -> usize {
        self.source.place(self.span, &Path::default()).line
    }
}

/// What takes the place of a scalar.
pub enum Filling {
    /// Text, whatever it looks like.
    Text(String),
    /// A number, a boolean or nothing if YAML reads a plain scalar like that as one, else text. In a key it is always text.
    Typed(String),
}

impl Tree {
    pub fn parse(source: Source<'_>) -> Result<Self, Faults> {
        Self::parse_as(source, source.text)
    }

    /// Parses another text than the one places are told by. Each of its lines has as many bytes as the one it stands for.
    pub fn parse_as(source: Source<'_>, parsed: &str) -> Result<Self, Faults> {
        let nodes = parse_nodes(Source { name: source.name, text: parsed })?;
        Ok(Self { name: source.name.to_owned(), text: source.text.to_owned(), nodes })
    }

    /// Asks for every scalar, keys included, what takes its place. Two keys of a mapping that become the same are a fault.
    pub fn fill(&mut self, filling: &mut dyn FnMut(Leaf<'_>) -> Option<Filling>) -> Result<(), Faults> {
        let Self { name, text, nodes } = self;
        let mut walk = Walk { source: Source { name, text }, filling, faults: Vec::new() };
        for node in nodes {
            walk.node(node, &Trail::default());
        }
        if walk.faults.is_empty() { Ok(()) } else { Err(Faults(walk.faults)) }
    }

    /// The documents as values, without knowing what they are.
    pub fn values(&self) -> Vec<Value> {
        self.nodes.iter().map(free).collect()
    }

    /// Understands it: documents, in which `$patch: delete` is allowed, or a list of JSON patch operations.
    pub fn read(self) -> Result<Patch, Faults> {
        let Self { name, text, nodes } = self;
        let source = Source { name: &name, text: &text };
        let change = match nodes.as_slice() {
            [node] if matches!(node.kind, NodeKind::Sequence(_)) => {
                Change::Json(json::read_operations(source, node)?)
            }
            nodes => Change::Documents(read_parts(source, nodes)?),
        };
        Ok(Patch { name, text, nodes, change })
    }
}

struct Walk<'a> {
    source: Source<'a>,
    filling: &'a mut dyn FnMut(Leaf<'_>) -> Option<Filling>,
    faults: Vec<Fault>,
}

impl Walk<'_> {
    fn node(&mut self, node: &mut Node, path: &Trail<'_>) {
        match &mut node.kind {
            NodeKind::Scalar(_) => {
                self.scalar(node, false);
            }
            NodeKind::Sequence(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, &path.item(index));
                }
            }
            NodeKind::Mapping(entries) => self.mapping(entries, path),
        }
    }

    fn mapping(&mut self, entries: &mut [Entry], path: &Trail<'_>) {
        let mut filled = false;
        for entry in entries.iter_mut() {
            filled |= self.scalar(&mut entry.key, true);
            let key = entry.key.as_scalar().map(|key| key.text.clone()).unwrap_or_default();
            self.node(&mut entry.value, &path.key(&key));
        }
        if filled {
            self.refuse_duplicates(entries, path);
        }
    }

    /// The parser saw only what the keys were before. The fault does not name the key: it may be a secret.
    fn refuse_duplicates(&mut self, entries: &[Entry], path: &Trail<'_>) {
        let mut seen = BTreeSet::new();
        for key in entries.iter().map(|entry| &entry.key) {
            let is_new = key.as_scalar().is_none_or(|scalar| seen.insert(scalar.text.as_str()));
            if !is_new {
                let place = self.source.place(key.place(), &path.to_path());
                let message = "two keys are the same once their variables are replaced".to_owned();
                self.faults.push(Fault { place, message });
            }
        }
    }

    /// Whether something took the scalar's place.
    fn scalar(&mut self, node: &mut Node, is_key: bool) -> bool {
        let (span, start) = (node.place(), node.span.start as usize);
        let NodeKind::Scalar(scalar) = &mut node.kind else { return false };
        let quoting = match scalar.style {
            Style::Plain => Quoting::Plain,
            Style::Block => Quoting::Block,
            Style::Quoted if self.source.text.as_bytes().get(start) == Some(&b'\'') => Quoting::Single,
            Style::Quoted => Quoting::Double,
        };
        let leaf = Leaf { text: &scalar.text, quoting, source: self.source, span };
        let Some(filling) = (self.filling)(leaf) else { return false };
        *scalar = match filling {
            Filling::Typed(text) if !is_key && !matches!(resolve::plain(text.trim()), Value::Text(_)) => {
                Scalar { text: text.trim().to_owned(), style: Style::Plain }
            }
            Filling::Typed(text) | Filling::Text(text) => Scalar { text, style: Style::Quoted },
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, with: &str) -> Result<Vec<Value>, Faults> {
        let mut tree = Tree::parse(Source { name: "p", text })?;
        tree.fill(&mut |leaf| match (leaf.text, leaf.quoting) {
            ("X", Quoting::Plain) => Some(Filling::Typed(with.to_owned())),
            ("X", _) => Some(Filling::Text(with.to_owned())),
            _ => None,
        })?;
        Ok(tree.values())
    }

    fn value(text: &str, with: &str) -> Value {
        filled(text, with).unwrap()[0].at(&["a"]).unwrap().clone()
    }

    #[test]
    fn a_plain_scalar_takes_the_type_of_its_text_and_never_another_shape() {
        assert!(value("a: X\n", "8080") == Value::Integer(8080));
        assert!(value("a: X\n", "8080\n") == Value::Integer(8080));
        assert!(value("a: X\n", "true") == Value::Bool(true));
        assert!(value("a: X\n", "null") == Value::Null);
        assert!(value("a: \"X\"\n", "8080") == Value::text("8080"));
        assert!(value("a: 'X'\n", "true") == Value::text("true"));
        assert!(value("a: !!str X\n", "8080") == Value::text("8080"));
        for text in
            ["{a: 1}", "[1]", "user: value", "- x", "&a b", "*a", "!!int 1", "b # c", "|\n x", "\"8\"", "<<"]
        {
            assert!(value("a: X\n", text) == Value::text(text), "{text}");
        }
    }

    #[test]
    fn a_key_is_text_and_two_that_become_the_same_are_refused() {
        let values = filled("a: {X: 1}\nb: &m {c: 1}\n", "<<").unwrap();
        assert_eq!(values[0].at(&["a", "<<"]).and_then(Value::as_integer), Some(1));
        let faults = filled("d:\n  hush-hush: 1\n  X: 2\n", "hush-hush").unwrap_err().to_string();
        assert!(faults.starts_with("p:3:3: d: two keys"), "{faults}");
        assert!(!faults.contains("hush-hush"), "{faults}");
    }
}
