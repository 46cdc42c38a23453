//! YAML: what is read is printed so that it reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use talmox_yaml::{Entry, Node, NodeKind, Span, comments, parse, print};

/// The same tree without places.
fn bare(node: &Node) -> Node {
    let kind = match &node.kind {
        NodeKind::Scalar(scalar) => NodeKind::Scalar(scalar.clone()),
        NodeKind::Sequence(items) => NodeKind::Sequence(items.iter().map(bare).collect()),
        NodeKind::Mapping(entries) => NodeKind::Mapping(
            entries.iter().map(|entry| Entry { key: bare(&entry.key), value: bare(&entry.value) }).collect(),
        ),
    };
    Node { kind, span: Span::default(), alias: None, tag: node.tag.clone() }
}

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = talmox_fuzz::text(bytes) else { return };
    comments(text);
    let parsed = parse(text);
    if !parsed.faults.is_empty() {
        return;
    }
    for document in &parsed.documents {
        let printed = print(document);
        let again = parse(&printed);
        assert!(again.faults.is_empty(), "{printed:?}: {:?}", again.faults);
        assert_eq!(again.documents.iter().map(bare).collect::<Vec<_>>(), [bare(document)], "{printed:?}");
    }
});
