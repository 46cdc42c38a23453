//! From a tree of what was written to values, along the tables of what Talos knows.
//!
//! Everything that is wrong is reported at once, with its place. What Talos takes for "not given" (null, and zero in
//! fields that cannot tell it from nothing) is left out of the result, so that presence means the same everywhere.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "types that are not named are scalars of one kind or another"
)]

use talmox_yaml::{Entry, Node, NodeKind, Scalar, Span, Style};

use crate::fault::{self, Fault, Path, Source, Trail};
use crate::resolve;
use crate::scalar;
use crate::schema::{Field, Print, Struct, Type};
use crate::value::{Map, Value};

/// Reads nodes of one text.
pub(crate) struct Reader<'a> {
    source: Source<'a>,
    pub faults: Vec<Fault>,
    more_faults: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self { source, faults: Vec::new(), more_faults: 0 }
    }

    pub(crate) fn fault(&mut self, node: &Node, path: &Trail<'_>, message: impl Into<String>) {
        let source = self.source;
        fault::add(&mut self.faults, &mut self.more_faults, || Fault {
            place: source.place(node.place(), &path.to_path()),
            message: message.into(),
        });
    }

    /// The same where no node stands for the place.
    pub(crate) fn fault_at(&mut self, span: Span, path: &Path, message: &str) {
        let source = self.source;
        fault::add(&mut self.faults, &mut self.more_faults, || Fault {
            place: source.place(span, path),
            message: message.to_owned(),
        });
    }

    /// A mapping with known keys. `skip` are keys that were read already.
    pub(crate) fn structure(&mut self, node: &Node, known: &Struct, skip: &[&str], path: &Trail<'_>) -> Map {
        let mut map = Map::new();
        let Some(entries) = self.entries(node, path) else { return map };
        for (key, value) in entries {
            if skip.contains(&key) {
                continue;
            }
            match known.field(key) {
                Some(field) => {
                    if let Some(value) = self.field(value, field, &path.key(key)) {
                        map.set(key, value);
                    }
                }
                None => self.unknown(value, known, key, path),
            }
        }
        map
    }

    fn unknown(&mut self, node: &Node, known: &Struct, key: &str, path: &Trail<'_>) {
        let similar = known.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key));
        let message = match similar {
            Some(field) => format!("Talos has no such field; did you mean `{}`?", field.name),
            None => "Talos has no such field".to_owned(),
        };
        self.fault(node, &path.key(key), message);
    }

    fn field(&mut self, node: &Node, field: &Field, path: &Trail<'_>) -> Option<Value> {
        let value = self.value(node, &field.kind, path)?;
        (field.pointer || !is_zero(&value, &field.kind)).then_some(value)
    }

    /// A value of a type; nothing for null and for what is wrong.
    fn value(&mut self, node: &Node, kind: &Type, path: &Trail<'_>) -> Option<Value> {
        if node.is_null() {
            return None;
        }
        match kind {
            Type::Struct(known) => Some(Value::Map(self.structure(node, known, &[], path))),
            Type::Object => self.object(node, path).map(Value::Map),
            Type::List(kind) => self.list(node, path, |reader, item, path| reader.item(item, kind, path)),
            Type::Keyed(known, _) => self.list(node, path, |reader, item, path| {
                Some(Value::Map(reader.structure(item, known, &[], path)))
            }),
            Type::Map(kind) => self.map(node, path, |reader, value, path| reader.item(value, kind, path)),
            Type::Arguments => self.map(node, path, Self::argument),
            _ => self.scalar(node, kind, path),
        }
    }

    /// An element of a list or mapping: null is zero there.
    fn item(&mut self, node: &Node, kind: &Type, path: &Trail<'_>) -> Option<Value> {
        if !node.is_null() {
            return self.value(node, kind, path);
        }
        match kind {
            Type::Text | Type::Manifest => Some(Value::text("")),
            Type::Bool => Some(Value::Bool(false)),
            _ => {
                self.fault(node, path, "nothing stands here; Talos wants a value");
                None
            }
        }
    }

    fn argument(&mut self, node: &Node, path: &Trail<'_>) -> Option<Value> {
        match &node.kind {
            NodeKind::Sequence(_) => {
                self.list(node, path, |reader, item, path| reader.item(item, &Type::Text, path))
            }
            NodeKind::Scalar(_) | NodeKind::Mapping(_) => self.item(node, &Type::Text, path),
        }
    }

    fn list(
        &mut self,
        node: &Node,
        path: &Trail<'_>,
        read: impl Fn(&mut Self, &Node, &Trail<'_>) -> Option<Value>,
    ) -> Option<Value> {
        let NodeKind::Sequence(items) = &node.kind else {
            self.fault(node, path, "a list is wanted here");
            return None;
        };
        let items = items.iter().enumerate();
        Some(Value::List(items.filter_map(|(index, item)| read(self, item, &path.item(index))).collect()))
    }

    fn map(
        &mut self,
        node: &Node,
        path: &Trail<'_>,
        read: impl Fn(&mut Self, &Node, &Trail<'_>) -> Option<Value>,
    ) -> Option<Value> {
        let entries = self.entries(node, path)?;
        let mut map = Map::new();
        for (key, value) in entries {
            if let Some(value) = read(self, value, &path.key(key)) {
                map.set(key, value);
            }
        }
        Some(Value::Map(map))
    }

    fn object(&mut self, node: &Node, path: &Trail<'_>) -> Option<Map> {
        let entries = self.entries(node, path)?;
        Some(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), self.free(value, &path.key(key))))
                .collect(),
        )
    }

    /// A value nothing is known about.
    fn free(&mut self, node: &Node, path: &Trail<'_>) -> Value {
        match &node.kind {
            NodeKind::Scalar(scalar) => free_scalar(scalar, node.tag.as_deref()),
            NodeKind::Sequence(items) => {
                let items = items.iter().enumerate();
                Value::List(items.map(|(index, item)| self.free(item, &path.item(index))).collect())
            }
            NodeKind::Mapping(_) => Value::Map(self.object(node, path).unwrap_or_default()),
        }
    }

    fn scalar(&mut self, node: &Node, kind: &Type, path: &Trail<'_>) -> Option<Value> {
        let Some(scalar) = node.as_scalar() else {
            self.fault(node, path, format!("{} is wanted here", wanted(kind)));
            return None;
        };
        let value = read_scalar(scalar, kind);
        if value.is_none() {
            self.fault(node, path, format!("{} is wanted here", wanted(kind)));
        }
        value
    }

    /// The entries of a mapping, merge keys unfolded: what a mapping says itself comes before what it merges.
    fn entries<'n>(&mut self, node: &'n Node, path: &Trail<'_>) -> Option<Vec<(&'n str, &'n Node)>> {
        let NodeKind::Mapping(entries) = &node.kind else {
            self.fault(node, path, "a mapping is wanted here");
            return None;
        };
        let mut all: Vec<(&str, &Node)> =
            entries.iter().filter(|entry| !is_merge(entry)).filter_map(key_and_value).collect();
        for merged in entries.iter().filter(|entry| is_merge(entry)) {
            self.unfold(&merged.value, path, &mut all);
        }
        Some(all)
    }

    fn unfold<'n>(&mut self, node: &'n Node, path: &Trail<'_>, all: &mut Vec<(&'n str, &'n Node)>) {
        match &node.kind {
            NodeKind::Mapping(_) => {
                for (key, value) in self.entries(node, path).unwrap_or_default() {
                    if !all.iter().any(|(known, _)| *known == key) {
                        all.push((key, value));
                    }
                }
            }
            NodeKind::Sequence(items) => {
                for item in items {
                    self.unfold(item, path, all);
                }
            }
            NodeKind::Scalar(_) => self.fault(node, path, "`<<` wants a mapping or a list of mappings"),
        }
    }
}

