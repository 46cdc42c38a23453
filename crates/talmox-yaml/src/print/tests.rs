use proptest::prelude::*;

use crate::{Entry, Node, NodeKind, Scalar, Span, Style, parse, print};

/// The same tree without places, so that two texts can be compared by what they say.
fn bare(node: &Node) -> Node {
    let kind = match &node.kind {
        NodeKind::Scalar(scalar) => NodeKind::Scalar(scalar.clone()),
        NodeKind::Sequence(items) => NodeKind::Sequence(items.iter().map(bare).collect()),
        NodeKind::Mapping(entries) => NodeKind::Mapping(
            entries.iter().map(|e| Entry { key: bare(&e.key), value: bare(&e.value) }).collect(),
        ),
    };
    Node { kind, span: Span::default(), alias: None, tag: node.tag.clone() }
}

/// Prints a tree, reads the text and compares: text, tag and style of everything.
fn comes_back(node: &Node) -> String {
    let printed = print(node);
    let again = parse(&printed);
    assert!(again.faults.is_empty(), "{printed:?}: {:?}", again.faults);
    assert_eq!(again.documents.len(), 1, "{printed:?}");
    assert_eq!(bare(node), bare(&again.documents[0]), "{printed:?}");
    printed
}

#[test]
fn what_is_printed_says_the_same() {
    for text in [
        "a: 0755\nb: [no, \"1.10\", 'it''s']\n",
        "machine:\n  files:\n    - content: |\n        one\n\n        two\n      path: /x\n",
        "- - 1\n  - {a: b, c: []}\n- {}\n-\n- \"\"\n",
        "x: \"a\\tb\\n\\\"c\\u2028\\ufffe\"\ny: |-\n  text\nz: >\n  folded\n  text\n",
        "s: &a {k: v}\nt: *a\n",
        "k: !custom value\nm: !map {a: 1}\n",
        "key: plain over\n  two lines\n\n  and a third\n",
        // Tags: short, long, local, of a handle, without a text, of keys and collections, and of the whole.
        "a: !!str 1\nb: !!binary aGk=\nc: ! 7\nd: !!null\n!!str e: !<tag:x.org,2024:y> 1\n",
        "a: !!str 1\nb: !!seq [!!int 1]\nc: !!map {}\n",
        "%TAG !e! tag:example.org,2024:\n---\na: !e!thing 1\nb: !e!a%20b%E2%82%AC 2\nc: !<!a!b> 3\n",
        "!!map\na: 1\n",
        "!!str\n",
        "! [1, 2]\n",
        "- !x\n  a: 1\n- !y\n  - 1\n",
        // Blocks that begin or end with blanks, and empty ones.
        "a: |2\n    indented\n  not\nb: |+\n  keeps\n\n\nc: |-\nd: |+\n\n\ne: |\n  \ttab\n",
        "- |2+\n\n    x\n\n- - |1\n   y\n",
        // Keys.
        "? |\n  of\n  lines\n: 1\n? plain\n\n  again\n: 2\n: 3\n",
        "{'': 3, --- b: 2, ...: 1}\n",
        "{a:: 1}\n",
        ":: 1\n",
        "a:: 1\n? 'b:'\n: 2\n",
        // Whole texts.
        "[]\n",
        "{}\n",
        "---\n",
        "|2\n   a\n",
    ] {
        let first = parse(text);
        assert!(first.faults.is_empty(), "{text}: {:?}", first.faults);
        comes_back(&first.documents[0]);
    }
}

#[test]
fn a_long_key_is_found_again() {
    for length in [1_000, 1_001, 5_000] {
        let text = format!("? {}\n: 1\n", "k".repeat(length));
        comes_back(&parse(&text).documents[0]);
    }
}

#[test]
fn tags_are_printed_short_where_that_is_the_same() {
    let text = "a: !!str 1\nb: !local 1\nc: !<tag:x,1:y> 1\nd: ! 1\n";
    assert_eq!(print(&parse(text).documents[0]), text);
}

#[test]
fn every_part_of_a_tree_can_be_printed_alone() {
    let parsed = parse("a: ---\nb: '%x'\nc: ... x\nd: [--- e]\n");
    let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
    for entry in entries {
        comes_back(&entry.value);
    }
}

fn node(kind: NodeKind, tag: Option<String>) -> Node {
    Node { kind, span: Span::default(), alias: None, tag }
}

fn tag() -> impl Strategy<Value = Option<String>> {
    let drawn = prop_oneof![
        Just("!".to_owned()),
        Just("tag:yaml.org,2002:str".to_owned()),
        "tag:yaml.org,2002:[a-z#!,é ]{0,6}",
        "![a-zA-Z0-9!.,/% é\\[-]{0,8}",
        "[a-z]{1,3}:[ -~é]{0,8}",
    ];
    prop_oneof![3 => Just(None), 2 => drawn.prop_map(Some)]
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        "([a-z0-9~.-][a-z0-9:#,\\[?-]{0,6}[a-z0-9])?".prop_map(|text| Scalar { text, style: Style::Plain }),
        "[a-z]{1,3} [a-z]{1,3}(\n{1,3}[a-z]{1,3}){0,2}".prop_map(|text| Scalar { text, style: Style::Plain }),
        any::<String>().prop_map(|text| Scalar { text, style: Style::Quoted }),
        "[ \ta-z#:\"'|>é\n-]{0,12}".prop_map(|text| Scalar { text, style: Style::Block }),
    ]
}

fn tree() -> impl Strategy<Value = Node> {
    let leaf = (scalar(), tag()).prop_map(|(mut scalar, tag)| {
        // Without a tag, nothing is read as `~`.
        if scalar.style == Style::Plain && scalar.text.is_empty() && tag.is_none() {
            "~".clone_into(&mut scalar.text);
        }
        node(NodeKind::Scalar(scalar), tag)
    });
    let leaf = leaf.boxed();
    let key = leaf.clone();
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let items = prop::collection::vec(inner.clone(), 0..5);
        let entries = prop::collection::vec((key.clone(), inner), 0..5);
        prop_oneof![
            (items, tag()).prop_map(|(items, tag)| node(NodeKind::Sequence(items), tag)),
            (entries, tag()).prop_map(|(entries, tag)| {
                let mut seen = std::collections::HashSet::new();
                let entries = entries.into_iter().map(|(key, value)| Entry { key, value });
                let unique = entries.filter(|e| seen.insert(e.key.as_scalar().unwrap().text.clone()));
                node(NodeKind::Mapping(unique.collect()), tag)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tree_comes_back(tree in tree()) {
        comes_back(&tree);
    }
}
