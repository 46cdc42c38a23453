//! What can be written in a fault plan: one table for the reader, its hints and the schema.

use serde_json::{Map, Value, json};

/// A key of a fault.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) value: Form,
    pub(super) meaning: &'static str,
}

/// What may be written after a key.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Text,
    Flag,
    Number {
        least: u64,
        most: u64,
    },
    /// A number from 0 to 1.
    Chance,
    /// A number from 1, or `all`.
    Times,
    Duration,
    SignedDuration,
    /// Of IPv4 or IPv6.
    Address,
}

/// Something that goes wrong.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) keys: &'static [Key],
}

pub(super) const fn key(name: &'static str, value: Form, meaning: &'static str) -> Key {
    Key { name, value, meaning }
}

/// Which calls a fault meets; every kind has these.
pub(super) const WHEN: &[Key] = &[
    key(
        "calls",
        Form::Text,
        "a method, a path without /api2/json in which * stands for any text, or both; default: every call",
    ),
    key("host", Form::Text, "only calls that contact this host"),
    key(
        "at",
        Form::Number { least: 1, most: u64::MAX },
        "the first matching call that goes wrong, counted from 1; default: 1",
    ),
    key(
        "times",
        Form::Times,
        "how many matching calls go wrong from there on, or all; default: 1, with a chance all",
    ),
    key(
        "chance",
        Form::Chance,
        "the probability that a matching call goes wrong, from 0 to 1; the file's seed decides",
    ),
];

const AFTER: Key =
    key("after", Form::Duration, "how long after the call, in simulated time; default: at once");

#[rustfmt::skip]
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "error", meaning: "the call is answered with this status", keys: &[
        key("status", Form::Number { least: 400, most: 599 }, "default: 500"),
        key("text", Form::Text, "the words; needed unless the status is 401, 403, 595, 596 or 599"),
        key("happens", Form::Flag, "the call is carried out all the same; default: no"),
    ] },
    Kind { name: "hang", meaning: "the call is not carried out and never answered", keys: &[] },
    Kind { name: "slow", meaning: "the call is answered later", keys: &[
        key("by", Form::Duration, "how much later, in simulated time"),
    ] },
    Kind { name: "lost-reply", meaning: "the call is carried out, and the connection breaks before the reply", keys: &[] },
    Kind { name: "cut-body", meaning: "the call is carried out, and the reply breaks off", keys: &[
        key("bytes", Form::Number { least: 0, most: u32::MAX as u64 }, "how much of the body comes; default: 0"),
    ] },
    Kind { name: "close-idle", meaning: "a good reply; then the connection is closed without a word", keys: &[] },
    Kind { name: "kill-worker", meaning: "the task dies and cleans nothing up: a VM it had locked stays locked", keys: &[AFTER] },
    Kind { name: "fail-worker", meaning: "the task fails, and cleans up", keys: &[
        AFTER,
        key("text", Form::Text, "the words it fails with"),
    ] },
    Kind { name: "host-down", meaning: "the API of the contacted host goes down before it looks at the call", keys: &[] },
    Kind { name: "host-lost", meaning: "a host loses power, with its tasks and VMs", keys: &[
        key("node", Form::Text, "which; default: the one the call is about"),
        AFTER,
        key("back", Form::Duration, "how much later it boots; default: never"),
    ] },
    Kind { name: "clock-jump", meaning: "the time of day jumps on all hosts", keys: &[
        key("by", Form::SignedDuration, "how far, such as 3h or -10m"),
    ] },
    Kind { name: "busy", meaning: "all privileged workers of the host are busy with something else", keys: &[
        key("lasts", Form::Duration, "how long, in simulated time"),
    ] },
    Kind { name: "backup", meaning: "a backup of the VM the call is about begins and locks it", keys: &[
        key("lasts", Form::Duration, "how long, in simulated time"),
    ] },
    Kind { name: "disk-error", meaning: "a disk of the VM the call is about takes no more writes, and QEMU halts the guest", keys: &[] },
];

/// The parts of a file, one of which it must have.
pub(super) const SECTIONS: [&str; 4] = ["faults", "factory", "machines", "node_calls"];

/// The JSON Schema of a fault plan.
pub(crate) fn json_schema() -> Value {
    let kinds: Vec<Value> = KINDS.iter().map(|kind| kind_schema(kind, "fault", WHEN)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What goes wrong on a simulated Proxmox, and when",
        "type": "object",
        "additionalProperties": false,
        "anyOf": SECTIONS.map(|section| json!({"required": [section]})),
        "properties": {
            "seed": {"type": "integer", "minimum": 0, "description": "what chances are drawn from; default: 0"},
            "faults": {"type": "array", "items": {"oneOf": kinds}},
            "factory": super::factory::schema(),
            "machines": super::nodes::machines_schema(),
            "node_calls": super::nodes::calls_schema(),
        },
    })
}

/// A kind as an entry that names it after `word`, with keys that all of its sort have.
pub(super) fn kind_schema(kind: &Kind, word: &str, common: &[Key]) -> Value {
    let mut properties = Map::from_iter([(word.to_owned(), json!({"const": kind.name}))]);
    for key in kind.keys.iter().chain(common) {
        let mut schema = form_schema(key.value);
        schema["description"] = json!(key.meaning);
        properties.insert(key.name.to_owned(), schema);
    }
    json!({
        "type": "object", "description": kind.meaning, "additionalProperties": false,
        "required": [word], "properties": properties,
    })
}

pub(super) fn form_schema(form: Form) -> Value {
    match form {
        Form::Text => json!({"type": "string", "minLength": 1}),
        Form::Flag => json!({"type": "boolean"}),
        Form::Number { least, most: u64::MAX } => json!({"type": "integer", "minimum": least}),
        Form::Number { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
        Form::Chance => json!({"type": "number", "minimum": 0, "maximum": 1}),
        Form::Times => json!({"anyOf": [{"type": "integer", "minimum": 1}, {"const": "all"}]}),
        Form::Duration => json!({"type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$"}),
        Form::Address => json!({"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}], "type": "string"}),
        Form::SignedDuration => json!({"type": "string", "pattern": "^-?[0-9]+(ms|s|m|h|d)$"}),
    }
}
