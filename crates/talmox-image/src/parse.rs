//! Schematics as people and other tools write them: the Image Factory's own YAML or JSON.
//!
//! Everything is read at once and every mistake is reported with its place. What the factory would refuse is refused
//! here, so that a mistake is not found out about at the end of a run.

use std::fmt;

use talmox_yaml::{Entry, FaultKind, Node, NodeKind, PlainMeaning, Scalar, Span, Style};

use crate::canonical::Value;
use crate::canonical::resolve::{fraction, integer, is_float, is_timestamp};
use crate::schematic::{Bootloader, EnrollKeys, MetaValue, Overlay, Schematic, SecureBoot};
use crate::suggest::closest;

/// Longer keys would be printed in a notation nobody uses.
const LONGEST_KEY: usize = 128;

/// One mistake in a schematic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: usize,
    pub column: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message, hint } = self;
        write!(f, "line {line}, column {column}: {message}")?;
        hint.as_ref().map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

/// A text that is no schematic, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSchematic {
    pub faults: Vec<Fault>,
    /// How many there are beside those.
    pub more: usize,
}

/// How many mistakes are told with their places.
const MOST_FAULTS: usize = 100;

impl fmt::Display for InvalidSchematic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if index == 0 { "" } else { "\n" })?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\n{more} more mistakes are not shown"),
        }
    }
}

impl std::error::Error for InvalidSchematic {}

impl Schematic {
    /// Reads a schematic as the Image Factory does: unknown keys are refused.
    pub fn parse(text: &str) -> Result<Self, InvalidSchematic> {
        let parsed = talmox_yaml::parse(text);
        let mut reader = Reader { text, faults: Vec::new(), more: 0 };
        for fault in &parsed.faults {
            reader.yaml_fault(&fault.kind, fault.span);
        }
        let schematic = match parsed.documents.as_slice() {
            [document] if !document.is_null() => reader.schematic(document),
            [] | [_] => {
                // A text that could not be read is not empty.
                if reader.faults.is_empty() {
                    reader.empty();
                }
                Self::default()
            }
            [_, second, ..] => {
                let hint = "keep one document; each schematic is a file of its own";
                reader.fault(second.span, "a second document", Some(hint.to_owned()));
                Self::default()
            }
        };
        if reader.faults.is_empty() {
            return Ok(schematic);
        }
        reader.faults.sort_by_key(|fault| (fault.line, fault.column));
        Err(InvalidSchematic { faults: reader.faults, more: reader.more })
    }
}

struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
    more: usize,
}

