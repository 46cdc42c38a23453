//! Messages of the Talos API as JSON and back, by the descriptors of our own `.proto` files.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "kinds of fields that are not named cannot occur in JSON"
)]

use std::path::Path;

use anyhow::{Context, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{
    DescriptorPool, DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    MethodDescriptor, ReflectMessage as _, Value as Field,
};
use serde_json::{Map, Value, json};

/// What the `.proto` files say.
pub(super) struct Messages {
    pool: DescriptorPool,
}

const FILES: [&str; 8] = [
    "common.proto",
    "machine.proto",
    "lifecycle.proto",
    "time.proto",
    "storage.proto",
    "cluster.proto",
    "resource.proto",
    "definitions.proto",
];

impl Messages {
    pub(super) fn read() -> anyhow::Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/talmox-proto/proto");
        let files = protox::compile(FILES, [folder])?;
        Ok(Self { pool: DescriptorPool::from_file_descriptor_set(files)? })
    }

    /// The method of `PACKAGE.SERVICE/METHOD`.
    pub(super) fn method(&self, name: &str) -> Option<MethodDescriptor> {
        let (service, method) = name.split_once('/')?;
        self.pool.get_service_by_name(service)?.methods().find(|one| one.name() == method)
    }

    /// What a message says.
    pub(super) fn decode(&self, kind: &MessageDescriptor, bytes: &[u8]) -> anyhow::Result<Value> {
        self.to_json(&DynamicMessage::decode(kind.clone(), bytes)?)
    }

    fn to_json(&self, message: &DynamicMessage) -> anyhow::Result<Value> {
        let seconds = |name: &str| match message.get_field_by_name(name).as_deref() {
            Some(Field::I64(number)) => *number,
            Some(Field::I32(number)) => i64::from(*number),
            _ => 0,
        };
        match message.descriptor().full_name() {
            "google.protobuf.Timestamp" => return Ok(json!({"seconds": seconds("seconds")})),
            "google.protobuf.Duration" => return Ok(json!(format!("{}s", seconds("seconds")))),
            "google.protobuf.Any" => return self.any(message),
            _ => {}
        }
        let mut map = Map::new();
        for (field, value) in message.fields() {
            map.insert(field.name().to_owned(), self.field(&field, value)?);
        }
        Ok(Value::Object(map))
    }

    /// What is packed, with its type beside it as the recordings have it.
    fn any(&self, message: &DynamicMessage) -> anyhow::Result<Value> {
        let (Some(Field::String(url)), Some(Field::Bytes(bytes))) = (
            message.get_field_by_name("type_url").map(std::borrow::Cow::into_owned),
            message.get_field_by_name("value").map(std::borrow::Cow::into_owned),
        ) else {
            return Ok(json!({}));
        };
        if url.is_empty() {
            return Ok(json!({}));
        }
        let name = url.rsplit('/').next().unwrap_or(&url);
        let kind = self.pool.get_message_by_name(name).with_context(|| format!("no message {name}"))?;
        let mut json = self.decode(&kind, &bytes)?;
        if let Some(map) = json.as_object_mut() {
            map.insert("@type".to_owned(), Value::String(url));
        }
        Ok(json)
    }

    fn field(&self, field: &FieldDescriptor, value: &Field) -> anyhow::Result<Value> {
        Ok(match value {
            Field::List(items) => {
                Value::Array(items.iter().map(|item| self.field(field, item)).collect::<anyhow::Result<_>>()?)
            }
            Field::Map(entries) => {
                let mut map = Map::new();
                for (key, value) in entries {
                    map.insert(key_text(key), self.field(field, value)?);
                }
                Value::Object(map)
            }
            Field::Message(message) => self.to_json(message)?,
            Field::EnumNumber(number) => match field.kind() {
                Kind::Enum(kind) => name_of(&kind, *number),
                _ => json!(number),
            },
            Field::Bool(value) => json!(value),
            Field::I32(value) => json!(value),
            Field::U32(value) => json!(value),
            Field::I64(value) => json!(value.to_string()),
            Field::U64(value) => json!(value.to_string()),
            Field::F32(value) => json!(value),
            Field::F64(value) => json!(value),
            Field::String(value) => json!(value),
            Field::Bytes(value) => json!(STANDARD.encode(value)),
        })
    }
}

/// A message, as it goes over the wire.
pub(super) fn encode(kind: &MessageDescriptor, json: &Value) -> anyhow::Result<Vec<u8>> {
    Ok(prost_reflect::prost::Message::encode_to_vec(&from_json(kind, json)?))
}

fn key_text(key: &MapKey) -> String {
    match key {
        MapKey::String(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn name_of(kind: &EnumDescriptor, number: i32) -> Value {
    kind.get_value(number).map_or_else(|| json!(number), |value| json!(value.name()))
}

fn from_json(kind: &MessageDescriptor, json: &Value) -> anyhow::Result<DynamicMessage> {
    let mut message = DynamicMessage::new(kind.clone());
    if kind.full_name() == "google.protobuf.Duration" {
        let text = json.as_str().context("a duration is a text")?;
        let seconds: i64 =
            text.trim_end_matches('s').parse().with_context(|| format!("{text} is no duration"))?;
        message.set_field_by_name("seconds", Field::I64(seconds));
        return Ok(message);
    }
    let map = json.as_object().with_context(|| format!("{} is no map: {json}", kind.full_name()))?;
    for (name, value) in map {
        let field =
            kind.get_field_by_name(name).with_context(|| format!("{} has no {name}", kind.full_name()))?;
        let value = if field.is_list() {
            let items = value.as_array().with_context(|| format!("{name} is no list"))?;
            Field::List(items.iter().map(|item| one(&field, item)).collect::<anyhow::Result<_>>()?)
        } else {
            ensure!(!field.is_map(), "{name}: maps are not sent");
            one(&field, value)?
        };
        message.set_field(&field, value);
    }
    Ok(message)
}

fn one(field: &FieldDescriptor, json: &Value) -> anyhow::Result<Field> {
    let number = || -> anyhow::Result<i128> {
        let text = json.as_str().map_or_else(|| json.to_string(), str::to_owned);
        text.parse().with_context(|| format!("{}: {text} is no number", field.name()))
    };
    Ok(match field.kind() {
        Kind::Message(kind) => Field::Message(from_json(&kind, json)?),
        Kind::Enum(kind) => match json.as_str() {
            Some(name) => Field::EnumNumber(
                kind.get_value_by_name(name)
                    .with_context(|| format!("{} has no {name}", kind.name()))?
                    .number(),
            ),
            None => Field::EnumNumber(i32::try_from(number()?)?),
        },
        Kind::Bool => Field::Bool(json.as_bool().context("no yes or no")?),
        Kind::Int32 => Field::I32(i32::try_from(number()?)?),
        Kind::Int64 => Field::I64(i64::try_from(number()?)?),
        Kind::Uint32 => Field::U32(u32::try_from(number()?)?),
        Kind::Uint64 => Field::U64(u64::try_from(number()?)?),
        Kind::String => Field::String(json.as_str().context("no text")?.to_owned()),
        Kind::Bytes => Field::Bytes(STANDARD.decode(json.as_str().context("no bytes")?)?.into()),
        other => bail!("{}: {other:?} is not sent", field.name()),
    })
}
