//! From tree to text, laid out as SOPS does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talmox_yaml::Style;

use super::scalar;
use super::tree::{Comment, Data, Entry, Mapping, Part, Scalar, Value};

/// Blanks of a level.
const INDENT: usize = 4;

pub(super) fn print(documents: &[Mapping]) -> String {
    let mut out = String::new();
    for (index, document) in documents.iter().enumerate() {
        if index > 0 {
            out.push_str("---\n");
        }
        if document.iter().all(|part| matches!(part, Part::Comment(_))) {
            write_comments(&mut out, document, 0);
            out.push_str("{}\n");
        } else {
            write_mapping(&mut out, document, 0, false);
        }
    }
    out
}

fn write_comments<T>(out: &mut String, parts: &[Part<T>], indent: usize) {
    for part in parts {
        if let Part::Comment(comment) = part {
            write_comment(out, comment, indent);
        }
    }
}

fn write_comment(out: &mut String, comment: &Comment, indent: usize) {
    for line in comment.text.split(['\n', '\r']) {
        push_blanks(out, indent);
        out.push('#');
        out.push_str(line);
        out.push('\n');
    }
}

/// Comments that go on the line of the member they stand before.
struct Beside<'a>(Vec<&'a Comment>);

impl<'a> Beside<'a> {
    /// Writes those of a line of their own now, and keeps the others if there is one line for one of them.
    fn take(&mut self, out: &mut String, comment: &'a Comment, indent: usize) {
        if comment.inline && self.0.is_empty() && !comment.text.contains(['\n', '\r']) {
            self.0.push(comment);
        } else {
            write_comment(out, comment, indent);
        }
    }

    /// A collection or a text of many lines has no room beside it.
    fn write_before(&mut self, out: &mut String, value: &Value, indent: usize) {
        let one_line = match value {
            Value::Scalar(scalar) => !scalar_text(scalar, 0).contains('\n'),
            Value::Mapping(_) | Value::Sequence(_) => false,
        };
        if !one_line {
            for comment in self.0.drain(..) {
                write_comment(out, comment, indent);
            }
        }
    }

    fn write_behind(&mut self, out: &mut String) {
        for comment in self.0.drain(..) {
            if out.ends_with('\n') {
                out.pop();
            }
            out.push_str(" #");
            out.push_str(&comment.text);
            out.push('\n');
        }
    }

    fn write_rest(&mut self, out: &mut String, indent: usize) {
        for comment in self.0.drain(..) {
            write_comment(out, comment, indent);
        }
    }
}

/// `begun`: the first member goes on the line that is open.
fn write_mapping(out: &mut String, mapping: &Mapping, indent: usize, mut begun: bool) {
    let mut beside = Beside(Vec::new());
    for part in mapping {
        match part {
            Part::Comment(comment) => beside.take(out, comment, indent),
            Part::Member(Entry { key, value }) => {
                beside.write_before(out, value, indent);
                if !std::mem::take(&mut begun) {
                    push_blanks(out, indent);
                }
                out.push_str(&one_line(key));
                out.push(':');
                write_value(out, value, indent + INDENT);
                beside.write_behind(out);
            }
        }
    }
    beside.write_rest(out, indent);
}

fn write_sequence(out: &mut String, sequence: &[Part<Value>], indent: usize) {
    let mut beside = Beside(Vec::new());
    for part in sequence {
        match part {
            Part::Comment(comment) => beside.take(out, comment, indent),
            Part::Member(value) => {
                beside.write_before(out, value, indent);
                push_blanks(out, indent);
                out.push('-');
                match value {
                    Value::Mapping(mapping) if matches!(mapping.first(), Some(Part::Member(_))) => {
                        out.push(' ');
                        write_mapping(out, mapping, indent + 2, true);
                    }
                    Value::Mapping(_) | Value::Sequence(_) | Value::Scalar(_) => {
                        write_value(out, value, indent + 2);
                    }
                }
                beside.write_behind(out);
            }
        }
    }
    beside.write_rest(out, indent);
}

