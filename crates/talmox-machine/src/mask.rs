//! What may be shown of a config.
//!
//! Two kinds of fields are masked. *Secret* ones hold a secret and nothing else, as Talos itself has it. *Guarded* ones hold what people
//! wrote, files, manifests, variables of programs, and with it whatever secrets they put there. Beside them stands what came out of
//! variables, in any field and any key, and so does what an address says beyond where something is: who asks for it, and with what.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;

use crate::hidden::Hidden;
use crate::print::print;
use crate::scalar::REDACTED;
use crate::schema::{Struct, Type};
use crate::value::{Map, Value};

/// How far masking goes.
pub(crate) enum Mask<'a> {
    /// Fields that are secret.
    Secrets,
    /// Guarded ones as well, and texts that are hidden wherever they stand. The mark, where there is one, tells two of them apart.
    Guarded { hidden: &'a Hidden, mark: Option<&'a Mark> },
}

/// Tells masked texts apart: whoever looked at a plan is to hear of it if another text would be sent. Made with a secret of the
/// cluster, because what is short could be guessed from a mark anybody can make.
pub(crate) struct Mark(hmac::Key);

impl Mark {
    pub(crate) fn new(secret: &str) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
    }

    fn of(&self, text: &str) -> String {
        let tag = hmac::sign(&self.0, text.as_bytes());
        tag.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl Mask<'_> {
    /// Masks what a document with these fields says.
    pub(crate) fn document(&self, body: &mut Map, known: &Struct) {
        self.structure(body, known);
        if let Self::Guarded { hidden, .. } = self {
            let is_hidden = |leaf: &Value| {
                Some(shown(leaf)).filter(|text| hidden.is_in(text)).map(|text| self.cover(&text))
            };
            body.values_mut().for_each(|value| leaves(value, &is_hidden));
            let is_address = |leaf: &Value| self.address(leaf.as_text()?);
            body.values_mut().for_each(|value| leaves(value, &is_address));
        }
    }

    /// The keys of a document in which something hidden stands, with what is shown in their place. Only keys that people choose:
    /// those Talos knows by name are no secret.
    pub(crate) fn keys(&self, body: &Map, known: &Struct) -> CoveredKeys {
        let mut covered = CoveredKeys::default();
        if let Self::Guarded { hidden, .. } = self {
            let mut found = |key: &str| {
                if hidden.is_in(key) {
                    covered.0.insert(key.to_owned(), self.cover(key));
                }
            };
            chosen_keys_of_struct(body, known, &mut found);
        }
        covered
    }

    /// A document's name without what is hidden.
    pub(crate) fn name(&self, name: &str) -> String {
        match self {
            Self::Guarded { hidden, .. } if hidden.is_in(name) => self.cover(name),
            Self::Guarded { .. } | Self::Secrets => name.to_owned(),
        }
    }

    /// A text whose addresses say no more than where something is; none if they did not anyway.
    fn address(&self, text: &str) -> Option<String> {
        let covered = without_credentials(text)?;
        Some(match self {
            Self::Guarded { mark: Some(mark), .. } => format!("{covered} {}", mark.of(text)),
            Self::Guarded { mark: None, .. } | Self::Secrets => covered,
        })
    }

    /// Masks all of a value.
    pub(crate) fn whole(&self, value: &mut Value) {
        leaves(value, &|leaf| Some(self.cover(&shown(leaf))));
    }

    fn structure(&self, map: &mut Map, known: &Struct) {
        for field in known.fields {
            let Some(value) = map.get_mut(field.name) else { continue };
            if field.secret {
                leaves(value, &|_| Some(REDACTED.to_owned()));
            } else if field.guarded && matches!(self, Self::Guarded { .. }) {
                self.whole(value);
            } else {
                self.value(value, &field.kind);
                let entry = field.guarded_entry.and_then(|key| value.as_map_mut()?.get_mut(key));
                if let Some(entry) = entry.filter(|_| matches!(self, Self::Guarded { .. })) {
                    self.whole(entry);
                }
            }
        }
    }

    fn value(&self, value: &mut Value, kind: &Type) {
        match (value, kind) {
            (Value::Map(map), Type::Struct(known)) => self.structure(map, known),
            (Value::Map(map), Type::Map(kind)) => map.values_mut().for_each(|value| self.value(value, kind)),
            (Value::List(items), Type::List(kind)) => {
                for item in items.iter_mut() {
                    self.value(item, kind);
                }
            }
            (Value::List(items), Type::Keyed(known, _)) => {
                for item in items.iter_mut() {
                    self.value(item, &Type::Struct(known));
                }
            }
            _ => {}
        }
    }

    fn cover(&self, text: &str) -> String {
        match self {
            Self::Guarded { mark: Some(mark), .. } => format!("{REDACTED} {}", mark.of(text)),
            Self::Guarded { mark: None, .. } | Self::Secrets => REDACTED.to_owned(),
        }
    }
}

