//! From values to YAML, byte for byte as Talos prints it: four blanks, dashes below their key, no wrapping.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is no collection with something in it is written on its line"
)]

use std::fmt::Write as _;

use crate::resolve;
use crate::value::Value;
use crate::view::View;

const INDENT: usize = 4;

/// Prints a value as one document.
pub fn print(value: &Value) -> String {
    let mut text = String::new();
    print_to(&mut text, &View::of(value));
    text
}

/// Adds a document to a text.
pub(crate) fn print_to(text: &mut String, view: &View<'_>) {
    match view {
        View::Map(entries) if !entries.is_empty() => write_map(text, entries, 0, false),
        View::List(items) if !items.is_empty() => write_list(text, items, 0),
        _ => {
            write_scalar(text, view, INDENT);
            text.push('\n');
        }
    }
}

/// How far what belongs to a key goes in: to the next multiple of four.
fn deeper(indent: usize) -> usize {
    (indent + INDENT) / INDENT * INDENT
}

/// The entries of a mapping; the first one follows a dash if `inline`.
fn write_map(out: &mut String, map: &[(&str, View<'_>)], indent: usize, inline: bool) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || !inline {
            push_indent(out, indent);
        }
        write_key(out, key);
        out.push(':');
        match value {
            View::Map(map) if !map.is_empty() => {
                out.push('\n');
                write_map(out, map, deeper(indent), false);
            }
            View::List(items) if !items.is_empty() => {
                out.push('\n');
                write_list(out, items, deeper(indent));
            }
            _ => {
                out.push(' ');
                write_scalar(out, value, deeper(indent));
                end_line(out);
            }
        }
    }
}

fn write_list(out: &mut String, items: &[View<'_>], indent: usize) {
    for item in items {
        push_indent(out, indent);
        write_item(out, item, indent);
    }
}

fn write_item(out: &mut String, item: &View<'_>, indent: usize) {
    out.push_str("- ");
    match item {
        View::Map(map) if !map.is_empty() => write_map(out, map, indent + 2, true),
        View::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    push_indent(out, indent + 2);
                }
                write_item(out, item, indent + 2);
            }
        }
        _ => {
            write_scalar(out, item, indent + 2);
            end_line(out);
        }
    }
}

fn write_key(out: &mut String, key: &str) {
    if key.contains('\n') || key.len() > 128 {
        write_double_quoted(out, key);
    } else {
        write_text(out, key, 0);
    }
}

fn write_scalar(out: &mut String, value: &View<'_>, indent: usize) {
    match value {
        View::Null => out.push_str("null"),
        View::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        View::Integer(value) => {
            let _ = write!(out, "{value}");
        }
        View::Octal(value) => {
            let _ = write!(out, "0o{value:o}");
        }
        View::Float(value) => out.push_str(&float(*value)),
        View::Text(text) => write_text(out, text, indent),
        View::List(_) => out.push_str("[]"),
        View::Map(_) => out.push_str("{}"),
    }
}

/// The shortest form that reads back as the same number, with an exponent where Go writes one.
fn float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        format!("{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{mantissa}e{sign}{:02}", exponent.abs())
    }
}

fn write_text(out: &mut String, text: &str, indent: usize) {
    // Most texts are names and base64.
    if is_simple(text) {
        out.push_str(text);
        return;
    }
    let looks = Looks::of(text);
    let other_type = !resolve::is_text(text)
        || resolve::old_bool(text).is_some()
        || resolve::is_base_60(text)
        || text == "<<"
        || is_date(text);
    if text.contains('\n') {
        if looks.block && indent > 0 {
            write_block(out, text, indent);
        } else {
            write_double_quoted(out, text);
        }
    } else if other_type || !looks.single_quoted {
        write_double_quoted(out, text);
    } else if looks.plain {
        out.push_str(text);
    } else {
        out.push('\'');
        out.push_str(&text.replace('\'', "''"));
        out.push('\'');
    }
}

/// Whether a text is plain to see as text: it begins with a letter, has nothing in it that means anything to YAML, and is too
/// long for a word that is a boolean or nothing.
fn is_simple(text: &str) -> bool {
    const LONGEST_WORD: usize = 5;
    text.len() > LONGEST_WORD
        && text.as_bytes()[0].is_ascii_alphabetic()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-._".contains(&byte))
}

