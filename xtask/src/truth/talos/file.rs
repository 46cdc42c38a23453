//! The recordings: calls in the order in which they ended, and the files their words stand for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use talmox_machine::Source;

/// One recorded call.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Call {
    pub(super) group: String,
    pub(super) seq: u32,
    pub(super) talos_version: String,
    pub(super) node_role: String,
    pub(super) state: String,
    pub(super) endpoint: String,
    pub(super) auth: String,
    #[serde(default)]
    pub(super) metadata: Option<BTreeMap<String, Vec<String>>>,
    pub(super) method: String,
    #[serde(default)]
    pub(super) request: Value,
    pub(super) code: String,
    #[serde(default)]
    pub(super) message: String,
    #[serde(default)]
    pub(super) reply: Value,
    #[serde(default, deserialize_with = "or_nothing")]
    pub(super) elapsed_ms: u64,
    #[serde(default)]
    pub(super) note: Option<String>,
}

impl Call {
    /// The address that was dialled, if it is one of a node.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.endpoint.strip_suffix(":50000")?.parse().ok()
    }

    pub(super) fn note(&self) -> &str {
        self.note.as_deref().unwrap_or_default()
    }

    pub(super) fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.metadata.iter().filter_map(move |all| all.get(key)).flatten().map(String::as_str)
    }

    /// Whether the node was a virtual machine; the others were containers.
    pub(super) fn in_a_vm(&self) -> bool {
        self.group.ends_with("#vm") || self.group.starts_with("vm-") || self.state.ends_with("-vm")
    }

    /// What a stream brought, if the call was one.
    pub(super) fn stream(&self) -> Option<&[Value]> {
        let stream = self.reply.get("stream")?;
        Some(stream.as_array().map_or(&[], Vec::as_slice))
    }
}

/// The size of a snapshot that was cut off on purpose.
const BROKEN_SNAPSHOT: usize = 5000;

/// A request with the bytes its words stand for.
pub(super) struct Request {
    /// The messages, in JSON.
    pub(super) messages: Vec<Value>,
    /// Whether a file that was sent is kept as it was. Where comments were taken out or it changed since, lines have other numbers.
    pub(super) same_bytes: bool,
}

/// The files beside the recordings.
pub(super) struct Payloads {
    folder: PathBuf,
    /// What stands for a secret, and the secret.
    secrets: Vec<(String, String)>,
}

impl Payloads {
    pub(super) fn beside(transcripts: &Path) -> anyhow::Result<Self> {
        let folder = transcripts.parent().unwrap_or(Path::new(".")).join("payloads");
        let file = folder.join("secrets.yaml");
        let text = read(&file)?;
        let source = Source { name: "secrets.yaml", text: &text };
        let documents = talmox_machine::read_values(source)?;
        let mut secrets = Vec::new();
        for document in &documents {
            collect(document, "secret", &mut secrets);
        }
        Ok(Self { folder, secrets })
    }

    /// A value of the secrets, by its path.
    pub(super) fn secret(&self, path: &str) -> Option<&str> {
        let name = format!("<secret.{path}>");
        self.secrets.iter().find(|(word, _)| *word == name).map(|(_, value)| value.as_str())
    }

    /// The text with secrets in the place of what stands for them.
    pub(super) fn reveal(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (word, secret) in &self.secrets {
            if text.contains(word) {
                text = text.replace(word, secret);
            }
        }
        text
    }

    /// The same for every text of a value.
    pub(super) fn reveal_all(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains("<secret.") => *text = self.reveal(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.reveal_all(item)),
            Value::Object(map) => map.values_mut().for_each(|item| self.reveal_all(item)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub(super) fn file(&self, version: &str, name: &str) -> anyhow::Result<String> {
        read(&self.folder.join(version).join(name))
    }

    /// What was sent. Nothing, if a file was not kept. A snapshot is never kept: `snapshot` is the last one the nodes gave.
    pub(super) fn request(&self, call: &Call, snapshot: &[u8]) -> Option<Request> {
        let whole = |messages, same_bytes| Some(Request { messages, same_bytes });
        if let Some(words) = call.request.as_str() {
            let name = between(words, "<stream of ", " in ")?;
            let broken = name.contains("broken");
            let bytes = self.file(&call.talos_version, name).map_or_else(
                |_| if broken { vec![0; BROKEN_SNAPSHOT] } else { snapshot.to_vec() },
                String::into_bytes,
            );
            let messages = bytes.chunks(4096).map(|chunk| json!({"bytes": STANDARD.encode(chunk)})).collect();
            return whole(messages, true);
        }
        let mut request = call.request.clone();
        let Some(map) = request.as_object_mut() else { return whole(vec![json!({})], true) };
        let mut same = true;
        if let Some(text) = map.remove("data_text") {
            map.insert("data".to_owned(), json!(STANDARD.encode(text.as_str()?)));
        } else if let Some(words) =
            map.get("data").and_then(Value::as_str).filter(|text| text.starts_with('<'))
        {
            let (name, size) = between(words, "<bytes of ", " bytes>")?.rsplit_once(", ")?;
            let text = self.file(&call.talos_version, name).ok()?;
            same = size.parse().is_ok_and(|size: usize| size == text.len());
            map.insert("data".to_owned(), json!(STANDARD.encode(text)));
        }
        whole(vec![request], same)
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.strip_prefix(before)?.split(after).next()
}

fn collect(value: &talmox_machine::Value, path: &str, into: &mut Vec<(String, String)>) {
    if let Some(map) = value.as_map() {
        for (key, value) in map.iter() {
            collect(value, &format!("{path}.{key}"), into);
        }
    } else if let Some(text) = value.as_text() {
        into.push((format!("<{path}>"), text.to_owned()));
    }
}

/// What was not measured took no time.
fn or_nothing<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.unwrap_or_default())
}

pub(super) fn parse(calls: &Value) -> anyhow::Result<Vec<Call>> {
    Ok(Vec::<Call>::deserialize(calls)?)
}

#[expect(clippy::disallowed_methods, reason = "no description: what was recorded")]
pub(super) fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}
