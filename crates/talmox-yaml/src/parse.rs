//! From text to tree.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span as ParserSpan};

use crate::anchors::{Anchors, Children, entry_child};
use crate::{Entry, Fault, FaultKind, Limit, Node, NodeKind, Scalar, Span, Style};

/// How many nodes a text may have, those of its aliases included. A description of ten thousand nodes has a quarter of it. A node
/// takes about a hundred bytes, and may be written in two.
pub const MAX_NODES: usize = 1_000_000;

/// How many nodes aliases may add to a text. A description uses a handful of anchors; a bomb passes this within
/// microseconds, long before it can fill the memory.
pub const MAX_ALIAS_NODES: usize = 100_000;

/// How many bytes of text aliases may repeat, and tags may be long by their full names: both can be written much shorter.
pub const MAX_ADDED_BYTES: usize = 16 << 20;

/// How many anchors a text may have.
pub const MAX_ANCHORS: usize = 10_000;

/// How deep a text may nest. Machine configuration reaches about fifteen; the tree is walked by recursion, so the
/// limit also keeps the stack safe.
pub const MAX_DEPTH: usize = 64;

/// Mappings up to this size look for duplicate keys by comparing; larger ones by hashing.
const SMALL_MAPPING: usize = 16;

/// The documents of a text, and what is wrong with it. With a syntax fault there are only the documents before it.
#[derive(Debug, Default)]
pub struct Parsed {
    pub documents: Vec<Node>,
    pub faults: Vec<Fault>,
}

/// Parses a text of at most 4 GiB.
pub fn parse(text: &str) -> Parsed {
    let mut builder = Builder::default();
    let options = granit_parser::options! { emit_unresolved_aliases: true, emit_comments: false };
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => {
                let stop = builder.take(event, convert(span));
                if stop {
                    break;
                }
            }
            Err(error) => {
                builder.faults.push(syntax_fault(text, error.marker().byte_offset(), error.info()));
                break;
            }
        }
    }
    Parsed { documents: builder.documents, faults: builder.faults }
}

pub(crate) fn convert(span: ParserSpan) -> Span {
    let offset = |marker: &granit_parser::Marker| {
        u32::try_from(marker.byte_offset().unwrap_or_default()).unwrap_or(u32::MAX)
    };
    Span { start: offset(&span.start), end: offset(&span.end) }
}

/// A tab before the first other character of a line is by far the most frequent reason a file cannot be read, and
/// parsers call it many things.
fn syntax_fault(text: &str, offset: Option<usize>, words: String) -> Fault {
    let at = offset.unwrap_or(text.len()).min(text.len());
    let line_start = text.as_bytes()[..at].iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    // One behind a value is met where the value ends, on the line before.
    let next_start = text.as_bytes()[at..].iter().position(|b| *b == b'\n').map(|length| at + length + 1);
    let tab = indenting_tab(text, line_start).or_else(|| indenting_tab(text, next_start?));
    let (kind, start) = match tab {
        Some(place) => (FaultKind::Tab, place),
        None => (FaultKind::Syntax(words), at),
    };
    let start = u32::try_from(start).unwrap_or(u32::MAX);
    Fault { kind, span: Span { start, end: start + 1 } }
}

/// Where a line that begins here has a tab before its first other character.
fn indenting_tab(text: &str, line_start: usize) -> Option<usize> {
    let line = text.as_bytes()[line_start..].split(|b| *b == b'\n').next().unwrap_or_default();
    let indent = line.iter().take_while(|b| b.is_ascii_whitespace()).count();
    line[..indent].iter().position(|b| *b == b'\t').map(|column| line_start + column)
}

/// A collection that is still open.
enum Open {
    Sequence { items: Vec<Node>, start: Span, anchor: usize, tag: Option<String> },
    Mapping { entries: Vec<Entry>, key: Option<Node>, start: Span, anchor: usize, tag: Option<String> },
}

impl Children for Open {
    fn next(&self) -> u32 {
        let next = match self {
            Self::Sequence { items, .. } => items.len(),
            Self::Mapping { entries, key, .. } => 2 * entries.len() + usize::from(key.is_some()),
        };
        // There are never more than MAX_NODES.
        u32::try_from(next).unwrap_or(u32::MAX)
    }