fn is_merge(entry: &Entry) -> bool {
    entry.key.as_scalar().is_some_and(|key| key.style == Style::Plain && key.text == "<<")
}

fn key_and_value(entry: &Entry) -> Option<(&str, &Node)> {
    Some((entry.key.as_scalar()?.text.as_str(), &entry.value))
}

/// Whether Talos cannot tell the value from none, in a field that has no "not given".
pub(crate) fn is_zero(value: &Value, kind: &Type) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Integer(value) => *value == 0,
        Value::Octal(value) => *value == 0,
        Value::Float(value) => *value == 0.0,
        Value::Text(text) => match kind {
            Type::Choice(choice) => choice.zero == Some(text.as_str()),
            Type::Duration => text == "0s",
            Type::RoutingTable => text == "unspec",
            _ => text.is_empty(),
        },
        Value::Map(map) => match kind {
            Type::Struct(known) => map.iter().all(|(key, value)| {
                known.field(key).is_some_and(|field| !field.pointer && is_zero(value, &field.kind))
            }),
            // The mapping inside is only made for the first key.
            Type::Object => map.is_empty(),
            _ => false,
        },
        Value::List(_) => false,
    }
}

/// Whether Talos leaves it out when it prints: zero, or with nothing but such inside.
pub(crate) fn is_empty(value: &Value, kind: &Type) -> bool {
    match (value, kind) {
        (Value::List(items), _) => items.is_empty(),
        (Value::Map(map), Type::Struct(known)) => map.iter().all(|(key, value)| {
            let judged = known.judged_by.is_empty() || known.judged_by.contains(&key);
            let field = known.field(key);
            let unsaid = |field: &Field| !field.pointer && field.print != Print::Given;
            !judged || field.is_some_and(|field| unsaid(field) && is_empty(value, &field.kind))
        }),
        (Value::Map(map), _) => map.is_empty(),
        (value, kind) => is_zero(value, kind),
    }
}

