//! Property strings in general: text to options and back.

use std::collections::BTreeMap;

use crate::property::PropertyError;

/// Keys that name a model and carry another option's value: `virtio=MAC` means `model=virtio,macaddr=MAC`.
#[derive(Clone, Copy, Debug)]
pub struct ModelKeys {
    pub models: &'static [&'static str],
    /// The option that gets the model's name.
    pub model: &'static str,
    /// The option that gets the value.
    pub value: &'static str,
}

/// How one kind of property string is written.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// The kind with its article, for errors: `a disk`.
    pub what: &'static str,
    /// The option whose key may be left out.
    pub default_key: Option<&'static str>,
    /// Whether the default option is printed without its key.
    pub bare_default: bool,
    /// Other spellings of keys: (alias, key).
    pub aliases: &'static [(&'static str, &'static str)],
    /// Options printed before the sorted rest, in this order.
    pub leading: &'static [&'static str],
    pub model_keys: Option<ModelKeys>,
    /// Whether an option may be given again; the last one counts then.
    pub repeatable: bool,
}

impl Grammar {
    /// A grammar without default key, aliases or an order of its own.
    pub const fn new(what: &'static str) -> Self {
        Self {
            what,
            default_key: None,
            bare_default: true,
            aliases: &[],
            leading: &[],
            model_keys: None,
            repeatable: false,
        }
    }

    #[must_use]
    pub const fn default_key(mut self, key: &'static str) -> Self {
        self.default_key = Some(key);
        self
    }

    #[must_use]
    pub const fn aliases(mut self, aliases: &'static [(&'static str, &'static str)]) -> Self {
        self.aliases = aliases;
        self
    }

    #[must_use]
    pub const fn leading(mut self, keys: &'static [&'static str]) -> Self {
        self.leading = keys;
        self
    }

    /// The default option is accepted bare and printed with its key, like `order=` in `startup`.
    #[must_use]
    pub const fn print_default_key(mut self) -> Self {
        self.bare_default = false;
        self
    }

    /// Options may be given again, like in `startup`, which Proxmox reads with code of its own.
    #[must_use]
    pub const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    #[must_use]
    pub const fn model_keys(mut self, keys: ModelKeys) -> Self {
        self.model_keys = Some(keys);
        self
    }

    fn canonical_key<'a>(&self, key: &'a str) -> &'a str {
        self.aliases.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, canonical)| canonical)
    }
}

/// Options of a property string by key, whatever their order and whichever of them stood bare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PropertyString {
    options: BTreeMap<String, String>,
}

impl PropertyString {
    /// Reads a text. Blank parts are skipped as Proxmox does; a duplicate key is an error, by alias too, unless
    /// the grammar says otherwise.
    pub fn parse(text: &str, grammar: &Grammar) -> Result<Self, PropertyError> {
        let mut parsed = Self::default();
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            parsed
                .read_part(part, grammar)
                .map_err(|problem| PropertyError::new(grammar.what, text, problem))?;
        }
        Ok(parsed)
    }

    fn read_part(&mut self, part: &str, grammar: &Grammar) -> Result<(), String> {
        match part.split_once('=') {
            Some(("", _)) => Err(format!("`{part}` has no key")),
            Some((key, "")) => Err(format!("{key} has no value")),
            Some((key, value)) => match grammar.model_keys {
                Some(keys) if keys.models.contains(&key) => {
                    self.put(keys.model, key, grammar)?;
                    self.put(keys.value, value, grammar)
                }
                _ => self.put(grammar.canonical_key(key), value, grammar),
            },
            None => match grammar.default_key {
                Some(key) => self.put(key, part, grammar),
                None => Err(format!("`{part}` has no key")),
            },
        }
    }

    fn put(&mut self, key: &str, value: &str, grammar: &Grammar) -> Result<(), String> {
        match self.options.insert(key.to_owned(), value.to_owned()) {
            Some(_) if !grammar.repeatable => Err(format!("{key} is given twice")),
            _ => Ok(()),
        }
    }

    /// Prints the options as Proxmox does: default bare and first, then the grammar's own order, then sorted by key.
    pub fn print(&self, grammar: &Grammar) -> String {
        let mut left: BTreeMap<&str, &str> =
            self.options.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let mut parts = Vec::with_capacity(left.len());
        if let Some(part) = grammar.default_key.and_then(|key| print_default(key, &mut left, grammar)) {
            parts.push(part);
        }
        for key in grammar.leading {
            parts.extend(left.remove(key).map(|value| format!("{key}={value}")));
        }
        parts.extend(left.iter().map(|(key, value)| format!("{key}={value}")));
        parts.join(",")
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.options.get(key).map(String::as_str)
    }

    /// Sets an option and gives its value before.
    pub fn insert(&mut self, key: impl Into<String>, value: impl Into<String>) -> Option<String> {
        self.options.insert(key.into(), value.into())
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.options.remove(key)
    }

    pub fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// The options that are left, by key.
    pub fn into_options(self) -> BTreeMap<String, String> {
        self.options
    }
}

impl From<BTreeMap<String, String>> for PropertyString {
    fn from(options: BTreeMap<String, String>) -> Self {
        Self { options }
    }
}

fn print_default(key: &'static str, left: &mut BTreeMap<&str, &str>, grammar: &Grammar) -> Option<String> {
    let value = left.remove(key)?;
    let carried =
        grammar.model_keys.filter(|keys| keys.model == key).and_then(|keys| left.remove(keys.value));
    Some(match carried {
        Some(carried) => format!("{value}={carried}"),
        // Bare, what stands before a `=` would be read as a key.
        None if grammar.bare_default && !value.contains('=') => value.to_owned(),
        None => format!("{key}={value}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar::new("a thing").default_key("file").aliases(&[("volume", "file")]);

    #[test]
    fn order_and_default_key_do_not_matter() {
        let bare = PropertyString::parse("a:b,size=1G,,backup=0", &GRAMMAR).unwrap();
        let keyed = PropertyString::parse("backup=0,volume=a:b,size=1G", &GRAMMAR).unwrap();
        assert_eq!(bare, keyed);
        assert_eq!(bare.print(&GRAMMAR), "a:b,backup=0,size=1G");
    }

    #[test]
    fn a_value_that_looks_like_an_option_is_printed_with_its_key() {
        let options = PropertyString::parse("file=a=b,size=1G", &GRAMMAR).unwrap();
        assert_eq!(options.get("file"), Some("a=b"));
        assert_eq!(PropertyString::parse(&options.print(&GRAMMAR), &GRAMMAR).unwrap(), options);
    }

    #[test]
    fn what_proxmox_refuses_is_refused() {
        for (bad, problem) in [
            ("a:b,c:d", "file is given twice"),
            ("a:b,volume=c:d", "file is given twice"),
            ("a:b,x=1,x=1", "x is given twice"),
            ("a:b,x=", "x has no value"),
            ("=1", "`=1` has no key"),
        ] {
            assert_eq!(PropertyString::parse(bad, &GRAMMAR).unwrap_err().problem, problem, "{bad}");
        }
        assert!(PropertyString::parse("bare", &Grammar::new("a thing")).is_err());
    }
}
