//! Compares a recorded reply with the simulator's: status, reason, content type and body.
//!
//! What a server measures (load, memory, times) must be there and of the same type, but not of the same value; what it
//! makes up must be bound consistently; lists that come out of Perl hashes have no order. Everything else must be equal.

use std::collections::BTreeSet;

use serde_json::Value;
use talmox_sim::Reply;

use super::data::Pair;
use super::ids::Ids;
use super::log::LogPage;

/// Values that are measured, or that the worlds do not record.
const MEASURED: [&str; 27] = [
    "cpu",
    "mem",
    "memhost",
    "disk",
    "uptime",
    "netin",
    "netout",
    "diskread",
    "diskwrite",
    "pid",
    "pstart",
    "starttime",
    "endtime",
    "ctime",
    "snaptime",
    "time",
    "used",
    "avail",
    "used_fraction",
    "loadavg",
    "free",
    "available",
    "wait",
    "idle",
    "ssl_fingerprint",
    "repoid",
    "saved",
];
/// Measured or made-up values that are texts; any other text under a measured name is a setting or a message.
const MEASURED_TEXTS: [&str; 3] = ["loadavg", "ssl_fingerprint", "repoid"];
/// Lists in one text whose order is that of a hash.
const SETS: [&str; 2] = ["content", "privs"];

pub(crate) fn differences(pair: &Pair, reply: &Reply, ids: &mut Ids) -> Vec<String> {
    let mut found = Vec::new();
    let recorded = &pair.response;
    if recorded.status != reply.status {
        found.push(format!("status {} instead of {}", reply.status, recorded.status));
    }
    if !ids.same(&recorded.reason, &reply.reason) {
        found.push(format!("reason {:?} instead of {:?}", reply.reason, recorded.reason));
    }
    if recorded.content_type.as_deref() != reply.content_type {
        found.push(format!("content type {:?} instead of {:?}", reply.content_type, recorded.content_type));
    }
    let text = String::from_utf8_lossy(&reply.body);
    if let Value::String(body) = &recorded.body {
        if !ids.same(body, &text) {
            found.push(format!("body {text:?} instead of {body:?}"));
        }
    } else {
        let simulated: Value = serde_json::from_str(&text).unwrap_or(Value::String(text.into_owned()));
        let mut view = View { ids, found: &mut found, shape_only: shows_the_host(pair) };
        view.body(pair, &recorded.body, &simulated);
    }
    found
}

/// Replies about the recorded machine itself, which no world describes: only their shape is compared.
fn shows_the_host(pair: &Pair) -> bool {
    matches!(pair.parts()[..], ["nodes", _, "status"] | ["nodes", _, "hardware", ..] | ["cluster", "log"])
}

struct View<'a> {
    ids: &'a mut Ids,
    found: &'a mut Vec<String>,
    shape_only: bool,
}

impl View<'_> {
    fn body(&mut self, pair: &Pair, recorded: &Value, simulated: &Value) {
        if pair.request.path.ends_with("/log") && pair.request.path.contains("/tasks/") {
            return self.log(pair, recorded, simulated);
        }
        let (mut recorded, mut simulated) = (recorded.clone(), simulated.clone());
        if pair.request.path.ends_with("/tasks") {
            // How many tasks there ever were depends on what was done before the recording.
            for body in [&mut recorded, &mut simulated] {
                if let Some(total) = body.get_mut("total").filter(|total| total.is_number()) {
                    *total = Value::from(0);
                }
            }
        }
        self.value("", "", &recorded, &simulated);
    }

    fn differ(&mut self, path: &str, recorded: &Value, simulated: &Value) {
        let short = |value: &Value| {
            let text = value.to_string();
            text.chars().take(300).collect::<String>()
        };
        self.found.push(format!("{path}: {} instead of {}", short(simulated), short(recorded)));
    }

    fn value(&mut self, path: &str, key: &str, recorded: &Value, simulated: &Value) {
        match (recorded, simulated) {
            (Value::Object(_), Value::Object(_)) => self.object(path, recorded, simulated),
            (Value::Array(recorded_list), Value::Array(simulated_list)) => {
                if self.shape_only {
                    self.shapes(path, recorded_list, simulated_list);
                } else {
                    self.list(path, recorded_list, simulated_list);
                }
            }
            _ if self.shape_only || is_measured(key, recorded) => {
                if kind(recorded) != kind(simulated) {
                    self.differ(path, recorded, simulated);
                }
            }
            (Value::String(text), Value::String(other)) => {
                if !self.text(key, text, other) {
                    self.differ(path, recorded, simulated);
                }
            }
            _ if recorded == simulated => {}
            _ => self.differ(path, recorded, simulated),
        }
    }

    fn text(&mut self, key: &str, recorded: &str, simulated: &str) -> bool {
        // The recordings hide secrets behind a word in brackets.
        if recorded.starts_with('<') && recorded.ends_with('>') && !recorded.contains(' ') {
            return !simulated.is_empty();
        }
        if SETS.contains(&key) {
            let sorted = |text: &str| {
                let mut items: Vec<String> = text.split(',').map(str::to_owned).collect();
                items.sort();
                items
            };
            return sorted(recorded) == sorted(simulated);
        }
        self.ids.same(recorded, simulated)
    }

    fn object(&mut self, path: &str, recorded: &Value, simulated: &Value) {
        let (Value::Object(one), Value::Object(other)) = (recorded, simulated) else { return };
        for (key, value) in one {
            let inner = format!("{path}.{key}");
            match other.get(key) {
                Some(found) => self.value(&inner, key, value, found),
                None => self.found.push(format!("{inner}: missing, recorded {value}")),
            }
        }
        for (key, value) in other.iter().filter(|(key, _)| !one.contains_key(*key)) {
            self.found.push(format!("{path}.{key}: {value} where nothing was recorded"));
        }
    }

    fn list(&mut self, path: &str, recorded: &[Value], simulated: &[Value]) {
        if recorded.len() != simulated.len() {
            let names = |list: &[Value]| {
                list.iter().map(|item| name_of(item).unwrap_or_default()).collect::<Vec<_>>().join(" ")
            };
            self.found.push(format!(
                "{path}: {} entries ({}) instead of {} ({})",
                simulated.len(),
                names(simulated),
                recorded.len(),
                names(recorded)
            ));
            return;
        }
        let (mut one, mut other) = (recorded.to_vec(), simulated.to_vec());
        // Tasks have an order; other lists come out of hashes.
        if !recorded.iter().any(|item| item.get("upid").is_some()) {
            one.sort_by_key(sort_key);
            other.sort_by_key(sort_key);
        }
        for (index, (recorded, simulated)) in one.iter().zip(&other).enumerate() {
            self.value(&format!("{path}[{index}]"), "", recorded, simulated);
        }
    }

    /// Lists of what a machine consists of: one is as long as the machine has parts, but every part has the shape of
    /// one on the other side.
    fn shapes(&mut self, path: &str, recorded: &[Value], simulated: &[Value]) {
        let shapes = |list: &[Value]| list.iter().map(shape).collect::<BTreeSet<String>>();
        let (one, other) = (shapes(recorded), shapes(simulated));
        for missing in one.difference(&other) {
            self.found.push(format!("{path}: no entry of the shape {missing}"));
        }
        for extra in other.difference(&one) {
            self.found.push(format!("{path}: an entry of the unrecorded shape {extra}"));
        }
    }

    fn log(&mut self, pair: &Pair, recorded: &Value, simulated: &Value) {
        let (Some(one), Some(other)) = (LogPage::read(pair, recorded), LogPage::read(pair, simulated)) else {
            return self.value("", "", recorded, simulated);
        };
        self.found.extend(one.differences(&other, self.ids));
    }
}

