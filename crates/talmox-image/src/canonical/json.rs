//! The same document as JSON, for sending.
//!
//! The canonical text is what is hashed, but the factory's own reader takes some of it wrongly (a block whose first line
//! begins with a blank). JSON is YAML too and says the same without leaving room: what could be mistaken is escaped.

use super::{Value, float};

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Integer(value) => out.push_str(&value.to_string()),
        Value::Float(value) => out.push_str(&float(*value)),
        Value::Text(value) => text(value, out),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { ", " });
                print(item, out);
            }
            out.push(']');
        }
        Value::Map(entries) => print_map(entries, out),
    }
}

pub(super) fn print_map(entries: &[(String, Value)], out: &mut String) {
    out.push('{');
    for (index, (key, value)) in entries.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        text(key, out);
        out.push_str(": ");
        print(value, out);
    }
    out.push('}');
}

fn text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            // Line breaks, controls, and what a YAML reader refuses or folds.
            '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
}