    fn child(&self, place: u32) -> Option<&Node> {
        match self {
            Self::Sequence { items, .. } => items.get(place as usize),
            Self::Mapping { entries, key, .. } if place as usize == 2 * entries.len() => key.as_ref(),
            Self::Mapping { entries, .. } => entry_child(entries, place),
        }
    }
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: Anchors,
    counts: Counts,
    documents: Vec<Node>,
    faults: Vec<Fault>,
}

/// What was read so far of everything that is limited.
#[derive(Default)]
struct Counts {
    nodes: usize,
    anchors: usize,
    alias_nodes: usize,
    added_bytes: usize,
}

impl Counts {
    /// Counts a node that is written here.
    fn node(&mut self, anchor: usize, tag: Option<&String>) -> Result<(), Limit> {
        self.nodes += 1;
        self.anchors += usize::from(anchor != 0);
        self.added_bytes += tag.map_or(0, String::len);
        self.judge()
    }

    /// Counts what an alias adds, up to the first that is too much.
    fn copy(&mut self, node: &Node) -> Result<(), Limit> {
        self.nodes += 1;
        self.alias_nodes += 1;
        self.added_bytes += node.tag.as_ref().map_or(0, String::len);
        if let NodeKind::Scalar(scalar) = &node.kind {
            self.added_bytes += scalar.text.len();
        }
        self.judge()?;
        match &node.kind {
            NodeKind::Scalar(_) => Ok(()),
            NodeKind::Sequence(items) => items.iter().try_for_each(|item| self.copy(item)),
            NodeKind::Mapping(entries) => entries.iter().try_for_each(|entry| {
                self.copy(&entry.key)?;
                self.copy(&entry.value)
            }),
        }
    }

    fn judge(&self) -> Result<(), Limit> {
        let limits = [
            (self.nodes, MAX_NODES, Limit::Nodes),
            (self.anchors, MAX_ANCHORS, Limit::Anchors),
            (self.alias_nodes, MAX_ALIAS_NODES, Limit::AliasNodes),
            (self.added_bytes, MAX_ADDED_BYTES, Limit::AddedBytes),
        ];
        limits.into_iter().find(|(count, most, _)| count > most).map_or(Ok(()), |(.., limit)| Err(limit))
    }
}

impl Builder {
    /// Takes one event; true if parsing is to stop.
    fn take(&mut self, event: Event<'_>, span: Span) -> bool {
        let taken = self.try_take(event, span);
        if let Err(kind) = taken {
            self.faults.push(Fault { kind, span });
            return true;
        }
        false
    }

    /// The error is what parsing stops for.
    fn try_take(&mut self, event: Event<'_>, span: Span) -> Result<(), FaultKind> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.map(|tag| full_name(&tag));
                self.counts.node(anchor, tag.as_ref()).map_err(FaultKind::Limit)?;
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                let kind = NodeKind::Scalar(Scalar { text: text.into_owned(), style });
                self.close(kind, span, anchor, tag);
            }
            Event::SequenceStart(_, anchor, tag) => {
                let tag = tag.map(|tag| full_name(&tag));
                self.counts.node(anchor, tag.as_ref()).map_err(FaultKind::Limit)?;
                self.begin(Open::Sequence { items: Vec::new(), start: span, anchor, tag })?;
            }
            Event::MappingStart(_, anchor, tag) => {
                let tag = tag.map(|tag| full_name(&tag));
                self.counts.node(anchor, tag.as_ref()).map_err(FaultKind::Limit)?;
                self.begin(Open::Mapping { entries: Vec::new(), key: None, start: span, anchor, tag })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.end_collection(span),
            Event::Alias(id) => self.alias(id, span)?,
            Event::UnresolvedAlias(name) => {
                self.counts.node(0, None).map_err(FaultKind::Limit)?;
                self.faults.push(Fault { kind: FaultKind::UnknownAlias(name.into_owned()), span });
                let text = String::new();
                self.put(scalar_node(text, span));
            }
            // Marks of streams and documents, and kinds of presentation a later parser may add: no nodes.
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd | _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, collection: Open) -> Result<(), FaultKind> {
        self.open.push(collection);
        if self.open.len() > MAX_DEPTH { Err(FaultKind::Limit(Limit::Depth)) } else { Ok(()) }
    }

