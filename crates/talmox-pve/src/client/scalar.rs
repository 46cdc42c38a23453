//! Proxmox's loose scalars.
//!
//! Its server is Perl: a number that was once used as text comes back as text, a boolean is `0`, `1` or `""`, and only
//! what QEMU or the guest agent said has real booleans. Every field is read through here.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// A type that can be read from any JSON scalar Proxmox may use for it.
pub(crate) trait FromScalar: Sized {
    /// The value; `Ok(None)` if the scalar means that there is none.
    fn from_scalar(value: &Value) -> Result<Option<Self>, String>;
}

/// A scalar's text, `None` for null. Objects and lists are no scalars.
pub(crate) fn text(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(on) => Ok(Some(u8::from(*on).to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => {
            Err("expected a text or number, found a list or object".to_owned())
        }
    }
}

impl FromScalar for String {
    fn from_scalar(value: &Value) -> Result<Option<Self>, String> {
        text(value)
    }
}

impl FromScalar for bool {
    fn from_scalar(value: &Value) -> Result<Option<Self>, String> {
        match text(value)?.as_deref() {
            None => Ok(None),
            Some("" | "0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(other) => Err(format!("expected 0 or 1, found `{other}`")),
        }
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl FromScalar for $number {
            fn from_scalar(value: &Value) -> Result<Option<Self>, String> {
                match text(value)?.as_deref() {
                    None | Some("") => Ok(None),
                    Some(text) => {
                        text.trim().parse().map(Some).map_err(|_| format!("expected a number, found `{text}`"))
                    }
                }
            }
        }
    )+};
}

numbers!(u16, u32, u64, i64, f64);

/// Types with a `FromStr` of their own.
macro_rules! by_text {
    ($($kind:ty),+ $(,)?) => {$(
        impl FromScalar for $kind {
            fn from_scalar(value: &Value) -> Result<Option<Self>, String> {
                match text(value)?.as_deref() {
                    None | Some("") => Ok(None),
                    Some(text) => text.parse().map(Some).map_err(|error| format!("{error}")),
                }
            }
        }
    )+};
}

by_text!(
    talmox_types::HostName,
    talmox_types::StorageId,
    talmox_types::Fingerprint,
    talmox_types::PoolName,
    talmox_types::MappingName,
    crate::property::VolumeId,
    crate::property::Slot,
    crate::client::Upid,
    crate::client::VersionNumber,
);

impl FromScalar for talmox_types::VmId {
    fn from_scalar(value: &Value) -> Result<Option<Self>, String> {
        let number = u32::from_scalar(value)?;
        number.map(Self::try_from).transpose().map_err(|error| error.to_string())
    }
}

/// For `deserialize_with`: a value that must be there.
pub(crate) fn scalar<'de, D: Deserializer<'de>, T: FromScalar>(deserializer: D) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    T::from_scalar(&value).map_err(de::Error::custom)?.ok_or_else(|| de::Error::custom("found no value"))
}

/// For `default, deserialize_with`: a value that may be absent, null or empty.
pub(crate) fn optional<'de, D: Deserializer<'de>, T: FromScalar>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    T::from_scalar(&value).map_err(de::Error::custom)
}

/// For `default, deserialize_with`: a switch whose absence means off.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    optional(deserializer).map(Option::unwrap_or_default)
}

/// For `default, deserialize_with`: a number or text whose absence means zero or nothing.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: FromScalar + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    optional(deserializer).map(Option::unwrap_or_default)
}

/// For `default, deserialize_with`: words joined by commas, or a list of them.
pub(crate) fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let split = |text: String| {
        text.split([',', ' ', ';']).filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    if let Value::Array(items) = &value {
        let texts = items.iter().filter_map(|item| text(item).transpose());
        return texts.collect::<Result<_, _>>().map_err(de::Error::custom);
    }
    Ok(text(&value).map_err(de::Error::custom)?.map(split).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Loose {
        #[serde(default, deserialize_with = "flag")]
        on: bool,
        #[serde(default, deserialize_with = "optional")]
        number: Option<u64>,
        #[serde(default, deserialize_with = "words")]
        list: Vec<String>,
    }

    #[test]
    fn every_spelling_of_a_switch_and_a_number() {
        for (on, expected) in [
            (json!(1), true),
            (json!("1"), true),
            (json!(true), true),
            (json!(0), false),
            (json!("0"), false),
            (json!(""), false),
            (json!(null), false),
            (json!(false), false),
        ] {
            assert_eq!(serde_json::from_value::<Loose>(json!({ "on": on })).unwrap().on, expected);
        }
        for (number, expected) in [
            (json!(5), Some(5)),
            (json!("5"), Some(5)),
            (json!(" 5"), Some(5)),
            (json!(""), None),
            (json!(null), None),
            (json!(true), Some(1)),
        ] {
            assert_eq!(
                serde_json::from_value::<Loose>(json!({ "number": number })).unwrap().number,
                expected
            );
        }
        assert!(serde_json::from_value::<Loose>(json!({ "number": "x" })).is_err());
        assert!(serde_json::from_value::<Loose>(json!({ "on": [] })).is_err());
        assert_eq!(
            serde_json::from_value::<Loose>(json!({ "list": "iso,images" })).unwrap().list,
            ["iso", "images"]
        );
        assert_eq!(serde_json::from_value::<Loose>(json!({ "list": ["a", 1] })).unwrap().list, ["a", "1"]);
    }
}