pub(crate) fn free_scalar(scalar: &Scalar, tag: Option<&str>) -> Value {
    match (scalar.style, tag) {
        (_, Some("!!str" | "tag:yaml.org,2002:str")) | (Style::Quoted | Style::Block, _) => {
            Value::text(&scalar.text)
        }
        (Style::Plain, _) => resolve::plain(&scalar.text),
    }
}

fn read_scalar(scalar: &Scalar, kind: &Type) -> Option<Value> {
    let text = scalar.text.as_str();
    let checked = |found: Option<String>| {
        if text.is_empty() { Some(Value::text("")) } else { found.map(Value::Text) }
    };
    match kind {
        Type::Text | Type::Expression => Some(Value::text(text)),
        Type::Manifest => Some(Value::text(text.trim_start_matches(['\t', '\n', '\u{b}', '\u{c}', '\r']))),
        Type::Bool => match free_scalar(scalar, None) {
            Value::Bool(value) => Some(Value::Bool(value)),
            Value::Text(text) => resolve::old_bool(&text).map(Value::Bool),
            _ => None,
        },
        Type::Signed(bits) => whole(scalar, -(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        Type::Unsigned(bits) => whole(scalar, 0, (1_i128 << bits) - 1),
        Type::Duration => scalar::canonical_duration(text).map(Value::Text),
        Type::Base64 => checked(scalar::base64(text)),
        Type::HardwareAddress => checked(scalar::hardware_address(text)),
        Type::Address => checked(scalar::address(text)),
        Type::Prefix => checked(scalar::prefix(text)),
        Type::AddressPort => checked(scalar::address_port(text)),
        Type::Url => scalar::is_url(text).then(|| Value::text(scalar::Url::parse(text).to_string())),
        Type::ByteSize => checked(scalar::is_size(text, false).then(|| text.to_owned())),
        Type::Size => checked(scalar::is_size(text, true).then(|| text.to_owned())),
        Type::DiskSize => scalar::parse_bytes(text)
            .map(|bytes| scalar::disk_size(bytes).map_or(Value::Integer(bytes.into()), Value::Text)),
        Type::SizeCondition => scalar::size_condition(text).map(Value::Text),
        Type::FileMode => {
            let mode = whole(scalar, 0, u32::MAX.into())?.as_integer()?;
            u64::try_from(mode).ok().map(Value::Octal)
        }
        Type::PortRange => port_range(scalar),
        Type::RoutingTable => checked(scalar::routing_table(text)),
        Type::Choice(choice) => scalar::choice(text, choice).map(Value::from),
        Type::Arguments | Type::Object | Type::List(_) | Type::Keyed(..) | Type::Map(_) | Type::Struct(_) => {
            None
        }
    }
}

fn port_range(scalar: &Scalar) -> Option<Value> {
    whole(scalar, 0, u16::MAX.into()).or_else(|| {
        let (low, high) = scalar::port_range(&scalar.text)?;
        Some(if low == high { Value::from(low) } else { Value::text(format!("{low}-{high}")) })
    })
}

fn whole(scalar: &Scalar, least: i128, most: i128) -> Option<Value> {
    let number = match free_scalar(scalar, None) {
        Value::Integer(number) => number,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a whole number, and far out of range if it is large"
        )]
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e18 => number as i128,
        _ => return None,
    };
    (least..=most).contains(&number).then_some(Value::Integer(number))
}

fn wanted(kind: &Type) -> String {
    let words = match kind {
        Type::Text | Type::Manifest | Type::Expression => "text",
        Type::Bool => "true or false",
        Type::Signed(_) => "a whole number",
        Type::Unsigned(bits) => {
            return format!("a whole number from 0 to {}", (1_i128 << bits) - 1);
        }
        Type::Duration => "a duration such as 1h30m",
        Type::Base64 => "base64",
        Type::HardwareAddress => "a hardware address",
        Type::Address => "an IP address",
        Type::Prefix => "an address with its prefix length, such as 10.0.0.1/24,",
        Type::AddressPort => "an address and a port",
        Type::Url => "a URL",
        Type::ByteSize | Type::DiskSize => "a size such as 10GiB",
        Type::Size => "a size such as 10GiB or 50%",
        Type::SizeCondition => "a size with a comparison, such as >= 1TB,",
        Type::FileMode => "a file mode such as 0o644",
        Type::PortRange => "a port or a range such as 80-90",
        Type::RoutingTable => "a routing table: a number up to 252, main, local or default",
        Type::Choice(choice) => return format!("one of {}", choice.names.join(", ")),
        Type::List(_) | Type::Keyed(..) => "a list",
        Type::Arguments | Type::Object | Type::Map(_) | Type::Struct(_) => "a mapping",
    };
    words.to_owned()
}