impl Reader<'_> {
    fn schematic(&mut self, node: &Node) -> Schematic {
        let mut schematic = Schematic::default();
        for (key, value) in self.map(node, "a schematic", &["owner", "overlay", "customization"]) {
            match key {
                "owner" => schematic.owner = self.text(value),
                "overlay" => schematic.overlay = Some(self.overlay(value)),
                _ => self.customization(value, &mut schematic),
            }
        }
        schematic
    }

    fn customization(&mut self, node: &Node, schematic: &mut Schematic) {
        const KEYS: [&str; 7] = [
            "embeddedMachineConfiguration",
            "extraKernelArgs",
            "meta",
            "systemExtensions",
            "bootloader",
            "secureboot",
            "diskImage",
        ];
        for (key, value) in self.map(node, "customization", &KEYS) {
            match key {
                "embeddedMachineConfiguration" => {
                    schematic.embedded_machine_configuration = self.text(value);
                }
                "extraKernelArgs" => schematic.extra_kernel_args = self.texts(value),
                "meta" => schematic.meta = self.meta(value),
                "systemExtensions" => {
                    for (_, value) in self.map(value, "systemExtensions", &["officialExtensions"]) {
                        schematic.extensions = self.texts(value);
                    }
                }
                "bootloader" => {
                    schematic.bootloader =
                        self.word(value, Bootloader::WHAT, Bootloader::ALL, Bootloader::as_str);
                }
                "secureboot" => schematic.secure_boot = self.secure_boot(value),
                _ => {
                    for (_, value) in self.map(value, "diskImage", &["sectorSize"]) {
                        let size = self.number(value, u32::MAX.into());
                        schematic.sector_size = size.and_then(|size| u32::try_from(size).ok());
                    }
                }
            }
        }
    }

    fn overlay(&mut self, node: &Node) -> Overlay {
        let mut overlay = Overlay::default();
        for (key, value) in self.map(node, "overlay", &["image", "name", "options"]) {
            match key {
                "image" => overlay.image = self.text(value).unwrap_or_default(),
                "name" => overlay.name = self.text(value).unwrap_or_default(),
                _ => match self.any(value) {
                    Some(Value::Map(entries)) => overlay.options = entries,
                    Some(_) => self.fault(value.place(), "options is a mapping", None),
                    None => {}
                },
            }
        }
        overlay
    }

    fn meta(&mut self, node: &Node) -> Vec<MetaValue> {
        let mut values = Vec::new();
        for item in self.items(node) {
            let (mut key, mut text) = (None, None);
            for (name, value) in self.map(item, "meta", &["key", "value"]) {
                match name {
                    "key" => {
                        key = self.number(value, u8::MAX.into()).and_then(|key| u8::try_from(key).ok());
                    }
                    _ => text = self.text(value),
                }
            }
            match (key, text) {
                (Some(key), Some(value)) => values.push(MetaValue { key, value }),
                // Whatever is there and wrong has been reported.
                (None, _) if !has_key(item, "key") => {
                    self.fault(item.place(), "a META value without its key", Some("key: 10".to_owned()));
                }
                (_, None) if !has_key(item, "value") => {
                    self.fault(item.place(), "a META key without its value", Some("value: text".to_owned()));
                }
                _ => {}
            }
        }
        values
    }

    fn secure_boot(&mut self, node: &Node) -> SecureBoot {
        let mut secure_boot = SecureBoot::default();
        for (key, value) in self.map(node, "secureboot", &["enrollKeys", "includeWellKnownCertificates"]) {
            if key == "enrollKeys" {
                secure_boot.enroll_keys =
                    self.word(value, EnrollKeys::WHAT, EnrollKeys::ALL, EnrollKeys::as_str);
            } else {
                secure_boot.include_well_known_certificates = self.bool(value).unwrap_or_default();
            }
        }
        secure_boot
    }

    /// The entries of a mapping that are known and not empty.
    fn map<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        keys: &[&'static str],
    ) -> Vec<(&'static str, &'n Node)> {
        let Some(entries) = self.entries(node, what) else { return Vec::new() };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.key.as_scalar().map_or("", |scalar| scalar.text.as_str());
            match keys.iter().find(|key| **key == name) {
                Some(key) if !entry.value.is_null() => found.push((*key, &entry.value)),
                Some(_) => {}
                None => {
                    let hint = match closest(name, keys.iter().copied()) {
                        Some(meant) => format!("did you mean {meant}?"),
                        None => format!("keys here: {}", keys.join(", ")),
                    };
                    self.fault(entry.key.place(), &format!("{what} has no key {name}"), Some(hint));
                }
            }
        }
        found
    }

    fn entries<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            NodeKind::Mapping(entries) => Some(entries),
            NodeKind::Scalar(_) | NodeKind::Sequence(_) => {
                self.fault(node.place(), &format!("{what} is a mapping"), None);
                None
            }
        }
    }

    fn items<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            NodeKind::Sequence(items) => items,
            NodeKind::Scalar(_) | NodeKind::Mapping(_) => {
                self.fault(node.place(), "this is a list", Some("begin each item with `- `".to_owned()));
                &[]
            }
        }
    }

    fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n Scalar> {
        if let Some(tag) = node.tag.as_ref().filter(|tag| !is_text_tag(tag)) {
            self.fault(node.place(), &format!("the tag {tag} means nothing here"), None);
            return None;
        }
        let scalar = node.as_scalar().filter(|_| !node.is_null());
        if scalar.is_none() {
            self.fault(node.place(), &format!("this is {what}"), None);
        }
        scalar
    }

    /// Text is taken as it is written, whatever it looks like: `0755` stays `0755`.
    fn text(&mut self, node: &Node) -> Option<String> {
        self.scalar(node, "text").map(|scalar| scalar.text.clone())
    }

    fn texts(&mut self, node: &Node) -> Vec<String> {
        self.items(node).iter().filter_map(|item| self.text(item)).collect()
    }

    fn number(&mut self, node: &Node, largest: i128) -> Option<i128> {
        let scalar = self.scalar(node, "a number")?;
        let value = (scalar.style == Style::Plain).then(|| integer(&scalar.text.replace('_', ""))).flatten();
        let value = value.filter(|value| (0..=largest).contains(value));
        if value.is_none() {
            self.fault(node.place(), &format!("this is a number from 0 to {largest}"), None);
        }
        value
    }

    fn bool(&mut self, node: &Node) -> Option<bool> {
        let scalar = self.scalar(node, "true or false")?;
        if let PlainMeaning::Bool(value) | PlainMeaning::OldBool(value) = scalar.meaning() {
            return Some(value);
        }
        self.fault(node.place(), "this is true or false", None);
        None
    }

    fn word<T: Copy>(
        &mut self,
        node: &Node,
        what: &str,
        all: &[T],
        as_str: fn(T) -> &'static str,
    ) -> Option<T> {
        let scalar = self.scalar(node, what)?;
        let found = all.iter().copied().find(|word| as_str(*word) == scalar.text);
        if found.is_none() {
            let words: Vec<&str> = all.iter().map(|word| as_str(*word)).collect();
            let hint = match closest(&scalar.text, words.iter().copied()) {
                Some(meant) => format!("did you mean {meant}?"),
                None => format!("one of {}; leave it out for the default", words.join(", ")),
            };
            self.fault(node.place(), &format!("{} is not {what}", scalar.text), Some(hint));
        }
        found
    }

    /// A free-form value, by the meaning it has to the factory.
    fn any(&mut self, node: &Node) -> Option<Value> {
        match &node.kind {
            NodeKind::Scalar(scalar) => {
                let value = any_scalar(scalar);
                if value.is_none() {
                    let hint = "put it in quotes to have it as text".to_owned();
                    self.fault(node.place(), "dates are not kept as they are written", Some(hint));
                }
                value
            }
            NodeKind::Sequence(items) => {
                Some(Value::List(items.iter().filter_map(|item| self.any(item)).collect()))
            }
            NodeKind::Mapping(entries) => {
                let mut values = Vec::new();
                for entry in entries {
                    let key = entry.key.as_scalar().map_or("", |scalar| scalar.text.as_str());
                    let usual =
                        key.len() <= LONGEST_KEY && key.bytes().all(|b| b == b' ' || b.is_ascii_graphic());
                    if !usual || !matches!(entry.key.as_scalar().and_then(any_scalar), Some(Value::Text(_))) {
                        self.fault(entry.key.place(), "keys here are short ASCII text", None);
                    } else if let Some(value) = self.any(&entry.value) {
                        values.push((key.to_owned(), value));
                    }
                }
                Some(Value::sorted(values))
            }
        }
    }

    fn empty(&mut self) {
        let hint = "an image without changes is `customization: {}`".to_owned();
        self.fault(Span::default(), "there is no schematic in this file", Some(hint));
    }

    fn yaml_fault(&mut self, kind: &FaultKind, span: Span) {
        let message = match kind {
            FaultKind::Syntax(words) => format!("this is not YAML: {words}"),
            FaultKind::Tab => "a tab, where YAML wants blanks".to_owned(),
            FaultKind::DuplicateKey { key, .. } => format!("{key} is there twice"),
            FaultKind::UnknownAlias(name) => format!("*{name} without &{name} before it"),
            FaultKind::AliasKnot => "an alias inside its own anchor".to_owned(),
            FaultKind::Limit(limit) => limit.to_string(),
            FaultKind::ComplexKey => "a key is text, not a list or a mapping".to_owned(),
        };
        self.fault(span, &message, None);
    }

    fn fault(&mut self, span: Span, message: &str, hint: Option<String>) {
        if self.faults.len() == MOST_FAULTS {
            self.more += 1;
            return;
        }
        let at = (span.start as usize).min(self.text.len());
        let before = self.text.get(..at).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.faults.push(Fault {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: message.to_owned(),
            hint,
        });
    }
}

