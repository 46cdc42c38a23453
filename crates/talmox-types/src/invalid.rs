//! The one error of parsing a checked value.

/// A text that is not a valid value of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{value}` is not {what}: {rule}")]
pub struct Invalid {
    /// What was expected, with its article: `a node name`.
    pub what: &'static str,
    /// The text as it was given.
    pub value: String,
    /// The rule it breaks, as a person would say it.
    pub rule: &'static str,
}

impl Invalid {
    pub(crate) fn new(what: &'static str, value: &str, rule: &'static str) -> Self {
        Self { what, value: value.to_owned(), rule }
    }
}

/// Gives a checked text type its conversions: `FromStr`, `Display` and serde, all through its `parse`.
macro_rules! text_conversions {
    ($($name:ident),+ $(,)?) => {$(
        impl std::str::FromStr for $name {
            type Err = $crate::Invalid;
            fn from_str(text: &str) -> Result<Self, $crate::Invalid> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = $crate::Invalid;
            fn try_from(text: String) -> Result<Self, $crate::Invalid> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }
    )+};
}

pub(crate) use text_conversions;
