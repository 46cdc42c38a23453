//! What is wrong with the simulated Image Factory, from the beginning to the end.
//!
//! ```yaml
//! factory: {dead: false, slow: 20s, cut: 1000, missing: [v1.13.9]}
//! ```

use serde_json::{Value, json};
use talmox_config::Code;
use talmox_sim::Trouble;
use talmox_types::Version;
use talmox_yaml::{Node, NodeKind};

use super::kinds::{Form, Key, form_schema};
use super::values::{Given, read_value};
use super::{Reader, key_of};

const KEYS: [Key; 3] = [
    Key { name: "dead", value: Form::Flag, meaning: "nobody answers" },
    Key {
        name: "slow",
        value: Form::Duration,
        meaning: "every answer comes so much later, in simulated time",
    },
    Key {
        name: "cut",
        value: Form::Number { least: 0, most: u32::MAX as u64 },
        meaning: "images break off after so many bytes",
    },
];

const MISSING: &str = "Talos versions it lists and has nothing of";

impl Reader<'_> {
    pub(super) fn factory(&mut self, node: &Node) -> Trouble {
        let mut trouble = Trouble::default();
        let Some(entries) = self.mapping(node, "factory is a mapping of what is wrong with it") else {
            return trouble;
        };
        for entry in entries {
            let name = key_of(entry);
            if name == "missing" {
                self.versions(&entry.value, &mut trouble);
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                let text = format!("factory has no {name}");
                self.say(Code::UnknownKey, &text, entry.key.place(), "it may have dead, slow, cut, missing");
                continue;
            };
            match read_value(key.value, &entry.value) {
                Ok(Given::Flag(dead)) => trouble.dead = dead,
                Ok(Given::Milliseconds(slow)) => trouble.slow = slow.unsigned_abs(),
                Ok(Given::Number(bytes)) => trouble.cut = Some(bytes),
                Ok(Given::Text(_) | Given::Fraction(_) | Given::Address(_)) => {}
                Err(hint) => self.wrong(key, entry, &hint),
            }
        }
        trouble
    }

    fn versions(&mut self, node: &Node, trouble: &mut Trouble) {
        let hint = "a list of versions, such as [v1.13.9]";
        let NodeKind::Sequence(items) = &node.kind else {
            return self.say(Code::WrongType, "missing: not a list", node.place(), hint);
        };
        for item in items {
            match item.as_scalar().and_then(|scalar| Version::parse(&scalar.text).ok()) {
                Some(version) => drop(trouble.missing.insert(format!("v{version}"))),
                None => self.say(Code::InvalidValue, "missing: not a version", item.place(), hint),
            }
        }
    }
}

pub(super) fn schema() -> Value {
    let mut properties = serde_json::Map::new();
    for key in &KEYS {
        let mut schema = form_schema(key.value);
        schema["description"] = json!(key.meaning);
        properties.insert(key.name.to_owned(), schema);
    }
    let versions = json!({"type": "array", "items": {"type": "string"}, "description": MISSING});
    properties.insert("missing".to_owned(), versions);
    json!({
        "type": "object", "additionalProperties": false, "properties": properties,
        "description": "what is wrong with the simulated Image Factory, from the beginning to the end",
    })
}