fn has_key(node: &Node, key: &str) -> bool {
    match &node.kind {
        NodeKind::Mapping(entries) => {
            entries.iter().any(|entry| entry.key.as_scalar().is_some_and(|scalar| scalar.text == key))
        }
        // Not a mapping at all, and reported as that.
        NodeKind::Scalar(_) | NodeKind::Sequence(_) => true,
    }
}

fn is_text_tag(tag: &str) -> bool {
    ["!!str", "tag:yaml.org,2002:str"].contains(&tag)
}

/// What a scalar is where anything may stand; none for a date, which would not be printed as it was written.
fn any_scalar(scalar: &Scalar) -> Option<Value> {
    let Scalar { text, style } = scalar;
    if *style != Style::Plain {
        return Some(Value::Text(text.clone()));
    }
    let plain = text.replace('_', "");
    let number = text.starts_with(['+', '-']) || text.starts_with(|c: char| c.is_ascii_digit());
    Some(match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Value::Float(f64::NEG_INFINITY),
        "-0" => Value::Float(-0.0),
        _ if is_timestamp(text) => return None,
        _ if number && integer(&plain).is_some() => Value::Integer(integer(&plain).unwrap_or_default()),
        _ if number && is_float(&plain) => match plain.parse::<f64>() {
            Ok(value) if value.is_finite() => Value::Float(value),
            _ => Value::Text(text.clone()),
        },
        _ => fraction(text).map_or_else(|| Value::Text(text.clone()), Value::Float),
    })
}