/// Keys that are not shown, with what is.
#[derive(Clone, Default)]
pub(crate) struct CoveredKeys(BTreeMap<String, String>);

impl CoveredKeys {
    /// Those of another document too.
    pub(crate) fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// What is shown of a key.
    pub(crate) fn shown<'k>(&'k self, key: &'k str) -> &'k str {
        self.0.get(key).map_or(key, String::as_str)
    }

    /// Renames the keys of a value. Two that look alike then are numbered.
    pub(crate) fn rename(&self, value: &mut Value) {
        match value {
            Value::Map(map) => self.rename_in(map),
            Value::List(items) => items.iter_mut().for_each(|item| self.rename(item)),
            Value::Null
            | Value::Bool(_)
            | Value::Integer(_)
            | Value::Octal(_)
            | Value::Float(_)
            | Value::Text(_) => {}
        }
    }

    pub(crate) fn rename_in(&self, map: &mut Map) {
        if self.0.is_empty() {
            return;
        }
        let mut renamed = Map::new();
        for (key, mut value) in std::mem::take(map) {
            self.rename(&mut value);
            let shown = self.shown(&key);
            let numbered = (2..).map(|number| format!("{shown} {number}"));
            let free = std::iter::once(shown.to_owned()).chain(numbered).find(|name| !renamed.contains(name));
            renamed.set(free.unwrap_or(key), value);
        }
        *map = renamed;
    }
}

fn chosen_keys_of_struct(map: &Map, known: &Struct, found: &mut dyn FnMut(&str)) {
    for (key, value) in map.iter() {
        if let Some(field) = known.field(key) {
            chosen_keys(value, &field.kind, found);
        }
    }
}

fn chosen_keys(value: &Value, kind: &Type, found: &mut dyn FnMut(&str)) {
    match (value, kind) {
        (Value::Map(map), Type::Struct(known)) => chosen_keys_of_struct(map, known, found),
        (Value::Map(map), Type::Map(kind)) => {
            for (key, value) in map.iter() {
                found(key);
                chosen_keys(value, kind, found);
            }
        }
        (Value::List(items), Type::List(kind)) => {
            for item in items {
                chosen_keys(item, kind, found);
            }
        }
        (Value::List(items), Type::Keyed(known, _)) => {
            items.iter().filter_map(Value::as_map).for_each(|map| chosen_keys_of_struct(map, known, found));
        }
        // Of what Talos knows nothing about, all keys are chosen.
        (Value::Map(map), _) => {
            for (key, value) in map.iter() {
                found(key);
                chosen_keys(value, &Type::Object, found);
            }
        }
        (Value::List(items), _) => items.iter().for_each(|item| chosen_keys(item, &Type::Object, found)),
        _ => {}
    }
}

/// What ends an address inside of a text.
fn ends_address(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '<' | '>' | '`')
}

