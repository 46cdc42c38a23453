//! Falsifies the schema in one place at a time: the comparison must see it.

use std::path::Path;

use serde_json::{Value, json};

use super::generate::cases;
use super::schema::Schema;
use super::send::Server;
use super::{Report, ask};

/// Changes a parameter's schema, if it is one the change is about.
type Change = fn(&mut Value) -> bool;

const CHANGES: [(&str, Change); 7] = [
    ("needed or not", |prop| {
        let optional = prop["optional"] == 1;
        prop["optional"] = json!(u8::from(!optional));
        true
    }),
    ("type", |prop| {
        let free = ["format", "enum", "pattern"].iter().all(|key| prop.get(*key).is_none());
        let other = if prop["type"] == "string" { "integer" } else { "string" };
        free && prop["type"] != "array" && {
            prop["type"] = json!(other);
            true
        }
    }),
    ("least", |prop| shift(prop, "minimum", 1)),
    ("most", |prop| shift(prop, "maximum", -1)),
    ("length", |prop| shift(prop, "maxLength", -1)),
    ("enumeration", |prop| {
        prop.get_mut("enum").and_then(Value::as_array_mut).is_some_and(|list| list.pop().is_some())
    }),
    ("key of a property string", |prop| {
        let keys = prop.get_mut("format").and_then(Value::as_object_mut);
        let added = json!({"type": "string", "optional": 1});
        keys.is_some_and(|keys| keys.insert("invented".into(), added).is_none())
    }),
];

/// Moves a bound that decides: a format of its own would decide before.
fn shift(prop: &mut Value, key: &str, by: i64) -> bool {
    let Some(bound) = prop[key].as_i64().filter(|_| prop.get("format").is_none()) else { return false };
    prop[key] = json!(bound + by);
    true
}

/// Falsifies every n-th place of the endpoints with few parameters; gives how many, and those nobody saw.
pub fn unseen_falsehoods(folder: &Path, every: usize) -> anyhow::Result<(usize, Vec<String>)> {
    /// Endpoints with more take too long to be asked again for each of their parameters.
    const FEW: usize = 30;
    let schema = Schema::read(folder)?;
    let server = Server::start()?;
    let (mut places, mut tried, mut unseen) = (0, 0, Vec::new());
    for talmox_sim::Endpoint { method, path, .. } in talmox_sim::endpoints() {
        let (method, path) = (method.as_str(), path.as_str());
        let names = schema.parameters(method, path);
        for name in names.iter().filter(|name| names.len() <= FEW && !path.contains(&format!("{{{name}}}"))) {
            for (what, change) in CHANGES {
                let Some(false_schema) = schema.falsified(method, path, name, change) else { continue };
                places += 1;
                if places % every != 0 {
                    continue;
                }
                tried += 1;
                let mut report = Report::default();
                for endpoint in false_schema.endpoints(method, path)? {
                    for case in cases(&endpoint) {
                        ask(&server, &endpoint, &case, &mut report);
                    }
                }
                if report.disagreements.is_empty() {
                    unseen.push(format!("{method} {path} {name}: {what}"));
                }
            }
        }
    }
    Ok((tried, unseen))
}