/// A text another reader would take for a point in time: quoted, so that it stays text.
fn is_date(text: &str) -> bool {
    let digits = |part: &str, most: usize| {
        !part.is_empty() && part.len() <= most && part.bytes().all(|b| b.is_ascii_digit())
    };
    let mut parts = text.splitn(3, '-');
    let (Some(year), Some(month), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let day_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (day, time) = rest.split_at(day_end);
    let time_holds = time.is_empty()
        || time.starts_with(['T', 't', ' ']) && time[1..].starts_with(|c: char| c.is_ascii_digit());
    year.len() == 4 && digits(year, 4) && digits(month, 2) && digits(day, 2) && time_holds
}

/// In which styles a text can be written.
struct Looks {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Looks {
    fn of(text: &str) -> Self {
        let special = text.chars().any(is_special);
        let tab = text.contains('\t');
        let space_before_break = text.contains(" \n");
        let edge = text.starts_with([' ', '\n']) || text.ends_with([' ', '\n']);
        let plain =
            !text.is_empty() && !special && !tab && !edge && !text.contains('\n') && !has_indicator(text);
        Self {
            plain,
            single_quoted: !special && !tab && !text.contains('\n'),
            block: !special
                && !space_before_break
                && !text.ends_with(' ')
                && !text.starts_with([' ', '\n', '\t'])
                && !text.trim_end_matches('\n').is_empty(),
        }
    }
}

/// What YAML cannot hold as it is.
fn is_special(c: char) -> bool {
    let printable = matches!(c, '\n' | '\t' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && !['\u{feff}', '\u{2028}', '\u{2029}'].contains(&c);
    !printable
}

/// Whether a plain text would be taken for structure.
fn has_indicator(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut before_blank = true;
    let mut characters = text.chars().peekable();
    let mut first = true;
    while let Some(c) = characters.next() {
        let blank_follows = characters.peek().is_none_or(char::is_ascii_whitespace);
        let found = if first {
            "#,[]{}&*!|>'\"%@`".contains(c) || ("?:-".contains(c) && blank_follows)
        } else {
            (c == ':' && blank_follows) || (c == '#' && before_blank)
        };
        if found {
            return true;
        }
        before_blank = c.is_ascii_whitespace();
        first = false;
    }
    false
}

fn write_block(out: &mut String, text: &str, indent: usize) {
    let body = text.trim_end_matches('\n');
    let ends = text.len() - body.len();
    out.push_str(match ends {
        0 => "|-\n",
        1 => "|\n",
        _ => "|+\n",
    });
    for line in body.split('\n') {
        if !line.is_empty() {
            push_indent(out, indent);
            out.push_str(line);
        }
        out.push('\n');
    }
    out.extend(std::iter::repeat_n('\n', ends.saturating_sub(1)));
}

fn write_double_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\0"),
            c if is_special(c) && (c as u32) < 0x100 => out.push_str(&format!("\\x{:02X}", c as u32)),
            c if is_special(c) && (c as u32) < 0x1_0000 => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn end_line(out: &mut String) {
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Map;

    fn line(value: impl Into<Value>) -> String {
        print(&Value::Map(Map::new().with("k", value))).trim_end().to_owned()
    }

    #[test]
    fn texts_are_quoted_where_talos_quotes_them() {
        let table = [
            ("plain", "k: plain"),
            ("", "k: \"\""),
            ("off", "k: \"off\""),
            ("<<", "k: \"<<\""),
            ("1.10", "k: \"1.10\""),
            ("0755", "k: \"0755\""),
            ("12:30:45", "k: \"12:30:45\""),
            ("2020-01-01", "k: \"2020-01-01\""),
            ("a: b", "k: 'a: b'"),
            ("- x", "k: '- x'"),
            ("it's", "k: it's"),
            ("'it", "k: '''it'"),
            ("a #b", "k: 'a #b'"),
            ("a\tb", "k: \"a\\tb\""),
            ("disk.dev_path == \"/dev/sda\"", "k: disk.dev_path == \"/dev/sda\""),
            ("$(POD_IP):10249", "k: $(POD_IP):10249"),
            ("one\ntwo\n", "k: |\n    one\n    two"),
            ("one\ntwo", "k: |-\n    one\n    two"),
            (" one\ntwo", "k: \" one\\ntwo\""),
            ("\u{feff}x", "k: \"\\uFEFFx\""),
        ];
        for (text, expected) in table {
            assert_eq!(line(text), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_printed_as_go_does() {
        let table = [
            (1.5, "1.5"),
            (1e21, "1e+21"),
            (1e-7, "1e-07"),
            (1_000_000.0, "1e+06"),
            (123_456_789.5, "1.234567895e+08"),
            (1000.0, "1000"),
            (0.0, "0"),
        ];
        for (number, expected) in table {
            assert_eq!(float(number), expected);
        }
        assert_eq!(line(Value::Octal(0o644)), "k: 0o644");
    }

    #[test]
    fn nesting_goes_to_multiples_of_four() {
        let inner = Map::new().with("name", "key2").with("list", vec!["a"]);
        let value = Map::new().with("items", vec![Value::Map(inner), Value::from(vec!["x", "z"])]);
        let text = "items:\n    - name: key2\n      list:\n        - a\n    - - x\n      - z\n";
        assert_eq!(print(&Value::Map(value)), text);
    }
}
