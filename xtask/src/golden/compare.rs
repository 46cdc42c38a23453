//! Configs are compared by meaning: document by document, in order, null the same as absent.

use talmox_machine::{Source, Value, read_values};

/// What differs between two configs.
pub(crate) fn configs(expected: &str, found: &str) -> anyhow::Result<Vec<String>> {
    let expected = read_values(Source { name: "expected", text: expected })?;
    let found = read_values(Source { name: "found", text: found })?;
    let mut differences = Vec::new();
    if expected.len() != found.len() {
        differences.push(format!("{} documents expected, {} found", expected.len(), found.len()));
    }
    for (index, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let name = document_name(expected, index);
        values(&expected.without_nulls(), &found.without_nulls(), &name, &mut differences);
    }
    Ok(differences)
}

fn document_name(document: &Value, index: usize) -> String {
    let kind = document.at(&["kind"]).and_then(Value::as_text);
    kind.map_or_else(|| format!("document {}", index + 1), str::to_owned)
}

fn values(expected: &Value, found: &Value, path: &str, differences: &mut Vec<String>) {
    match (expected, found) {
        (Value::Map(expected), Value::Map(found)) => {
            for (key, value) in expected.iter() {
                let path = format!("{path}.{key}");
                match found.get(key) {
                    Some(other) => values(value, other, &path, differences),
                    None => differences.push(format!("{path} is missing")),
                }
            }
            let extra = found.keys().filter(|key| !expected.contains(key));
            differences.extend(extra.map(|key| format!("{path}.{key} is too much")));
        }
        (Value::List(expected), Value::List(found)) => {
            if expected.len() != found.len() {
                differences.push(format!("{path} has {} items, not {}", found.len(), expected.len()));
            }
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                values(expected, found, &format!("{path}[{index}]"), differences);
            }
        }
        (expected, found) if expected == found => {}
        // Values may be secrets: the place and the kinds say enough.
        (expected, found) => {
            differences.push(format!(
                "{path} differs ({} expected, {} found)",
                expected.kind(),
                found.kind()
            ));
        }
    }
}
