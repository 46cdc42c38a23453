//! The schema editors get, judged by an independent implementation of JSON Schema.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(clippy::disallowed_methods, reason = "the test reads examples of the project")]

use crate::support::{root, run};
use serde_json::{Map, Value, json};
use talmox_yaml::{Node, NodeKind, PlainMeaning, parse};

/// YAML as an editor's YAML 1.2 reader would hand it to a validator.
fn to_json(node: &Node) -> Value {
    match &node.kind {
        NodeKind::Sequence(items) => items.iter().map(to_json).collect(),
        NodeKind::Mapping(entries) => {
            let pairs = entries.iter().map(|e| (e.key.as_scalar().unwrap().text.clone(), to_json(&e.value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        NodeKind::Scalar(scalar) => match scalar.meaning() {
            PlainMeaning::Bool(value) => json!(value),
            PlainMeaning::Integer(number) => json!(number),
            PlainMeaning::Float => json!(scalar.text.parse::<f64>().unwrap()),
            PlainMeaning::Null => Value::Null,
            PlainMeaning::Text
            | PlainMeaning::OldBool(_)
            | PlainMeaning::OldOctal
            | PlainMeaning::OldUnderscore
            | PlainMeaning::OldSexagesimal
            | PlainMeaning::OtherBase => json!(scalar.text),
        },
    }
}

fn validator(file: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&run(&["schema", file]).succeeded().stdout).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
}

fn read(path: &str) -> Value {
    let text = std::fs::read_to_string(root().join(path)).unwrap();
    to_json(&parse(&text).documents[0])
}

#[test]
fn examples_and_defaults_fit_the_schema() {
    let (cluster, nodes) = (validator("cluster"), validator("nodes"));
    for (path, schema) in [
        ("examples/minimal/cluster.yaml", &cluster),
        ("examples/homelab/cluster.yaml", &cluster),
        ("examples/homelab/nodes.yaml", &nodes),
        ("examples/datacenter/cluster.yaml", &cluster),
        ("examples/datacenter/nodes.yaml", &nodes),
        ("crates/talmox-config/src/built_in.yaml", &cluster),
    ] {
        let errors: Vec<String> = schema
            .iter_errors(&read(path))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{path}: {errors:?}");
    }
}

#[test]
fn mistakes_an_editor_can_see_do_not_fit() {
    let cluster = validator("cluster");
    for name in [
        "unknown-key-typo",
        "unknown-key-in-node",
        "out-of-range-cores",
        "wrong-type-list-for-number",
        "wrong-type-scalar-for-list",
        "invalid-choice",
        "invalid-endpoint",
        "invalid-schematic-id",
    ] {
        let path = format!("crates/talmox-config/tests/faulty/{name}.yaml");
        assert!(!cluster.is_valid(&read(&path)), "{name}");
    }
}
