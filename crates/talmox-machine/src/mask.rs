//! What may be shown of a config.
//!
//! Two kinds of fields are masked. *Secret* ones hold a secret and nothing else, as Talos itself has it. *Guarded* ones hold what people
//! wrote, files, manifests, variables of programs, and with it whatever secrets they put there. Beside them stands what came out of
//! variables, in any field.

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
            let is_hidden =
                |leaf: &Value| leaf.as_text().filter(|text| hidden.is_in(text)).map(|text| self.cover(text));
            body.values_mut().for_each(|value| leaves(value, &is_hidden));
        }
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
