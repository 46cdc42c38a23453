//! Random configs and patches along the tables, to compare with what Talos itself makes of them.

#![expect(clippy::wildcard_enum_match_arm, reason = "types that are not named are texts")]

use crate::document::Config;
use crate::print::print;
use crate::schema::{self, API_VERSION, Choice, Field, Kind, Struct, Type};
use crate::value::{Map, Value};

/// Texts that YAML, or a reader of it, might take for something else.
const TEXTS: [&str; 20] = [
    "foo",
    "a b",
    "1.10",
    "0755",
    "yes",
    "off",
    "",
    "x: y",
    "it's",
    "multi\nline\n",
    "true",
    "null",
    "- dash",
    "a #b",
    "12:30:45",
    "2020-01-01",
    "<<",
    "é",
    "tab\there",
    "0x1f",
];

/// Deeper than this no structure goes on.
const DEEPEST: usize = 8;

/// Draws documents of the kinds a version of Talos knows; the same seed draws the same.
pub struct Sampler {
    state: u64,
    minor: u16,
}

impl Sampler {
    pub fn new(seed: u64, minor: u16) -> Self {
        // A seed of zero would stay zero.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, minor }
    }

    /// A number below the limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % (limit.max(1) as u64)).unwrap_or_default()
    }

    pub fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn often(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A config of a few documents, as text.
    pub fn config(&mut self) -> String {
        let mut documents: Vec<Map> = Vec::new();
        for _ in 0..=self.below(3) {
            let kind = self.kind();
            let document = self.document(kind);
            if !documents.iter().any(|known| same(known, &document)) {
                documents.push(document);
            }
        }
        text(&documents)
    }

    /// A patch that is mostly about documents of a config, as text.
    pub fn patch(&mut self, config: &Config) -> String {
        let documents = config.documents();
        let mut patch = Vec::new();
        if !documents.is_empty() && self.often(70) {
            let target = &documents[self.below(documents.len())];
            let mut document = self.document(target.kind);
            if let Some(name) = target.name() {
                document.set("name", name);
            }
            patch.push(document);
        }
        // Before 1.14 a patch had one document of a name.
        if !documents.is_empty() && (patch.is_empty() || self.minor >= 14) && self.often(25) {
            let target = &documents[self.below(documents.len())];
            patch.extend(
                self.delete(&target.to_value()).map(|delete| delete_of(target.kind, target.name(), &delete)),
            );
        }
        if patch.is_empty() {
            let kind = self.kind();
            patch.push(self.document(kind));
        }
        text(&patch)
    }

    fn kind(&mut self) -> &'static Kind {
        let known: Vec<&'static Kind> =
            schema::kinds().iter().filter(|kind| kind.since <= self.minor).collect();
        if known.is_empty() || self.often(50) { &schema::V1ALPHA1 } else { known[self.below(known.len())] }
    }

    fn document(&mut self, kind: &'static Kind) -> Map {
        let mut document = Map::new();
        if kind.name.is_empty() {
            document.set("version", API_VERSION);
            document.set("machine", Map::new());
        } else {
            document = document.with("apiVersion", API_VERSION).with("kind", kind.name);
        }
        let body = self.structure(kind.body, 0);
        for (key, value) in body.iter() {
            document.set(key, value.clone());
        }
        if kind.named {
            document.set("name", self.one_of(&["n1", "n2"]));
        }
        document
    }

    fn structure(&mut self, known: &Struct, depth: usize) -> Map {
        let percent = if depth < 2 { 50 } else { 35 };
        let mut map = Map::new();
        let minor = self.minor;
        for field in known.fields.iter().filter(|field| field.since <= minor) {
            if must(field) || depth < DEEPEST && self.often(percent) {
                map.set(field.name, self.field(field, depth));
            }
        }
        map
    }

    fn field(&mut self, field: &Field, depth: usize) -> Value {
        match (field.name, &field.kind) {
            ("interface", Type::Text) => Value::text(self.one_of(&["eth0", "eth1"])),
            ("vlanId", _) => Value::Integer(if self.often(50) { 100 } else { 101 }),
            ("name" | "mountPath" | "image", Type::Text) => Value::text(self.one_of(&["n1", "n2"])),
            // An empty list of these means something only since 1.14.
            ("domains", _) if self.minor < 14 => Value::from(vec!["example.com"]),
            _ => self.value(&field.kind, depth + 1),
        }
    }

    fn value(&mut self, kind: &Type, depth: usize) -> Value {
        match kind {
            Type::Struct(known) => Value::Map(self.structure(known, depth)),
            Type::List(kind) => {
                Value::List((0..self.below(3)).map(|_| self.value(kind, depth + 1)).collect())
            }
            Type::Keyed(known, _) => Value::List(
                (0..self.below(3)).map(|_| Value::Map(self.structure(known, depth + 1))).collect(),
            ),
            Type::Map(kind) => self.map(|sampler| sampler.value(kind, depth + 1)),
            Type::Arguments => self.map(|sampler| {
                // Lists of values came with 1.13.
                let list = sampler.minor >= 13 && sampler.often(40);
                let text = sampler.one_of(&TEXTS);
                match text {
                    _ if list => Value::from(vec!["x", "y"]),
                    // Kept before 1.13, and no argument since.
                    "" if sampler.minor < 13 => Value::text("foo"),
                    text => Value::text(text),
                }
            }),
            Type::Object => self.map(|sampler| sampler.free(depth + 1)),
            Type::Bool => Value::Bool(self.often(50)),
            Type::Signed(_) | Type::Unsigned(_) => Value::Integer([0, 1, 7, 100][self.below(4)]),
            Type::FileMode => Value::Octal(0o644),
            Type::Choice(choice) => {
                let names: Vec<&str> =
                    choice.names.iter().copied().filter(|name| Choice::since(name) <= self.minor).collect();
                Value::text(self.one_of(&names))
            }
            _ => Value::text(self.scalar(kind)),
        }
    }

    fn scalar(&mut self, kind: &Type) -> &'static str {
        let choices: &[&'static str] = match kind {
            Type::Duration => &["1m", "90s", "1h30m", "0s", "100ms"],
            Type::Base64 => &["YWJj", ""],
            Type::HardwareAddress => &["aa:bb:cc:dd:ee:ff", "AABBCCDDEEFF"],
            Type::Address => &["10.0.0.1", "fd00::1", "FD00:0:0::2"],
            Type::Prefix => &["10.0.0.0/8", "fd00::/64", "10.1.2.3/24"],
            Type::AddressPort => &["10.0.0.1:80", "[fd00::1]:443"],
            Type::Url => &[
                "https://a.b:6443",
                "https://10.0.0.1/",
                "http://x/y?z=1",
                "tcp://1.2.3.4:5",
                "https://h/p#f",
            ],
            Type::Expression => &["system_disk", "true"],
            Type::ByteSize => &["10GiB", "1TB", "100"],
            Type::Size => &["10GiB", "50%", "1TB"],
            Type::DiskSize => &["100GB", "10GiB", "1000"],
            Type::SizeCondition => &[">= 1TB", "< 10GB"],
            Type::PortRange => &["80-90", "443-443"],
            Type::RoutingTable => &["main", "local", "100"],
            _ => &TEXTS,
        };
        choices[self.below(choices.len())]
    }

    fn map(&mut self, mut value: impl FnMut(&mut Self) -> Value) -> Value {
        let mut map = Map::new();
        for _ in 0..self.below(3) {
            let key = self.one_of(&["a", "b", "node.io/x", "on"]);
            map.set(key, value(self));
        }
        Value::Map(map)
    }

    fn free(&mut self, depth: usize) -> Value {
        match self.below(if depth < DEEPEST { 7 } else { 4 }) {
            0 => Value::Integer(self.below(70_000) as i128),
            1 => Value::Bool(self.often(50)),
            2 => Value::Float(1.5),
            3 => Value::text(self.one_of(&TEXTS)),
            4 => Value::List((0..self.below(3)).map(|_| self.free(depth + 1)).collect()),
            _ => self.map(|sampler| sampler.free(depth + 1)),
        }
    }

    /// A path of a document with a delete at its end.
    fn delete(&mut self, document: &Value) -> Option<Map> {
        let map = document.as_map()?;
        let keys: Vec<&str> =
            map.keys().filter(|key| !["apiVersion", "kind", "name", "version"].contains(key)).collect();
        let key = *keys.get(self.below(keys.len()))?;
        let deeper = map.get(key).filter(|value| value.as_map().is_some_and(|map| !map.is_empty()));
        let inner = match deeper.filter(|_| self.often(80)) {
            Some(value) => self.delete(value)?,
            None => Map::new().with("$patch", "delete"),
        };
        Some(Map::new().with(key, inner))
    }
}

/// A field that has no value Talos could read back if it is left out.
fn must(field: &Field) -> bool {
    !field.pointer && matches!(&field.kind, Type::Choice(choice) if choice.zero.is_none())
        || field.name == "portSelector"
}

fn same(one: &Map, other: &Map) -> bool {
    ["kind", "name"].iter().all(|key| one.get(key) == other.get(key))
}

fn delete_of(kind: &'static Kind, name: Option<&str>, delete: &Map) -> Map {
    let mut document = Map::new();
    if !kind.name.is_empty() {
        document = document.with("apiVersion", API_VERSION).with("kind", kind.name);
    }
    document = document.with_some("name", name);
    for (key, value) in delete.iter() {
        document.set(key, value.clone());
    }
    document
}

fn text(documents: &[Map]) -> String {
    documents.iter().map(|document| print(&Value::Map(document.clone()))).collect::<Vec<_>>().join("---\n")
}
