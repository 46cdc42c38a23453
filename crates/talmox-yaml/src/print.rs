//! From tree to text.

use std::fmt::Write as _;

use crate::tag::write_tag;
use crate::{Entry, Node, NodeKind, Scalar, Style};

/// Columns a collection inside another one is indented by. Block scalars name it (`|2`) where their text begins with a blank.
const STEP: usize = 2;

/// The longest key on a line of its own. YAML readers look 1,024 characters ahead for the `:`; longer keys need `? `.
const LONGEST_SIMPLE_KEY: usize = 1_000;

/// Prints a node in block style, so that parsing the text gives the same tree: texts, tags and styles. Aliases are written out,
/// comments are not in the tree.
pub fn print(node: &Node) -> String {
    let mut text = String::new();
    match &node.kind {
        NodeKind::Scalar(scalar) => {
            let written = scalar_text(node, scalar, 0, Place::Value);
            match written.as_str() {
                "" => text.push_str("---"),
                marker if is_marker(marker) => text.push(' '),
                _ => {}
            }
            text.push_str(&written);
            if !text.ends_with('\n') {
                text.push('\n');
            }
        }
        NodeKind::Sequence(_) | NodeKind::Mapping(_) if is_empty(node) => {
            write_value(&mut text, node, 0);
            return text.split_off(1);
        }
        NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
            if let Some(tag) = &node.tag {
                write_tag(&mut text, tag);
                text.push('\n');
            }
            write_collection(&mut text, node, 0);
        }
    }
    text
}

fn is_empty(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Scalar(_) => false,
        NodeKind::Sequence(items) => items.is_empty(),
        NodeKind::Mapping(entries) => entries.is_empty(),
    }
}

/// Whether text at the start of a line could be read as a directive or as the border of a document.
fn is_marker(text: &str) -> bool {
    ["%", "---", "..."].iter().any(|marker| text.starts_with(marker))
}

fn write_collection(out: &mut String, node: &Node, indent: usize) {
    match &node.kind {
        NodeKind::Scalar(_) => {}
        NodeKind::Sequence(items) => {
            for item in items {
                push_indent(out, indent);
                out.push('-');
                write_item(out, item, indent + STEP);
            }
        }
        NodeKind::Mapping(entries) => {
            for Entry { key, value } in entries {
                push_indent(out, indent);
                write_key(out, key, indent);
                out.push(':');
                write_value(out, value, indent + STEP);
            }
        }
    }
}

/// Where a scalar stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Right before a `:`, so that it may end with another one.
    Key,
    Value,
}

/// A key up to its `:`. One that takes several lines, or is too long to be found as a key, needs `? ` before it.
fn write_key(out: &mut String, node: &Node, indent: usize) {
    let Some(scalar) = node.as_scalar() else { return };
    let written = scalar_text(node, scalar, indent + STEP, Place::Key);
    let is_simple = !written.contains('\n')
        && written.chars().count() <= LONGEST_SIMPLE_KEY
        && !(indent == 0 && is_marker(&written));
    if is_simple {
        out.push_str(&written);
        // A tag without a text must not run into the `:`.
        if scalar.text.is_empty() && scalar.style == Style::Plain && node.tag.is_some() {
            out.push(' ');
        }
        return;
    }
    out.push_str("? ");
    out.push_str(&scalar_text(node, scalar, indent + STEP, Place::Value));
    if !out.ends_with('\n') {
        out.push('\n');
    }
    push_indent(out, indent);
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
    if let NodeKind::Scalar(scalar) = &node.kind {
        let written = scalar_text(node, scalar, indent, Place::Value);
        if !written.is_empty() {
            out.push(' ');
            out.push_str(&written);
        }
        // A block scalar ends its last line itself.
        if written.is_empty() || !written.ends_with('\n') {
            out.push('\n');
        }
        return;
    }
    if let Some(tag) = &node.tag {
        out.push(' ');
        write_tag(out, tag);
    }
    match &node.kind {
        NodeKind::Sequence(items) if items.is_empty() => out.push_str(" []\n"),
        NodeKind::Mapping(entries) if entries.is_empty() => out.push_str(" {}\n"),
        NodeKind::Scalar(_) | NodeKind::Sequence(_) | NodeKind::Mapping(_) => {
            out.push('\n');
            write_collection(out, node, indent);
        }
    }
}