fn is_measured(key: &str, recorded: &Value) -> bool {
    MEASURED.contains(&key) && (!recorded.is_string() || MEASURED_TEXTS.contains(&key))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "object",
    }
}

/// Keys and types without the values.
fn shape(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut parts: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", shape(value))).collect();
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Array(list) => {
            let parts: BTreeSet<String> = list.iter().map(shape).collect();
            format!("[{}]", parts.into_iter().collect::<Vec<_>>().join(" | "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => kind(value).to_owned(),
    }
}

/// What an entry of a list is called.
fn name_of(item: &Value) -> Option<String> {
    let keys = [
        "id", "vmid", "volid", "key", "storage", "upid", "sid", "rule", "poolid", "roleid", "tokenid",
        "name", "iface", "userid", "subdir", "node",
    ];
    keys.iter()
        .find_map(|key| item.get(*key))
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn sort_key(item: &Value) -> String {
    name_of(item).map_or_else(
        || item.to_string(),
        |name| format!("{name}\u{0}{}", item.get("ugid").unwrap_or(&Value::Null)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn compare(recorded: &Value, simulated: &Value) -> Vec<String> {
        let mut ids = Ids::default();
        let mut found = Vec::new();
        View { ids: &mut ids, found: &mut found, shape_only: false }.value("", "", recorded, simulated);
        found
    }

    #[test]
    fn order_of_hashes_and_measured_values_do_not_matter() {
        let one = json!([{"vmid": 1, "cpu": 0.5, "content": "a,b"}, {"vmid": 2, "cpu": 1, "content": "c"}]);
        let other = json!([{"vmid": 2, "cpu": 0, "content": "c"}, {"vmid": 1, "cpu": 0, "content": "b,a"}]);
        assert!(compare(&one, &other).is_empty());
    }

    #[test]
    fn values_types_and_keys_do_matter() {
        assert_eq!(compare(&json!({"a": 1}), &json!({"a": "1"})).len(), 1);
        assert_eq!(compare(&json!({"a": 1}), &json!({"a": 1, "b": 2})).len(), 1);
        assert_eq!(compare(&json!({"a": 1, "cpu": 1}), &json!({"a": 1})).len(), 1);
        assert_eq!(compare(&json!([1, 2]), &json!([1])).len(), 1);
    }

    #[test]
    fn measured_values_keep_their_type() {
        assert_eq!(compare(&json!({"cpu": 1}), &json!({"cpu": "1"})).len(), 1);
        assert_eq!(compare(&json!({"loadavg": ["1"]}), &json!({"loadavg": [1]})).len(), 1);
        assert_eq!(compare(&json!({"errors": {"cpu": "no"}}), &json!({"errors": {"cpu": "never"}})).len(), 1);
        assert_eq!(compare(&json!({"uptime": 1}), &json!({"uptime": null})).len(), 1);
    }

    #[test]
    fn parts_of_a_machine_are_compared_by_shape() {
        let mut found = Vec::new();
        let mut ids = Ids::default();
        let mut view = View { ids: &mut ids, found: &mut found, shape_only: true };
        view.value("", "", &json!([{"a": 1}, {"a": 2}]), &json!([{"a": 3}]));
        assert!(view.found.is_empty());
        view.value("", "", &json!([{"a": 1}, {"a": "2"}]), &json!([{"a": 3}]));
        assert_eq!(view.found.len(), 1);
    }
}
