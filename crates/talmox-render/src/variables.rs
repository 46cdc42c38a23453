//! What variables stand for, and the references to them: `${NAME}`, `${NAME:-default}`, `${NAME-default}`.

use std::collections::BTreeMap;
use std::fmt;

use talmox_machine::Hidden;

/// What variables stand for. `Debug` shows names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
    hidden: Hidden,
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// What is shown nowhere: all values, whether a patch refers to them or not.
    pub fn hidden(&self) -> &Hidden {
        &self.hidden
    }
}

impl FromIterator<(String, String)> for Variables {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        let values: BTreeMap<String, String> = pairs.into_iter().collect();
        let hidden = values.values().collect();
        Self { values, hidden }
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.values.keys()).finish()
    }
}

/// A reference that is not written as one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}: {message}")]
pub struct InvalidVariable {
    pub source_name: String,
    pub line: usize,
    pub message: String,
}

/// A reference to a variable that has no value, and no default.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{source_name}:{line}: {}", self.what())]
pub struct Unset {
    pub source_name: String,
    pub line: usize,
    pub name: String,
    /// It has a value, which is empty.
    pub is_empty: bool,
}

impl Unset {
    /// What is wrong, without the place.
    pub fn what(&self) -> String {
        format!("the variable {} is {}", self.name, if self.is_empty { "empty" } else { "not set" })
    }
}

/// What a reference says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference<'a> {
    pub name: &'a str,
    pub default: Option<Fallback<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fallback<'a> {
    pub text: &'a str,
    /// `:-`: an empty value counts as none.
    pub if_empty: bool,
}

impl<'a> Reference<'a> {
    /// What stands between the braces.
    pub(crate) fn parse(inside: &'a str) -> Result<Self, String> {
        let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
        let (name, form) = inside.split_at(end);
        let default = match (form.strip_prefix(":-"), form.strip_prefix('-')) {
            (Some(text), _) => Some(Fallback { text, if_empty: true }),
            (None, Some(text)) => Some(Fallback { text, if_empty: false }),
            (None, None) => None,
        };
        let is_name = is_name(name);
        if !is_name || default.is_none() && !form.is_empty() {
            return Err(format!(
                "`${{{inside}}}` is no variable: ${{NAME}}, ${{NAME:-default}} and ${{NAME-default}} are; write $${{{inside}}} for a literal"
            ));
        }
        Ok(Self { name, default })
    }
}

/// Whether a variable can be called that: letters, digits and `_`, not beginning with a digit.
pub fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_taken_apart() {
        let default = |text, if_empty| Some(Fallback { text, if_empty });
        for (inside, name, expected) in [
            ("NAME", "NAME", None),
            ("_x1", "_x1", None),
            ("A:-", "A", default("", true)),
            ("A:-b c", "A", default("b c", true)),
            ("A-b:-c", "A", default("b:-c", false)),
        ] {
            assert_eq!(Reference::parse(inside), Ok(Reference { name, default: expected }), "{inside}");
        }
        for inside in ["", "1", "NAME:+x", "NAME##*", "A B", "ä"] {
            assert!(Reference::parse(inside).unwrap_err().contains("is no variable"), "{inside}");
        }
    }

    #[test]
    fn every_value_is_hidden_and_debug_shows_none() {
        let pairs = [("TOKEN", "hush-hush"), ("SIZE", "4096"), ("UNUSED", "swordfish")];
        let variables: Variables = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
        let hidden = variables.hidden();
        assert!(hidden.is_in("a hush-hush") && hidden.is_in("swordfish") && !hidden.is_in("4096"));
        let shown = format!("{variables:?} {hidden:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hush-hush"), "{shown}");
    }
}
