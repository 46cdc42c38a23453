//! One resource, and how it is sent.

use std::collections::BTreeMap;

use talmox_machine::{Map, Value};
use talmox_proto::definitions::{ManifestSpec, SingleManifest};
use talmox_proto::resource::{Metadata, Resource as Sent, Spec};
use talmox_proto::{ListValue, Message, Struct, Timestamp, value};

use crate::nodes::Nodes;

/// Something a node keeps under a namespace, a type and an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    pub(super) namespace: &'static str,
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) version: u64,
    /// The controller that keeps it up to date.
    owner: &'static str,
    created: u64,
    pub(super) updated: u64,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    proto: Vec<u8>,
    yaml: String,
}

impl Resource {
    pub(super) fn new(
        (namespace, kind): (&'static str, &'static str),
        id: impl Into<String>,
        owner: &'static str,
        created: u64,
    ) -> Self {
        Self {
            namespace,
            kind,
            id: id.into(),
            version: 1,
            owner,
            created,
            updated: created,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            proto: Vec::new(),
            yaml: String::new(),
        }
    }

    /// Whether nothing but times is different: those are worked out anew, and nobody is told.
    pub(super) fn says_the_same(&self, other: &Self) -> bool {
        let Self {
            namespace: _,
            kind: _,
            id,
            version,
            owner: _,
            created: _,
            updated: _,
            labels,
            annotations,
            proto,
            yaml,
        } = self;
        (id, version, labels, annotations) == (&other.id, &other.version, &other.labels, &other.annotations)
            && (proto, yaml) == (&other.proto, &other.yaml)
    }

    pub(super) fn changed(mut self, version: u64, updated: u64) -> Self {
        self.version = version.max(1);
        self.updated = updated;
        self
    }

    pub(super) fn proto(mut self, message: &impl Message) -> Self {
        self.proto = message.encode_to_vec();
        self
    }

    pub(super) fn yaml(mut self, map: Map) -> Self {
        self.yaml = talmox_machine::print(&Value::Map(map));
        self
    }

    /// A specification that is a list of objects, as manifests are.
    pub(super) fn objects(mut self, objects: &[serde_json::Value]) -> Self {
        let object = |one: &serde_json::Value| match in_proto(one).kind {
            Some(value::Kind::StructValue(object)) => SingleManifest { object: Some(object) },
            _ => SingleManifest { object: None },
        };
        self.proto = ManifestSpec { items: objects.iter().map(object).collect() }.encode_to_vec();
        self.yaml = talmox_machine::print(&Value::List(objects.iter().map(in_yaml).collect()));
        self
    }

    /// A specification that is one text.
    pub(super) fn scalar(mut self, text: &str) -> Self {
        self.yaml = talmox_machine::print(&Value::text(text));
        self
    }

    pub(super) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(super) fn labels(&self) -> &BTreeMap<String, String> {
        &self.labels
    }

    pub(super) fn sent(&self, nodes: &Nodes) -> Sent {
        let metadata = Metadata {
            namespace: self.namespace.to_owned(),
            r#type: self.kind.to_owned(),
            id: self.id.clone(),
            version: self.version.to_string(),
            owner: self.owner.to_owned(),
            phase: "running".to_owned(),
            created: Some(nodes.timestamp(self.created)),
            updated: Some(nodes.timestamp(self.updated)),
            finalizers: Vec::new(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
        };
        let spec = Spec { proto_spec: self.proto.clone(), yaml_spec: self.yaml.clone() };
        Sent { metadata: Some(metadata), spec: Some(spec) }
    }
}

fn in_yaml(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(flag) => Value::Bool(*flag),
        serde_json::Value::Number(number) => number
            .as_i64()
            .map_or_else(|| Value::text(number.to_string()), |number| Value::Integer(number.into())),
        serde_json::Value::String(text) => Value::text(text.clone()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(in_yaml).collect()),
        serde_json::Value::Object(map) => {
            Value::Map(map.iter().map(|(key, value)| (key.clone(), in_yaml(value))).collect())
        }
    }
}

fn in_proto(json: &serde_json::Value) -> talmox_proto::Value {
    let kind = match json {
        serde_json::Value::Null => value::Kind::NullValue(0),
        serde_json::Value::Bool(flag) => value::Kind::BoolValue(*flag),
        serde_json::Value::Number(number) => value::Kind::NumberValue(number.as_f64().unwrap_or_default()),
        serde_json::Value::String(text) => value::Kind::StringValue(text.clone()),
        serde_json::Value::Array(items) => {
            value::Kind::ListValue(ListValue { values: items.iter().map(in_proto).collect() })
        }
        serde_json::Value::Object(map) => {
            let fields = map.iter().map(|(key, value)| (key.clone(), in_proto(value)));
            value::Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    talmox_proto::Value { kind: Some(kind) }
}

/// What stands for a resource that is not there.
pub(super) fn tombstone(namespace: &str, kind: &str, id: &str, now: Timestamp) -> Sent {
    let metadata = Metadata {
        namespace: namespace.to_owned(),
        r#type: kind.to_owned(),
        id: id.to_owned(),
        version: "undefined".to_owned(),
        phase: "running".to_owned(),
        created: Some(now),
        updated: Some(now),
        ..Metadata::default()
    };
    Sent { metadata: Some(metadata), spec: Some(Spec::default()) }
}

/// A list of texts.
pub(super) fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> Value {
    Value::List(items.into_iter().map(|item| Value::text(item.to_string())).collect())
}

pub(super) fn number(number: u64) -> Value {
    Value::Integer(number.into())
}
