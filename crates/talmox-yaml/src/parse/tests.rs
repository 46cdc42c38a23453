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
    assert!(matches!(
        only_fault(&format!("{}{}", "[".repeat(200), "]".repeat(200))),
        FaultKind::Limit(Limit::Depth)
    ));
    assert!(matches!(only_fault("a: &x [*x]\n"), FaultKind::AliasKnot));
}

#[test]
fn an_alias_bomb_is_stopped_by_its_size() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let refs = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(text, "a{level}: &a{level} [{refs}]").unwrap();
    }
    assert_eq!(only_fault(&text), FaultKind::Limit(Limit::AliasNodes));
}

#[test]
fn large_mappings_find_duplicates_too() {
    let mut text = String::new();
    for key in (0..100).chain([42]) {
        writeln!(text, "k{key}: 1").unwrap();
    }
    assert!(matches!(only_fault(&text), FaultKind::DuplicateKey { key, .. } if key == "k42"));
}

#[test]
fn aliases_find_values_wherever_they_are() {
    let text = "&k key: &v [1, &i 2, {&n name: &d {e: &t x}}]\nagain: [*k , *v , *i , *n , *d , *t ]\n*k : 1\n&p pending: *p\n";
    let parsed = parse(text);
    let kinds: Vec<&FaultKind> = parsed.faults.iter().map(|fault| &fault.kind).collect();
    assert!(matches!(kinds[..], [FaultKind::DuplicateKey { .. }]), "{kinds:?}");
    let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
    let NodeKind::Sequence(items) = &entries[1].value.kind else { panic!("a sequence") };
    let text_of = |node: &Node| node.as_scalar().map(|scalar| scalar.text.clone());
    assert_eq!(text_of(&items[0]).as_deref(), Some("key"));
    assert_eq!(items[1].kind, entries[0].value.kind);
    assert_eq!(text_of(&items[2]).as_deref(), Some("2"));
    assert_eq!(text_of(&items[3]).as_deref(), Some("name"));
    assert!(matches!(&items[4].kind, NodeKind::Mapping(entries) if entries.len() == 1));
    assert_eq!(text_of(&items[5]).as_deref(), Some("x"));
    assert_eq!(text_of(&entries[3].value).as_deref(), Some("pending"));
}

#[test]
fn an_anchor_belongs_to_one_document_and_the_last_of_a_name_counts() {
    let parsed = parse("a: &x 1\nb: &x 2\nc: *x\n---\nd: *x\n");
    assert!(matches!(&parsed.faults[..], [Fault { kind: FaultKind::UnknownAlias(_), .. }]));
    let NodeKind::Mapping(entries) = &parsed.documents[0].kind else { panic!("a mapping") };
    assert_eq!(entries[2].value.as_scalar().unwrap().text, "2");
}

/// Bytes a tree takes beside its root: what collections and texts have allocated.
fn heap(node: &Node) -> usize {
    node.tag.as_ref().map_or(0, String::capacity)
        + match &node.kind {
            NodeKind::Scalar(scalar) => scalar.text.capacity(),
            NodeKind::Sequence(items) => list(items),
            NodeKind::Mapping(entries) => entry_list(entries),
        }
}

fn list(items: &Vec<Node>) -> usize {
    items.capacity() * size_of::<Node>() + items.iter().map(heap).sum::<usize>()
}

fn entry_list(entries: &Vec<Entry>) -> usize {
    let inside: usize = entries.iter().map(|entry| heap(&entry.key) + heap(&entry.value)).sum();
    entries.capacity() * size_of::<Entry>() + inside
}

impl Builder {
    /// Bytes that are allocated now.
    fn heap(&self) -> usize {
        let open = self.open.iter().map(|open| match open {
            Open::Sequence { items, .. } => list(items),
            Open::Mapping { entries, key, .. } => entry_list(entries) + key.as_ref().map_or(0, heap),
        });
        open.sum::<usize>() + list(&self.documents) + self.anchors.bytes()
    }
}

/// What stops a text, and the most that was allocated on the way, counted now and then.
fn peak(text: &str) -> (Option<FaultKind>, usize) {
    let mut builder = Builder::default();
    let mut most = 0;
    for (number, next) in Parser::new_from_str(text).enumerate() {
        let (event, span) = next.unwrap();
        let stopped = builder.take(event, convert(span));
        if stopped || number.is_power_of_two() || number % 100_000 == 0 {
            most = most.max(builder.heap());
        }
        if stopped {
            break;
        }
    }
    (builder.faults.pop().map(|fault| fault.kind), most.max(builder.heap()))
}

const MIB: usize = 1 << 20;

#[test]
fn a_long_text_cannot_be_repeated_for_ever() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a , ".repeat(20_000));
    let (fault, most) = peak(&text);
    assert_eq!(fault, Some(FaultKind::Limit(Limit::AddedBytes)));
    assert!(most < 20 * MIB, "{most}");
}

#[test]
fn nested_anchors_are_not_copied() {
    let (inner, depth) = (format!("[{}]", "x, ".repeat(130_000)), 60);
    let anchors: String = (0..depth).map(|level| format!("&a{level} [")).collect();
    let text = format!("{anchors}{inner}{}\n", "]".repeat(depth));
    let (fault, most) = peak(&text);
    assert_eq!(fault, None);
    assert!(most < 40 * MIB, "{most}");
}

#[test]
fn a_list_of_many_values_is_stopped() {
    for item in ["- a\n", "- {a: }\n"] {
        let (fault, most) = peak(&item.repeat(MAX_NODES + 1));
        assert_eq!(fault, Some(FaultKind::Limit(Limit::Nodes)), "{item}");
        assert!(most < 200 * MIB, "{item}: {most}");
    }
}

#[test]
fn anchors_and_the_names_of_tags_are_counted() {
    let (fault, _) = peak(&"- &a x\n".repeat(MAX_ANCHORS + 1));
    assert_eq!(fault, Some(FaultKind::Limit(Limit::Anchors)));
    let text = format!("%TAG !e! {}\n---\n{}", "x".repeat(900), "- !e!a 1\n".repeat(20_000));
    let (fault, most) = peak(&text);
    assert_eq!(fault, Some(FaultKind::Limit(Limit::AddedBytes)));
    assert!(most < 20 * MIB, "{most}");
}

#[test]
fn a_limit_is_told_with_its_place() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(MAX_ADDED_BYTES / 2), "*a, ".repeat(3));
    let parsed = parse(&text);
    let fault = parsed.faults.first().unwrap();
    let third = text.rfind("*a").unwrap();
    assert_eq!(fault.span.start as usize, third);
    let FaultKind::Limit(limit) = fault.kind else { panic!("{:?}", fault.kind) };
    assert_eq!(limit.to_string(), "aliases and tags add more than 16 MiB of text");
}
