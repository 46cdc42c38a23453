//! Typed views of property strings, declared as tables.

/// Declares a struct that is one property string.
///
/// `required` options must be there; `optional` ones are `Option` fields, and `= default` says what absence means when
/// two values are compared. Every struct also has `other`: the options this crate does not know.
macro_rules! property_struct {
    (
        $(#[$doc:meta])*
        $name:ident: $grammar:expr;
        required { $($(#[$required_doc:meta])* $required:ident: $required_type:ty => $required_key:literal;)* }
        optional { $($(#[$field_doc:meta])* $field:ident: $field_type:ty => $key:literal $(= $default:expr)?;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$required_doc])* pub $required: $required_type,)*
            $($(#[$field_doc])* pub $field: Option<$field_type>,)*
            /// Options this crate does not know, as they were given.
            pub other: std::collections::BTreeMap<String, String>,
        }

        impl $name {
            pub const GRAMMAR: $crate::property::Grammar = $grammar;

            /// Reads Proxmox's text, in any of its spellings.
            pub fn parse(text: &str) -> Result<Self, $crate::property::PropertyError> {
                #[allow(unused_mut, reason = "a kind without options of its own takes none out")]
                let mut options = $crate::property::PropertyString::parse(text, &Self::GRAMMAR)?;
                let problem = |problem: String| {
                    $crate::property::PropertyError::new(Self::GRAMMAR.what, text, problem)
                };
                Ok(Self {
                    $($required: $crate::property::macros::take(&mut options, $required_key)
                        .and_then(|found| found.ok_or_else(|| concat!($required_key, " is missing").to_owned()))
                        .map_err(problem)?,)*
                    $($field: $crate::property::macros::take(&mut options, $key).map_err(problem)?,)*
                    other: options.into_options(),
                })
            }

            /// The options by key, in Proxmox's spelling.
            pub fn to_property_string(&self) -> $crate::property::PropertyString {
                let mut options = $crate::property::PropertyString::from(self.other.clone());
                $(options.insert($required_key, $crate::property::PropertyValue::print(&self.$required));)*
                $(if let Some(value) = &self.$field {
                    options.insert($key, $crate::property::PropertyValue::print(value));
                })*
                options
            }
        }

        $crate::property::macros::constructor!($name { $($required: $required_type),* } { $($field),* });

        /// Equal in meaning: spelling and order do not matter, and an option left out has its default.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $(self.$required == other.$required &&)*
                $($crate::property::macros::same!(self.$field, other.$field $(, $default)?) &&)*
                self.other == other.other
            }
        }

        impl Eq for $name {}

        $crate::property::macros::property_text!($name, |value: &$name| {
            value.to_property_string().print(&$name::GRAMMAR)
        });
    };
}

/// Gives a property string `new` with what it must have, or `Default` where it may be empty.
macro_rules! constructor {
    ($name:ident {} { $($field:ident),* }) => {
        impl Default for $name {
            fn default() -> Self {
                Self { $($field: None,)* other: std::collections::BTreeMap::new() }
            }
        }
    };
    ($name:ident { $($required:ident: $required_type:ty),+ } { $($field:ident),* }) => {
        impl $name {
            /// A value with nothing but what it must have.
            pub fn new($($required: $required_type),+) -> Self {
                Self { $($required,)+ $($field: None,)* other: std::collections::BTreeMap::new() }
            }
        }
    };
}

/// Compares two optional values, a left out one being the default where there is one.
macro_rules! same {
    ($left:expr, $right:expr) => {
        $left == $right
    };
    ($left:expr, $right:expr, $default:expr) => {{
        let default = || $default;
        $left.clone().unwrap_or_else(default) == $right.clone().unwrap_or_else(default)
    }};
}

/// Gives a type that has `parse` its `FromStr`, `Display` and serde, all through its text.
macro_rules! property_text {
    ($name:ident, $print:expr) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let print: fn(&$name) -> String = $print;
                f.write_str(&print(self))
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::property::PropertyError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::parse(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Declares an enum whose variants are words of Proxmox.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($variant),+ }

        impl $name {
            /// Every word, in Proxmox's spelling.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::property::PropertyValue for $name {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("`{text}` is none of {}", Self::WORDS.join(", "))),
                }
            }

            fn print(&self) -> String {
                self.as_str().to_owned()
            }
        }
    )+};
}

pub(super) use {constructor, property_struct, property_text, same, words};

use crate::property::{PropertyString, PropertyValue};

/// Takes an option out and reads it; a fault names the option.
pub(super) fn take<T: PropertyValue>(options: &mut PropertyString, key: &str) -> Result<Option<T>, String> {
    options.remove(key).map(|text| T::read(&text)).transpose().map_err(|problem| format!("{key}: {problem}"))
}