/// What follows `key:` or `-`, with the line feed at its end.
fn write_value(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Scalar(scalar) => {
            let text = scalar_text(scalar, indent);
            if !text.is_empty() {
                out.push(' ');
                out.push_str(&text);
            }
            if !out.ends_with('\n') {
                out.push('\n');
            }
        }
        Value::Mapping(mapping) => {
            let empty = !mapping.iter().any(|part| matches!(part, Part::Member(_)));
            out.push_str(if empty { " {}\n" } else { "\n" });
            write_mapping(out, mapping, indent, false);
        }
        Value::Sequence(sequence) => {
            let empty = !sequence.iter().any(|part| matches!(part, Part::Member(_)));
            out.push_str(if empty { " []\n" } else { "\n" });
            write_sequence(out, sequence, indent);
        }
    }
}

/// A scalar as text: as it was written, where that is known.
fn scalar_text(scalar: &Scalar, indent: usize) -> String {
    if let Some((text, style)) = &scalar.written {
        return match style {
            Style::Plain if !text.contains('\n') => text.clone(),
            Style::Block if fits_block(text) => block(text, indent),
            Style::Plain | Style::Quoted | Style::Block => quoted(text),
        };
    }
    match &scalar.data {
        Data::Null => "null".to_owned(),
        Data::Text(text) if text.contains('\n') && fits_block(text) => block(text, indent),
        Data::Text(text) => one_line(text),
        Data::Bytes(bytes) => format!("!!binary {}", STANDARD.encode(bytes)),
        Data::Integer(number) => number.to_string(),
        Data::Float(number) if number.is_nan() => ".nan".to_owned(),
        Data::Float(number) if number.is_infinite() => {
            if *number > 0.0 {
                ".inf".to_owned()
            } else {
                "-.inf".to_owned()
            }
        }
        // With a fraction or an exponent, so that it stays what it is.
        Data::Float(number) => format!("{number:?}"),
        Data::Bool(value) => value.to_string(),
        Data::Time(text) => text.clone(),
    }
}

/// A text on one line, in quotes where it needs them.
pub(super) fn one_line(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Whether a text needs no quotes, to any reader of YAML old or new.
fn is_plain(text: &str) -> bool {
    const OLD_BOOLEANS: [&str; 8] = ["y", "n", "yes", "no", "on", "off", "true", "false"];
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '/');
    let allowed = |c: char| c.is_ascii_alphanumeric() || " _./:,=+-[]@%()".contains(c);
    starts
        && text.chars().all(allowed)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !OLD_BOOLEANS.contains(&text.to_ascii_lowercase().as_str())
        && matches!(scalar::plain(text), Ok(Data::Text(_)))
}

/// A literal block can hold any text of printable lines that does not begin with a blank.
fn fits_block(text: &str) -> bool {
    let printable =
        text.chars().all(|c| c == '\n' || !(c.is_control() || "\u{85}\u{2028}\u{2029}\u{feff}".contains(c)));
    let body = text.trim_end_matches('\n');
    let lines_fit = body.split('\n').all(|line| line.is_empty() || !line.trim_start_matches(' ').is_empty());
    printable
        && lines_fit
        && !body.is_empty()
        && !text.starts_with([' ', '\n', '\t'])
        && text.len() - body.len() <= 1
}

fn block(text: &str, indent: usize) -> String {
    let mut out = String::from(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.trim_end_matches('\n').split('\n') {
        if !line.is_empty() {
            push_blanks(&mut out, indent.max(2));
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // Everything YAML might not print or might take for a line break.
            c if c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c) => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c if (c as u32) & 0xfffe == 0xfffe => out.push_str(&format!("\\U{:08x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn push_blanks(out: &mut String, count: usize) {
    out.extend(std::iter::repeat_n(' ', count));
}
