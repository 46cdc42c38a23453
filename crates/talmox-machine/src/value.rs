//! Values of a config: what a YAML text says once its types are known.

use std::fmt;

/// A value. It may hold secrets, so `Debug` shows its shape and no text.
#[derive(Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    /// A number printed as `0o644`.
    Octal(u64),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    Map(Map),
}

/// A mapping that keeps its order; two are equal if they say the same in any order.
#[derive(Clone, Default)]
pub struct Map {
    entries: Vec<(String, Value)>,
}

impl Value {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }

    pub fn as_integer(&self) -> Option<i128> {
        if let Self::Integer(value) = self { Some(*value) } else { None }
    }

    pub fn as_list(&self) -> Option<&[Value]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    pub fn as_map(&self) -> Option<&Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Self::Map(map) = self { Some(map) } else { None }
    }

    /// What is found along keys of mappings.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.as_map()?.get(key))
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Octal(_) => "a whole number",
            Self::Float(_) => "a number with a fraction",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }

    /// The same without entries that are null: Talos takes them for absent.
    #[must_use]
    pub fn without_nulls(&self) -> Self {
        match self {
            Self::List(items) => Self::List(items.iter().map(Self::without_nulls).collect()),
            Self::Map(map) => Self::Map(
                map.iter()
                    .filter(|(_, value)| !matches!(value, Self::Null))
                    .map(|(key, value)| (key.to_owned(), value.without_nulls()))
                    .collect(),
            ),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Octal(_)
            | Self::Float(_)
            | Self::Text(_) => self.clone(),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u16> for Value {
    fn from(value: u16) -> Self {
        Self::Integer(value.into())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl Map {
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.iter_mut().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Sets a key, at its place if it is there, else at the end.
    pub fn set(&mut self, key: impl AsRef<str> + Into<String>, value: impl Into<Value>) {
        let value = value.into();
        match self.get_mut(key.as_ref()) {
            Some(slot) => *slot = value,
            None => self.entries.push((key.into(), value)),
        }
    }

    /// The same map with one more key, for maps that are written down.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.set(key, value);
        self
    }

    /// Sets a key if there is a value for it.
    #[must_use]
    pub fn with_some(self, key: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.entries.iter().position(|(known, _)| known == key)?;
        Some(self.entries.remove(at).1)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = (&str, &mut Value)> {
        self.entries.iter_mut().map(|(key, value)| (key.as_str(), value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Puts the keys in alphabetical order, as Talos prints mappings without known keys.
    pub(crate) fn sort(&mut self) {
        self.entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

impl IntoIterator for Map {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl FromIterator<(String, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(entries: I) -> Self {
        let mut map = Self::new();
        for (key, value) in entries {
            map.set(key, value);
        }
        map
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(items) => f.debug_list().entries(items).finish(),
            Self::Map(map) => map.fmt(f),
            Self::Null
            | Self::Bool(_)
            | Self::Integer(_)
            | Self::Octal(_)
            | Self::Float(_)
            | Self::Text(_) => f.write_str(self.kind()),
        }
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_the_shape_and_no_text() {
        let value = Value::Map(Map::new().with("token", "hunter2").with("ports", vec![Value::Integer(4711)]));
        let shown = format!("{value:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("4711"), "{shown}");
        assert!(shown.contains("token"), "{shown}");
    }

    #[test]
    fn maps_are_equal_in_any_order() {
        let one = Map::new().with("a", "1").with("b", "2");
        let other = Map::new().with("b", "2").with("a", "1");
        assert_eq!(one, other);
        assert_ne!(one, other.with("c", "3"));
    }
}
