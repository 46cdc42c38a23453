//! YAML as Kubernetes' own programs read it: into JSON, with YAML 1.1's booleans and octal numbers.

use serde_json::{Map, Number, Value};
use talmox_yaml::{Entry, Node, NodeKind, PlainMeaning, Scalar, Style, parse};

/// A text that is no YAML, and where that shows. Nothing of the text is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no YAML")]
pub struct InvalidYaml {
    /// From 1.
    pub line: usize,
}

/// The documents of a text; empty ones are left out.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, InvalidYaml> {
    let parsed = parse(text);
    if let Some(fault) = parsed.faults.first() {
        let before = text.as_bytes().iter().take(fault.span.start as usize);
        return Err(InvalidYaml { line: 1 + before.filter(|byte| **byte == b'\n').count() });
    }
    Ok(parsed.documents.iter().map(value).filter(|value| !value.is_null()).collect())
}

fn value(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Scalar(text) if node.tag.as_deref().is_some_and(is_text_tag) => text.text.clone().into(),
        NodeKind::Scalar(text) => scalar(text),
        NodeKind::Sequence(items) => items.iter().map(value).collect(),
        NodeKind::Mapping(entries) => mapping(entries),
    }
}

fn is_text_tag(tag: &str) -> bool {
    matches!(tag, "!!str" | "tag:yaml.org,2002:str" | "!<tag:yaml.org,2002:str>" | "!")
}

fn mapping(entries: &[Entry]) -> Value {
    let mut map = Map::new();
    for Entry { key, value: node } in entries {
        let Some(name) = key.as_scalar() else { continue };
        if name.style == Style::Plain && name.text == "<<" {
            merge(&mut map, &value(node));
        } else {
            map.insert(name.text.clone(), value(node));
        }
    }
    Value::Object(map)
}

/// What a merge key brings stands behind what is written out.
fn merge(map: &mut Map<String, Value>, brought: &Value) {
    match brought {
        Value::Object(fields) => {
            for (name, value) in fields {
                map.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Value::Array(maps) => maps.iter().for_each(|one| merge(map, one)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn scalar(scalar: &Scalar) -> Value {
    let text = || Value::String(scalar.text.clone());
    match scalar.meaning() {
        PlainMeaning::Null => Value::Null,
        PlainMeaning::Bool(value) | PlainMeaning::OldBool(value) => Value::Bool(value),
        PlainMeaning::Integer(number) => number.into(),
        PlainMeaning::Float => {
            scalar.text.parse().ok().and_then(Number::from_f64).map_or_else(text, Value::Number)
        }
        PlainMeaning::OldOctal | PlainMeaning::OtherBase | PlainMeaning::OldUnderscore => {
            other_base(&scalar.text.replace('_', "")).map_or_else(text, Value::from)
        }
        PlainMeaning::OldSexagesimal | PlainMeaning::Text => text(),
    }
}

fn other_base(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = if let Some(hex) = digits.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if let Some(binary) = digits.strip_prefix("0b") {
        i64::from_str_radix(binary, 2)
    } else if let Some(octal) = digits.strip_prefix("0o") {
        i64::from_str_radix(octal, 8)
    } else if digits.len() > 1 && digits.starts_with('0') {
        i64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    number.ok().map(|number| sign * number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_mean_what_they_mean_to_kubernetes() {
        let text = "a: yes\nb: 0644\nc: '0644'\nd: 1.5\ne: 0x1F\nf: 10:20\ng: ~\nh: !!str 1\ni: 1_000\nj: 3\nk: 2006-01-02\n";
        let expected = r#"[{"a":true,"b":420,"c":"0644","d":1.5,"e":31,"f":"10:20","g":null,"h":"1","i":1000,"j":3,"k":"2006-01-02"}]"#;
        assert_eq!(serde_json::to_string(&documents(text).unwrap()).unwrap(), expected);
    }

    #[test]
    fn anchors_merges_and_empty_documents() {
        let text = "---\nbase: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\n---\n---\n# nothing\n---\n[1]\n";
        let expected = r#"[{"base":{"x":1,"y":2},"more":{"x":1,"y":3}},[1]]"#;
        assert_eq!(serde_json::to_string(&documents(text).unwrap()).unwrap(), expected);
    }

    #[test]
    fn a_fault_is_told_by_its_line() {
        assert_eq!(documents("a: 1\nb: [\n").unwrap_err().to_string(), "line 2 is no YAML");
    }
}
