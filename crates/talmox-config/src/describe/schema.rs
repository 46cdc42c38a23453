//! JSON Schema for editors.

use serde_json::{Map, Value as Json, json};

use crate::file::Cluster;
use crate::read::{Block, BlockInfo, KeyInfo, Shape};

/// Which file a schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// `cluster.yaml`: every key.
    Cluster,
    /// `nodes.yaml`: nodes and node pools.
    Nodes,
}

/// The schema of a file, in the draft every editor understands.
pub fn json_schema(kind: FileKind) -> Json {
    let mut info = Cluster::info().clone();
    let (title, open) = match kind {
        FileKind::Cluster => ("talmox cluster.yaml", true),
        FileKind::Nodes => {
            info.keys.retain(|key| ["nodes", "node_pools"].contains(&key.name));
            "The nodes of a cluster.".clone_into(&mut info.doc);
            ("talmox nodes.yaml", false)
        }
    };
    let mut schema = block(&info, false);
    if open {
        // Anchors may be kept under keys of one's own.
        schema["patternProperties"] = json!({ "^x-": {} });
        // Keys of cluster-template that other tools read: allowed, without a claim on what they hold.
        for key in crate::file::CLUSTER_TEMPLATE_KEYS {
            schema["properties"][key] = json!({ "description": "Left to other tools." });
        }
    }
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    schema["title"] = json!(title);
    schema
}

fn block(info: &BlockInfo, nested: bool) -> Json {
    let mut properties = Map::new();
    for key in &info.keys {
        properties.insert(key.name.to_owned(), property(key, None));
        for alias in &key.aliases {
            properties.insert((*alias).to_owned(), property(key, Some(key.name)));
        }
    }
    // Merge keys are YAML's, not ours, and editors check them as keys.
    if nested {
        properties.insert("<<".to_owned(), json!({}));
    }
    let required: Vec<&str> =
        info.keys.iter().filter(|key| key.doc.contains("Required.")).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": one_line(&info.doc),
        "properties": properties,
        "additionalProperties": false,
    });
    // A mapping that merges another one may have its required keys from there.
    if !required.is_empty() {
        schema["if"] = json!({ "not": { "required": ["<<"] } });
        schema["then"] = json!({ "required": required });
    }
    schema
}

fn property(key: &KeyInfo, alias_of: Option<&str>) -> Json {
    let mut schema = shape(&key.shape);
    let doc = one_line(&key.doc);
    schema["description"] = match alias_of {
        None => json!(doc),
        Some(name) => json!(format!("The same as {name}. {doc}")),
    };
    schema
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shape(shape_of: &Shape) -> Json {
    match shape_of {
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::Text { pattern: Some(pattern), .. } => json!({ "type": "string", "pattern": pattern }),
        Shape::Text { pattern: None, .. } => json!({ "type": ["string", "number"] }),
        Shape::Choice(words, also) => choice(words, also),
        Shape::List(inner) => json!({ "type": "array", "items": shape(inner) }),
        Shape::Map(inner) => json!({ "type": "object", "additionalProperties": shape(inner) }),
        Shape::Block(info) => block(info, true),
        Shape::Either(shapes) => json!({ "anyOf": shapes.iter().map(shape).collect::<Vec<_>>() }),
        Shape::Any => json!({}),
    }
}

/// Words that editors read as booleans are allowed as such.
fn choice(words: &[&str], also: &[&str]) -> Json {
    let booleans: Vec<bool> = also.iter().filter_map(|word| word.parse().ok()).collect();
    let all: Vec<&&str> =
        words.iter().chain(also.iter().filter(|word| word.parse::<bool>().is_err())).collect();
    if booleans.is_empty() {
        json!({ "enum": all })
    } else {
        json!({ "anyOf": [{ "enum": all }, { "type": "boolean" }] })
    }
}