/// A text without users, passwords and queries of the addresses in it, whatever field it stands in; none if it has none of them.
fn without_credentials(text: &str) -> Option<String> {
    let (mut shown, mut rest, mut found) = (String::with_capacity(text.len()), text, false);
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + "://".len());
        shown.push_str(before);
        rest = address;
        if let Some(length) = user_length(address) {
            shown.push_str(REDACTED);
            (rest, found) = (&address[length..], true);
        }
        // Another address may follow before a query does.
        let next = rest.find("://").unwrap_or(rest.len());
        let part = &rest[..next];
        let end = part.find(ends_address).unwrap_or(next);
        if let Some(query) = part[..end].find('?') {
            let whole = &rest[query + 1..];
            let length = whole.find(ends_address).unwrap_or(whole.len());
            shown.push_str(&rest[..=query]);
            if length > 0 {
                shown.push_str(REDACTED);
                found = true;
            }
            rest = &whole[length..];
        }
    }
    shown.push_str(rest);
    found.then_some(shown)
}

/// How much of what follows `://` is somebody's name and password. A password nobody encoded may hold what ends a host; what looks
/// like a port then is no number.
fn user_length(address: &str) -> Option<usize> {
    let address = &address[..address.find(ends_address).unwrap_or(address.len())];
    let authority = &address[..address.find(['/', '?', '#']).unwrap_or(address.len())];
    let is_port = |port: &str| port.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = authority.rsplit_once(':').is_none_or(|(_, port)| is_port(port));
    let next = address.find("://").unwrap_or(address.len());
    authority.rfind('@').or_else(|| address[..next].rfind('@').filter(|_| !is_host))
}

/// A value as text.
pub(crate) fn shown(value: &Value) -> String {
    value.as_text().map_or_else(|| print(value).trim_end().to_owned(), str::to_owned)
}

/// Puts something in the place of leaves; an empty text is no secret and says that there is none.
fn leaves(value: &mut Value, cover: &dyn Fn(&Value) -> Option<String>) {
    match value {
        Value::Map(map) => map.values_mut().for_each(|value| leaves(value, cover)),
        Value::List(items) => items.iter_mut().for_each(|item| leaves(item, cover)),
        Value::Text(text) if text.is_empty() => {}
        Value::Null => {}
        Value::Bool(_) | Value::Integer(_) | Value::Octal(_) | Value::Float(_) | Value::Text(_) => {
            if let Some(covered) = cover(value) {
                *value = Value::Text(covered);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_neither_who_asks_nor_what_with() {
        for (text, shown) in [
            ("https://user:pass@cni.lan/x.yaml", "https://******@cni.lan/x.yaml"),
            ("tcp://user:p@ss@host:514/", "tcp://******@host:514/"),
            ("https://cni.lan/x.yaml?token=abc&x=https://y/", "https://cni.lan/x.yaml?******"),
            ("https://u@a/?k#f", "https://******@a/?******"),
            ("talos.config=http://u:p@a/?t=1 quiet", "talos.config=http://******@a/?****** quiet"),
            ("http://u:p@a,http://v:w@b/", "http://******@a,http://******@b/"),
            (
                "--from 'https://u:p@a' --to \"https://b?x=1\"",
                "--from 'https://******@a' --to \"https://b?******\"",
            ),
            ("https://user:p/a?s@host/x@y", "https://******@y"),
            ("https://[fd00::1]:6443/a@b?x", "https://[fd00::1]:6443/a@b?******"),
            ("https://ü:ß@höst/?ä", "https://******@höst/?******"),
        ] {
            assert_eq!(without_credentials(text).as_deref(), Some(shown), "{text}");
        }
        for plain in [
            "https://cni.lan/a@b",
            "registry.lan/app@sha256:00",
            "what? user@host",
            "a://",
            "https://a/?",
            "",
        ] {
            assert_eq!(without_credentials(plain), None, "{plain}");
        }
    }
}