    fn end_collection(&mut self, end: Span) {
        let (kind, start, anchor, tag) = match self.open.pop() {
            Some(Open::Sequence { mut items, start, anchor, tag }) => {
                items.shrink_to_fit();
                (NodeKind::Sequence(items), start, anchor, tag)
            }
            Some(Open::Mapping { mut entries, start, anchor, tag, .. }) => {
                entries.shrink_to_fit();
                self.faults.extend(duplicates(&entries));
                (NodeKind::Mapping(entries), start, anchor, tag)
            }
            None => return,
        };
        let span = Span { start: start.start, end: end.end.max(start.end) };
        self.close(kind, span, anchor, tag);
    }

    /// Finishes a node: remembers where it is if it is anchored, and puts it where it belongs.
    fn close(&mut self, kind: NodeKind, span: Span, anchor: usize, tag: Option<String>) {
        if anchor != 0 {
            self.anchors.insert(anchor, &self.open);
        }
        self.put(Node { kind, span, alias: None, tag });
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<(), FaultKind> {
        let Some(target) = self.anchors.find(id, &self.open) else { return Err(FaultKind::AliasKnot) };
        self.counts.copy(target).map_err(FaultKind::Limit)?;
        if self.open.len() + depth(target) > MAX_DEPTH {
            return Err(FaultKind::Limit(Limit::Depth));
        }
        let node = Node { alias: Some(span), ..target.clone() };
        self.put(node);
        Ok(())
    }

    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            None => {
                self.documents.push(node);
                self.anchors.clear();
            }
            Some(Open::Sequence { items, .. }) => items.push(node),
            Some(Open::Mapping { entries, key, .. }) => match key.take() {
                Some(key) => entries.push(Entry { key, value: node }),
                None if node.as_scalar().is_some() => *key = Some(node),
                None => {
                    self.faults.push(Fault { kind: FaultKind::ComplexKey, span: node.place() });
                    *key = Some(scalar_node(String::new(), node.place()));
                }
            },
        }
    }
}

/// Without the room that writing it part by part leaves.
fn full_name(tag: &granit_parser::Tag) -> String {
    let mut name = tag.to_string();
    name.shrink_to_fit();
    name
}

fn scalar_node(text: String, span: Span) -> Node {
    Node { kind: NodeKind::Scalar(Scalar { text, style: Style::Quoted }), span, alias: None, tag: None }
}

fn depth(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::Scalar(_) => 0,
        NodeKind::Sequence(items) => items.iter().map(depth).max().unwrap_or_default(),
        NodeKind::Mapping(entries) => entries.iter().map(|e| depth(&e.value)).max().unwrap_or_default(),
    }
}

fn duplicates(entries: &[Entry]) -> Vec<Fault> {
    let keys = entries.iter().filter_map(|entry| Some((entry.key.as_scalar()?.text.as_str(), &entry.key)));
    let fault = |key: &str, node: &Node, first: Span| Fault {
        kind: FaultKind::DuplicateKey { key: key.to_owned(), first },
        span: node.place(),
    };
    let mut faults = Vec::new();
    if entries.len() <= SMALL_MAPPING {
        let mut seen: Vec<(&str, Span)> = Vec::with_capacity(entries.len());
        for (key, node) in keys {
            match seen.iter().find(|(known, _)| *known == key) {
                Some((_, first)) => faults.push(fault(key, node, *first)),
                None => seen.push((key, node.place())),
            }
        }
    } else {
        let mut seen: HashMap<&str, Span> = HashMap::with_capacity(entries.len());
        for (key, node) in keys {
            match seen.get(key) {
                Some(first) => faults.push(fault(key, node, *first)),
                None => {
                    seen.insert(key, node.place());
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests;