/// A scalar with its tag. Lines after the first are indented by `indent`, and by something even at the top.
fn scalar_text(node: &Node, scalar: &Scalar, indent: usize, place: Place) -> String {
    let mut out = String::new();
    if let Some(tag) = &node.tag {
        write_tag(&mut out, tag);
    }
    let is_nothing = scalar.style == Style::Plain && scalar.text.is_empty();
    if is_nothing {
        return out;
    }
    if node.tag.is_some() {
        out.push(' ');
    }
    let indent = indent.max(STEP);
    match scalar.style {
        Style::Plain if fits_plain(&scalar.text, place) => write_plain(&mut out, &scalar.text, indent),
        Style::Block if fits_block(&scalar.text) => write_block(&mut out, &scalar.text, indent),
        Style::Plain | Style::Quoted | Style::Block => write_quoted(&mut out, &scalar.text),
    }
    out
}

/// Whether a text can stand without quotes in a block. Every plain scalar of a text that was parsed can; a tree that was made by
/// hand may hold others.
fn fits_plain(text: &str, place: Place) -> bool {
    let first = text.chars().next().unwrap_or(' ');
    let after = if place == Place::Key { ':' } else { ' ' };
    let second = text.get(first.len_utf8()..).and_then(|rest| rest.chars().next()).unwrap_or(after);
    let begins_well = match first {
        '-' | '?' | ':' => !second.is_whitespace(),
        _ => !",[]{}#&*!|>'\"%@`".contains(first),
    };
    let is_line = |line: &str| {
        line.trim_matches([' ', '\t']).len() == line.len()
            && !line.starts_with('#')
            && (place == Place::Key || !line.ends_with(':'))
            && ![": ", ":\t", " #", "\t#"].iter().any(|sign| line.contains(sign))
            && line.chars().all(|c| c == '\t' || is_printable(c))
    };
    begins_well && !text.starts_with('\n') && !text.ends_with('\n') && text.split('\n').all(is_line)
}

/// Characters that need no escape, and that no reader takes for the end of a line.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !['\u{2028}', '\u{2029}', '\u{feff}', '\u{fffe}', '\u{ffff}'].contains(&character)
}

/// A line feed within a plain scalar is an empty line.
fn write_plain(out: &mut String, text: &str, indent: usize) {
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
            if line.is_empty() {
                continue;
            }
            out.push('\n');
            push_indent(out, indent);
        }
        out.push_str(line);
    }
}

/// A literal block can hold any text of printable lines.
fn fits_block(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || c == '\t' || is_printable(c))
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    let body = text.trim_end_matches('\n');
    let feeds = text.len() - body.len();
    out.push('|');
    // Without a number the first line would say how far the text is indented.
    if body.starts_with([' ', '\t', '\n']) {
        let _ = write!(out, "{STEP}");
    }
    match (feeds, body.is_empty()) {
        (0, _) => out.push('-'),
        (1, false) => {}
        _ => out.push('+'),
    }
    out.push('\n');
    if !body.is_empty() {
        for line in body.split('\n') {
            if !line.is_empty() {
                push_indent(out, indent);
                out.push_str(line);
            }
            out.push('\n');
        }
    }
    let ended = usize::from(!body.is_empty());
    out.extend(std::iter::repeat_n('\n', feeds.saturating_sub(ended)));
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
            c if is_printable(c) => out.push(c),
            c => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
        }
    }
    out.push('"');
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests;
