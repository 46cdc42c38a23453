//! Whether a reply is the recorded one.

use serde_json::{Map, Value};

use super::file::Call;
use super::mapping::{Blank, Mapping, Sort};

/// How a call ended with us.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) code: String,
    pub(super) message: String,
    /// The replies, in JSON.
    pub(super) messages: Vec<Value>,
}

/// What was looked at.
pub(super) struct Comparison<'a> {
    pub(super) blank: &'a Blank,
    pub(super) mapping: &'a mut Mapping,
    pub(super) same_bytes: bool,
}

/// Fields that are measured, counted or drawn by lot.
const MEASURED: [&str; 24] = [
    "created",
    "updated",
    "ts",
    "last_change",
    "bookmark",
    "db_size",
    "db_size_in_use",
    "raft_index",
    "raft_applied_index",
    "raft_term",
    "elapsed",
    "offset",
    "total",
    "size",
    "modified",
    "layer_id",
    "go_version",
    "sha",
    "built",
    "proto_spec",
    "finalizers",
    "old",
    "protocol_version",
    "storage_version",
];

/// Words of the client's own library about a connection that failed: what they are depends on who was faster.
const TRANSPORT: [&str; 6] = [
    "context deadline exceeded",
    "RST_STREAM",
    "connection error: desc",
    "closing transport due to",
    "broken pipe",
    "error reading from server",
];

impl Comparison<'_> {
    /// What differs; nothing, if the call is reproduced whole.
    pub(super) fn differences(&mut self, call: &Call, ours: &Outcome) -> Vec<String> {
        let mut found = Vec::new();
        if call.code != ours.code {
            found.push(format!(
                "code: {} ({}), ours {} ({})",
                call.code, call.message, ours.code, ours.message
            ));
            return found;
        }
        if !TRANSPORT.iter().any(|words| call.message.contains(words)) {
            self.text("message", &call.message, &ours.message, &mut found);
        }
        if call.reply.as_str().is_some_and(is_placeholder) {
            return found;
        }
        match call.stream() {
            Some(stream) => self.streams(call, stream, ours, &mut found),
            None if call.code == "OK" => self.only(call, ours, &mut found),
            None => {}
        }
        found
    }

    fn only(&mut self, call: &Call, ours: &Outcome, found: &mut Vec<String>) {
        let mut theirs = call.reply.clone();
        let mut mine = ours.messages.first().cloned().unwrap_or(Value::Null);
        for side in [&mut theirs, &mut mine] {
            // Replies of many nodes come in any order.
            if let Some(messages) = side.get_mut("messages").and_then(Value::as_array_mut) {
                messages.sort_by_key(|one| one.pointer("/metadata/hostname").map(Value::to_string));
                messages.iter_mut().for_each(shorten_services);
                messages.iter_mut().for_each(sort_members);
            }
        }
        self.values("", &theirs, &mine, found);
    }

    fn streams(&mut self, call: &Call, stream: &[Value], ours: &Outcome, found: &mut Vec<String>) {
        let theirs: Vec<Value> = stream.iter().filter_map(|one| one.get("msg").cloned()).collect();
        let (theirs, mine) = match call.method.as_str() {
            "cosi.resource.State/List" => (listed(&theirs), listed(&ours.messages)),
            "cosi.resource.State/Watch" => (watched(&theirs), watched(&ours.messages)),
            _ => (chunks(&theirs), chunks(&ours.messages)),
        };
        if theirs.len() != mine.len() {
            found.push(format!(
                "{} messages, ours {}: {} | {}",
                theirs.len(),
                mine.len(),
                short(&theirs),
                short(&mine)
            ));
            return;
        }
        for (index, (theirs, mine)) in theirs.iter().zip(&mine).enumerate() {
            self.values(&format!("[{index}]"), theirs, mine, found);
        }
    }

    fn values(&mut self, path: &str, theirs: &Value, mine: &Value, found: &mut Vec<String>) {
        match (theirs, mine) {
            (Value::Object(theirs), Value::Object(mine)) => self.maps(path, theirs, mine, found),
            (Value::Array(theirs), Value::Array(mine)) => {
                if theirs.len() != mine.len() {
                    found.push(format!("{path}: {} of {} | {}", mine.len(), theirs.len(), short(theirs)));
                    return;
                }
                for (index, (theirs, mine)) in theirs.iter().zip(mine).enumerate() {
                    self.values(&format!("{path}[{index}]"), theirs, mine, found);
                }
            }
            (Value::String(theirs), Value::String(mine)) => self.text(path, theirs, mine, found),
            _ if theirs == mine => {}
            _ => found.push(format!("{path}: {}, ours {}", short_one(theirs), short_one(mine))),
        }
    }

    fn maps(
        &mut self,
        path: &str,
        theirs: &Map<String, Value>,
        mine: &Map<String, Value>,
        found: &mut Vec<String>,
    ) {
        let counted =
            |key: &str| MEASURED.contains(&key) || (key == "version" && path.ends_with("resource.metadata"));
        for key in theirs.keys().chain(mine.keys().filter(|key| !theirs.contains_key(*key))) {
            if counted(key) {
                continue;
            }
            let path = format!("{path}.{key}");
            match (theirs.get(key), mine.get(key)) {
                (Some(theirs), Some(mine)) => self.values(&path, theirs, mine, found),
                (Some(theirs), None) => found.push(format!("{path}: {} is missing", short_one(theirs))),
                (None, Some(mine)) => found.push(format!("{path}: {} is too much", short_one(mine))),
                (None, None) => {}
            }
        }
    }

    fn text(&mut self, path: &str, theirs: &str, mine: &str, found: &mut Vec<String>) {
        if is_placeholder(theirs) && !mine.is_empty() {
            return;
        }
        let sort = match path.rsplit('.').next().unwrap_or_default() {
            "member_id" | "leader" => Some(Sort::Member),
            "id" if theirs.parse::<u64>().is_ok() => Some(Sort::Member),
            "actor_id" => Some(Sort::Actor),
            _ => None,
        };
        let same = match sort {
            Some(sort) => self.mapping.same(sort, theirs, mine),
            None => {
                let mine = self.mapping.hosts(mine);
                let (theirs, mine) =
                    (self.blank.text(theirs, self.same_bytes), self.blank.text(&mine, self.same_bytes));
                theirs == mine
            }
        };
        if !same {
            found.push(format!(
                "{path}: {:?}, ours {:?}",
                first_difference(theirs, mine),
                first_difference(mine, theirs)
            ));
        }
    }
}

