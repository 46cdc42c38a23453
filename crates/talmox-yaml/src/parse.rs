//! From text to tree.

use std::collections::{BTreeMap, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, Span as ParserSpan};

use crate::{Entry, Fault, FaultKind, Node, NodeKind, Scalar, Span, Style};

/// How many nodes aliases may add to a text. A description uses a handful of anchors; a bomb passes this within
/// microseconds, long before it can fill the memory.
pub const MAX_ALIAS_NODES: usize = 100_000;

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
    let line = text.as_bytes()[line_start..].split(|b| *b == b'\n').next().unwrap_or_default();
    let indent = line.iter().take_while(|b| b.is_ascii_whitespace()).count();
    let tab = line[..indent].iter().position(|b| *b == b'\t');
    let (kind, start) = match tab {
        Some(column) => (FaultKind::Tab, line_start + column),
        None => (FaultKind::Syntax(words), at),
    };
    let start = u32::try_from(start).unwrap_or(u32::MAX);
    Fault { kind, span: Span { start, end: start + 1 } }
}

/// A collection that is still open.
enum Open {
    Sequence { items: Vec<Node>, start: Span, anchor: usize, tag: Option<String> },
    Mapping { entries: Vec<Entry>, key: Option<Node>, start: Span, anchor: usize, tag: Option<String> },
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: BTreeMap<usize, Node>,
    alias_nodes: usize,
    documents: Vec<Node>,
    faults: Vec<Fault>,
}

impl Builder {
    /// Takes one event; true if parsing is to stop.
    fn take(&mut self, event: Event<'_>, span: Span) -> bool {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
                };
                let kind = NodeKind::Scalar(Scalar { text: text.into_owned(), style });
                self.close(kind, span, anchor, tag.map(|tag| tag.to_string()));
            }
            Event::SequenceStart(_, anchor, tag) => {
                let tag = tag.map(|tag| tag.to_string());
                self.open.push(Open::Sequence { items: Vec::new(), start: span, anchor, tag });
                return self.too_deep(span);
            }
            Event::MappingStart(_, anchor, tag) => {
                let tag = tag.map(|tag| tag.to_string());
                self.open.push(Open::Mapping { entries: Vec::new(), key: None, start: span, anchor, tag });
                return self.too_deep(span);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end_collection(span),
            Event::Alias(id) => return self.alias(id, span),
            Event::UnresolvedAlias(name) => {
                self.faults.push(Fault { kind: FaultKind::UnknownAlias(name.into_owned()), span });
                let text = String::new();
                self.put(scalar_node(text, span));
            }
            // Marks of streams and documents, and kinds of presentation a later parser may add: no nodes.
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd | _ => {}
        }
        false
    }

    fn too_deep(&mut self, span: Span) -> bool {
        let deep = self.open.len() > MAX_DEPTH;
        if deep {
            self.faults.push(Fault { kind: FaultKind::TooDeep, span });
        }
        deep
    }

    fn end_collection(&mut self, end: Span) {
        let (kind, start, anchor, tag) = match self.open.pop() {
            Some(Open::Sequence { items, start, anchor, tag }) => {
                (NodeKind::Sequence(items), start, anchor, tag)
            }
            Some(Open::Mapping { entries, start, anchor, tag, .. }) => {
                self.faults.extend(duplicates(&entries));
                (NodeKind::Mapping(entries), start, anchor, tag)
            }
            None => return,
        };
        let span = Span { start: start.start, end: end.end.max(start.end) };
        self.close(kind, span, anchor, tag);
    }

    /// Finishes a node: remembers it if it is anchored, and puts it where it belongs.
    fn close(&mut self, kind: NodeKind, span: Span, anchor: usize, tag: Option<String>) {
        let node = Node { kind, span, alias: None, tag };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        self.put(node);
    }

    fn alias(&mut self, id: usize, span: Span) -> bool {
        // An alias inside its own anchor has no finished node yet: it can only be a knot.
        let Some(target) = self.anchors.get(&id) else {
            self.faults.push(Fault { kind: FaultKind::AliasBomb, span });
            return true;
        };
        self.alias_nodes += size(target);
        if self.alias_nodes > MAX_ALIAS_NODES || self.open.len() + depth(target) > MAX_DEPTH {
            self.faults.push(Fault { kind: FaultKind::AliasBomb, span });
            return true;
        }
        let node = Node { alias: Some(span), ..target.clone() };
        self.put(node);
        false
    }

    fn put(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.documents.push(node),
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

fn scalar_node(text: String, span: Span) -> Node {
    Node { kind: NodeKind::Scalar(Scalar { text, style: Style::Quoted }), span, alias: None, tag: None }
}

fn size(node: &Node) -> usize {
    1 + match &node.kind {
        NodeKind::Scalar(_) => 0,
        NodeKind::Sequence(items) => items.iter().map(size).sum(),
        NodeKind::Mapping(entries) => entries.iter().map(|e| size(&e.key) + size(&e.value)).sum(),
    }
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
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn only_fault(text: &str) -> FaultKind {
        let mut parsed = parse(text);
        assert_eq!(parsed.faults.len(), 1, "{:?}", parsed.faults);
        parsed.faults.remove(0).kind
    }

    #[test]
    fn text_and_place_are_kept() {
        let text = "a: 0755\nb: [no, \"1.10\"]\n";
        let parsed = parse(text);
        assert!(parsed.faults.is_empty());
        let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
        let value = &entries[0].value;
        assert_eq!(value.as_scalar().unwrap().text, "0755");
        assert_eq!(&text[value.span.start as usize..value.span.end as usize], "0755");
        let NodeKind::Sequence(items) = &entries[1].value.kind else { panic!("a sequence") };
        assert_eq!(items[1].as_scalar().unwrap().style, Style::Quoted);
    }

    #[test]
    fn places_count_bytes_not_characters() {
        let text = "# größer\nä: ö\n";
        let parsed = parse(text);
        let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
        let span = entries[0].value.span;
        assert_eq!(&text[span.start as usize..span.end as usize], "ö");
    }

    #[test]
    fn an_alias_knows_both_places() {
        let parsed = parse("a: &x 7\nb: *x\n");
        let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
        assert_eq!(entries[1].value.span, entries[0].value.span);
        assert_eq!(entries[1].value.place(), Span { start: 11, end: 13 });
    }

    #[test]
    fn faults_are_told_apart() {
        assert!(matches!(only_fault("a:\n\tb: 1\n"), FaultKind::Tab));
        assert!(matches!(only_fault("a: [1\n"), FaultKind::Syntax(_)));
        assert!(matches!(only_fault("a: 1\na: 2\n"), FaultKind::DuplicateKey { .. }));
        assert!(matches!(only_fault("a: *nowhere\n"), FaultKind::UnknownAlias(_)));
        assert!(matches!(only_fault("? [a]\n: 1\n"), FaultKind::ComplexKey));
        assert!(matches!(only_fault(&format!("{}{}", "[".repeat(200), "]".repeat(200))), FaultKind::TooDeep));
        assert!(matches!(only_fault("a: &x [*x]\n"), FaultKind::AliasBomb));
    }

    #[test]
    fn an_alias_bomb_is_stopped_by_its_size() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let refs = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{refs}]").unwrap();
        }
        assert!(matches!(only_fault(&text), FaultKind::AliasBomb));
    }

    #[test]
    fn large_mappings_find_duplicates_too() {
        let mut text = String::new();
        for key in (0..100).chain([42]) {
            writeln!(text, "k{key}: 1").unwrap();
        }
        assert!(matches!(only_fault(&text), FaultKind::DuplicateKey { key, .. } if key == "k42"));
    }
}
