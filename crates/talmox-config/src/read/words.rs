//! Text of particular forms.

use std::collections::BTreeMap;

use talmox_types::{Invalid, is_dns_name, is_host, is_label_key, is_label_value};
use talmox_yaml::{Node, NodeKind};

use super::scalars::plain_text;
use super::{Reading, Shape, Value, read_checked};
use crate::problem::{Code, Problem};

/// Defines a text of a form: its name, what it is called, the rule in words, and the rule itself.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $valid:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(pub String);

        impl $name {
            fn parse(text: &str) -> Result<Self, Invalid> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    return Ok(Self(text.to_owned()));
                }
                Err(Invalid { what: $what, value: text.to_owned(), rule: $rule })
            }
        }

        impl Value for $name {
            fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
                read_checked(node, $what, reading, Self::parse)
            }

            fn shape() -> Shape {
                Shape::Text { what: $what, pattern: None }
            }

            fn show(&self) -> String {
                self.0.clone()
            }
        }
    )+};
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control())
}

words! {
    /// A word such as a CPU model or a kernel module.
    Word, "a word", "no blanks and no control characters", is_word;
    /// The domain of a cluster's services.
    Domain, "a domain name", "labels of letters, digits and `-`, joined by dots, like cluster.local",
        |text| is_dns_name(text) && text.contains(|c: char| c.is_ascii_alphabetic());
    /// A machine by name or address.
    Host, "a host name or address", "a DNS name like time.example.com, or an IP address", is_host;
    /// A name a certificate can be valid for.
    CertificateName, "a name for a certificate", "a DNS name (`*.` may lead it) or an IP address",
        |text| is_host(text.strip_prefix("*.").unwrap_or(text));
    /// The name of a Talos user volume.
    VolumeName, "a volume name", "letters, digits and `-`, at most 34",
        |text| (1..=34).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    /// The value of a Kubernetes label.
    LabelValue, "a label value", "letters, digits, `-`, `_` and `.`, at most 63, beginning and ending with a letter or digit",
        |text| !text.is_empty() && is_label_value(text);
}

/// Types that are a text and nothing more give it away.
macro_rules! into_text {
    ($($name:ty),+) => {$(
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    )+};
}

into_text!(super::Text, Word, Domain, Host, CertificateName, VolumeName, LabelValue, Content, Variable);

/// Text of several lines whose content is nobody's business: shown by its size only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(pub String);

impl Value for Content {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        plain_text(node, "text", reading).map(|text| Self(text.to_owned()))
    }

    fn shape() -> Shape {
        Shape::Text { what: "text", pattern: None }
    }

    fn show(&self) -> String {
        format!("({} bytes)", self.0.len())
    }
}

/// A variable for a service, `NAME=value`; only its name is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(pub String);

impl Value for Variable {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let text = plain_text(node, "a variable", reading)?;
        let name = text.split_once('=').map_or("", |(name, _)| name);
        let valid = !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !text.chars().any(char::is_control);
        if !valid {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::InvalidValue, "this is not a variable")
                    .at(location, "not shown")
                    .conceal(location)
                    .hint("NAME=value"),
            );
        }
        valid.then(|| Self(text.to_owned()))
    }

    fn shape() -> Shape {
        Shape::Text { what: "NAME=value", pattern: Some("^[A-Za-z0-9_]+=") }
    }

    fn show(&self) -> String {
        format!("{}=…", self.0.split('=').next().unwrap_or_default())
    }
}

/// Kubernetes labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub BTreeMap<String, String>);

/// Kubernetes annotations: keys like labels, values of any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations(pub BTreeMap<String, String>);

const KEY_RULE: &str = "name or prefix/name: letters, digits, `-`, `_` and `.`, at most 63";

fn read_map(
    node: &Node,
    what: &str,
    valid_value: fn(&str) -> bool,
    reading: &mut Reading<'_>,
) -> Option<BTreeMap<String, String>> {
    let NodeKind::Mapping(entries) = &node.kind else {
        reading.wrong_type(node, "a mapping of keys to text");
        return None;
    };
    let mut read = BTreeMap::new();
    for entry in entries {
        let key = entry.key.as_scalar()?.text.as_str();
        let Some(value) = plain_text(&entry.value, "text", reading) else { continue };
        if !is_label_key(key) {
            let location = reading.location(&entry.key);
            let problem = Problem::error(Code::InvalidValue, format!("{key:?} is not the key of {what}"));
            reading.report(problem.at(location, "not a key").hint(KEY_RULE));
        } else if !valid_value(value) {
            let location = reading.location(&entry.value);
            let problem = Problem::error(Code::InvalidValue, format!("{value:?} is not the value of {what}"));
            reading.report(problem.at(location, "not a value").hint(
                "letters, digits, `-`, `_` and `.`, at most 63, beginning and ending with a letter or digit",
            ));
        } else {
            read.insert(key.to_owned(), value.to_owned());
        }
    }
    (read.len() == entries.len()).then_some(read)
}

pub(crate) fn show_map(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}: {value:?}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

impl Value for Labels {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        read_map(node, "a label", is_label_value, reading).map(Self)
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(Shape::Text { what: "text", pattern: None }))
    }

    fn show(&self) -> String {
        show_map(&self.0)
    }
}

impl Value for Annotations {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        read_map(node, "an annotation", |_| true, reading).map(Self)
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(Shape::Text { what: "text", pattern: None }))
    }

    fn show(&self) -> String {
        show_map(&self.0)
    }
}
