//! Node taints.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// A taint in the short form of kubectl: `key=value:Effect` or `key:Effect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Taint {
    pub key: String,
    pub value: Option<String>,
    pub effect: TaintEffect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    NoSchedule,
    PreferNoSchedule,
    NoExecute,
}

impl Taint {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            Invalid::new(
                "a taint",
                text,
                "key=value:Effect or key:Effect, the effect one of NoSchedule, PreferNoSchedule, NoExecute",
            )
        };
        let (subject, effect) = text.rsplit_once(':').ok_or_else(invalid)?;
        let effect = match effect {
            "NoSchedule" => TaintEffect::NoSchedule,
            "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
            "NoExecute" => TaintEffect::NoExecute,
            _ => return Err(invalid()),
        };
        let (key, value) = match subject.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (subject, None),
        };
        if !crate::is_label_key(key) || !value.as_deref().is_none_or(crate::is_label_value) {
            return Err(invalid());
        }
        Ok(Self { key: key.to_owned(), value, effect })
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}:{:?}", self.key, self.effect),
            None => write!(f, "{}:{:?}", self.key, self.effect),
        }
    }
}

text_conversions!(Taint);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_round_trip() {
        for text in ["gpu=true:NoSchedule", "dedicated:NoExecute", "a.b/c=:PreferNoSchedule"] {
            assert_eq!(Taint::parse(text).unwrap().to_string(), text);
        }
        for bad in
            ["", "gpu", "gpu:Never", ":NoSchedule", "=x:NoSchedule", "a=b c:NoExecute", "!!=x:NoExecute"]
        {
            assert!(Taint::parse(bad).is_err(), "{bad}");
        }
    }
}