/// A part that was left out of the recording; something must be there.
fn is_placeholder(text: &str) -> bool {
    text.starts_with('<') && text.ends_with('>') && !text.contains('\n')
}

/// Of a listed resource: what it is, its id and its phase. The order is the ids'.
fn listed(messages: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = messages.iter().map(|one| identity(&one["resource"])).collect();
    all.sort_by_key(|one| one["id"].to_string());
    all
}

fn identity(resource: &Value) -> Value {
    let metadata = &resource["metadata"];
    let mut identity = Map::new();
    for key in ["namespace", "type", "id", "phase"] {
        identity.insert(key.to_owned(), metadata[key].clone());
    }
    Value::Object(identity)
}

/// What a watch brought: which resource became what, and the stage a machine was in. Changes of values in between are as many as
/// somebody was fast.
fn watched(messages: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for message in messages {
        let events = message["event"].as_array().map_or(&[][..], Vec::as_slice);
        if events.is_empty() {
            all.push(Value::String("ready".to_owned()));
        }
        for event in events {
            let mut one = identity(&event["resource"]);
            let kind = event.get("event_type").cloned().unwrap_or(Value::String("CREATED".to_owned()));
            one["event"] = kind;
            let spec = event.pointer("/resource/spec/yaml_spec").and_then(Value::as_str).unwrap_or_default();
            if let Some(stage) = spec.lines().find(|line| line.starts_with("stage: ")) {
                one["stage"] = Value::String(stage.to_owned());
            }
            if all.last() != Some(&one) {
                all.push(one);
            }
        }
    }
    all
}

/// Bytes come in as many pieces as they fit into.
fn chunks(messages: &[Value]) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for message in messages {
        let is_bytes = |value: &Value| value.get("bytes").is_some();
        if is_bytes(message) && all.last().is_some_and(is_bytes) {
            continue;
        }
        let mut message = message.clone();
        if let Some(bytes) = message.get_mut("bytes") {
            *bytes = Value::String("<bytes>".to_owned());
        }
        all.push(message);
    }
    all
}

/// Members of etcd come in the order of their ids, which are drawn by lot.
fn sort_members(message: &mut Value) {
    if let Some(members) = message.get_mut("members").and_then(Value::as_array_mut) {
        members.sort_by_key(|one| one["hostname"].to_string());
    }
    if let Some(names) = message.get_mut("legacy_members").and_then(Value::as_array_mut) {
        names.sort_by_key(Value::to_string);
    }
}

/// How a service came to be what it is: the states it went through, and the last thing it said. What it waited for in between
/// depends on who was faster.
fn shorten_services(message: &mut Value) {
    for service in message.get_mut("services").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(events) = service.pointer("/events/events").and_then(Value::as_array) else { continue };
        let mut states: Vec<Value> = events.iter().map(|event| event["state"].clone()).collect();
        states.dedup();
        let last = events.last().map_or(Value::Null, |event| event["msg"].clone());
        service["events"] = serde_json::json!({"states": states, "last": last});
    }
}

fn short(values: &[Value]) -> String {
    values.iter().map(short_one).collect::<Vec<_>>().join(" ").chars().take(600).collect()
}

fn short_one(value: &Value) -> String {
    match value.get("id").and_then(Value::as_str) {
        Some(id) => format!("{}:{id}", value.get("event").and_then(Value::as_str).unwrap_or_default()),
        None => value.to_string().chars().take(160).collect(),
    }
}

/// The text from shortly before where it differs from the other.
fn first_difference<'a>(text: &'a str, other: &str) -> &'a str {
    let at = text.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(30);
    let start = (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let end = (start + 160..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    &text[start.min(text.len())..end.max(start)]
}
