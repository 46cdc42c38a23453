//! From tree to text.

use std::fmt::Write as _;

use crate::{Node, NodeKind, Scalar, Style};

/// Prints a node in block style. What it says is unchanged: plain scalars stay plain, quoted ones stay quoted,
/// aliases are written out, explicit tags are kept.
pub fn print(node: &Node) -> String {
    let mut text = String::new();
    match &node.kind {
        NodeKind::Scalar(scalar) => {
            write_scalar(&mut text, node, scalar, 0);
            text.push('\n');
        }
        NodeKind::Sequence(_) | NodeKind::Mapping(_) => write_collection(&mut text, node, 0),
    }
    text
}

fn write_collection(out: &mut String, node: &Node, indent: usize) {
    match &node.kind {
        NodeKind::Scalar(_) => {}
        NodeKind::Sequence(items) => {
            for item in items {
                push_indent(out, indent);
                out.push('-');
                write_item(out, item, indent + 2);
            }
        }
        NodeKind::Mapping(entries) => {
            for entry in entries {
                push_indent(out, indent);
                if let Some(key) = entry.key.as_scalar() {
                    write_scalar(out, &entry.key, key, indent);
                }
                out.push(':');
                write_value(out, &entry.value, indent + 2);
            }
        }
    }
}

/// What follows `-`: a collection begins on the same line.
fn write_item(out: &mut String, node: &Node, indent: usize) {
    let mut inner = String::new();
    if node.tag.is_none() {
        write_collection(&mut inner, node, indent);
    }
    if inner.is_empty() {
        write_value(out, node, indent);
    } else {
        out.push(' ');
        out.push_str(&inner[indent..]);
    }
}

/// What follows `-` or `key:`, with the line feed at its end.
fn write_value(out: &mut String, node: &Node, indent: usize) {
    if let Some(tag) = &node.tag
        && node.as_scalar().is_none()
    {
        let _ = write!(out, " {tag}");
    }
    match &node.kind {
        NodeKind::Scalar(scalar) => {
            if !(scalar.text.is_empty() && scalar.style == Style::Plain) || node.tag.is_some() {
                out.push(' ');
                write_scalar(out, node, scalar, indent);
            }
            if !out.ends_with('\n') {
                out.push('\n');
            }
        }
        NodeKind::Sequence(items) if items.is_empty() => out.push_str(" []\n"),
        NodeKind::Mapping(entries) if entries.is_empty() => out.push_str(" {}\n"),
        NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
            out.push('\n');
            write_collection(out, node, indent);
        }
    }
}

fn write_scalar(out: &mut String, node: &Node, scalar: &Scalar, indent: usize) {
    if let Some(tag) = &node.tag {
        let _ = write!(out, "{tag} ");
    }
    match scalar.style {
        Style::Plain if !scalar.text.contains('\n') => out.push_str(&scalar.text),
        Style::Block if fits_block(&scalar.text) => write_block(out, &scalar.text, indent),
        Style::Plain | Style::Quoted | Style::Block => write_quoted(out, &scalar.text),
    }
}

/// A literal block can hold any text of printable lines that does not begin with a blank.
fn fits_block(text: &str) -> bool {
    let printable = text.chars().all(|c| c == '\n' || !c.is_control());
    let body = text.trim_end_matches('\n');
    printable && !body.is_empty() && !text.starts_with([' ', '\n']) && text.len() - body.len() <= 1
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.trim_end_matches('\n').split('\n') {
        if !line.is_empty() {
            push_indent(out, indent.max(2));
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn write_quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Everything YAML might not print or might take for a line break.
            c if c.is_control() || ['\u{2028}', '\u{2029}', '\u{feff}', '\u{85}'].contains(&c) => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use crate::{Entry, Node, NodeKind, Span, parse, print};

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

    #[test]
    fn what_is_printed_says_the_same() {
        for text in [
            "a: 0755\nb: [no, \"1.10\", 'it''s']\n",
            "machine:\n  files:\n    - content: |\n        one\n\n        two\n      path: /x\n",
            "- - 1\n  - {a: b, c: []}\n- {}\n-\n- \"\"\n",
            "x: \"a\\tb\\n\\\"c\\u2028\"\ny: |-\n  text\nz: >\n  folded\n  text\n",
            "s: &a {k: v}\nt: *a\n",
            "k: !custom value\nm: !map {a: 1}\n",
            "key: plain over\n  two lines\n",
        ] {
            let first = parse(text);
            assert!(first.faults.is_empty(), "{text}: {:?}", first.faults);
            let printed = print(&first.documents[0]);
            let second = parse(&printed);
            assert!(second.faults.is_empty(), "{printed}: {:?}", second.faults);
            assert_eq!(bare(&first.documents[0]), bare(&second.documents[0]), "{printed}");
        }
    }
}
