//! Parts of foreign files that are carried as they are, and trees to be written.

use talmox_config::read::{Reading, Shape, Value};
use talmox_yaml::{Entry, Node, NodeKind, PlainMeaning, Scalar, Span, Style};

/// Anything, read later or carried on.
#[derive(Clone, Debug)]
pub struct Tree(pub Node);

impl Value for Tree {
    fn read(node: &Node, _: &mut Reading<'_>) -> Option<Self> {
        Some(Self(node.clone()))
    }

    fn shape() -> Shape {
        Shape::Any
    }

    fn show(&self) -> String {
        "…".to_owned()
    }
}

fn node(kind: NodeKind) -> Node {
    Node { kind, span: Span::default(), alias: None, tag: None }
}

/// Text, in quotes where a reader might take it for something else.
pub(crate) fn text(text: impl AsRef<str>) -> Node {
    let text = text.as_ref().to_owned();
    let plain = Scalar { text: text.clone(), style: Style::Plain };
    let harmless = |c: char| c.is_ascii_alphanumeric() || "._-/:=,@+".contains(c);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/');
    let is_plain = begins_well
        && text.chars().all(harmless)
        && !text.ends_with(':')
        && plain.meaning() == PlainMeaning::Text;
    let style = match text.contains('\n') {
        true => Style::Block,
        false if is_plain => Style::Plain,
        false => Style::Quoted,
    };
    node(NodeKind::Scalar(Scalar { text, style }))
}

/// A number or a truth value.
pub(crate) fn plain(value: &impl ToString) -> Node {
    node(NodeKind::Scalar(Scalar { text: value.to_string(), style: Style::Plain }))
}

pub(crate) fn list(items: impl IntoIterator<Item = Node>) -> Node {
    node(NodeKind::Sequence(items.into_iter().collect()))
}

pub(crate) fn map<K: AsRef<str>>(entries: impl IntoIterator<Item = (K, Node)>) -> Node {
    let entries = entries.into_iter().map(|(key, value)| Entry { key: text(key), value });
    node(NodeKind::Mapping(entries.collect()))
}

/// The value of a key.
pub(crate) fn get<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let NodeKind::Mapping(entries) = &node.kind else { return None };
    let entry = entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|found| found.text == key))?;
    (!entry.value.is_null()).then_some(&entry.value)
}

/// The text of a key's value.
pub(crate) fn get_text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    Some(get(node, key)?.as_scalar()?.text.as_str())
}

/// Keys and values of a mapping; nothing of anything else.
pub(crate) fn entries(node: &Node) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match &node.kind {
        NodeKind::Mapping(entries) => entries.as_slice(),
        NodeKind::Scalar(_) | NodeKind::Sequence(_) => &[],
    };
    entries.iter().filter_map(|entry| Some((entry.key.as_scalar()?.text.as_str(), &entry.value)))
}

/// Elements of a list; nothing of anything else.
pub(crate) fn items(node: &Node) -> &[Node] {
    match &node.kind {
        NodeKind::Sequence(items) => items,
        NodeKind::Scalar(_) | NodeKind::Mapping(_) => &[],
    }
}

/// Whether two trees say the same, wherever they stand.
pub(crate) fn same(one: &Node, other: &Node) -> bool {
    talmox_yaml::print(one) == talmox_yaml::print(other)
}
