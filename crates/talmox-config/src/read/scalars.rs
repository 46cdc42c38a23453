//! Text, booleans, choices and checked types.

use std::net::IpAddr;

use talmox_types::{
    AddressRange, BridgeName, Cidr, ClusterName, ClusterUid, Contract, Fingerprint, HostName, Invalid,
    MacAddress, MappingName, NodeName, NodePoolName, PciAddress, Ratio, SchematicId, StorageId, Tag, Taint,
    Version,
};
use talmox_yaml::{Node, PlainMeaning};

use super::{Reading, Shape, Value};
use crate::problem::{Code, Problem};

/// Text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl Value for Text {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let text = plain_text(node, "text", reading)?;
        let problem = if text.is_empty() {
            ("the text is empty", "empty")
        } else if text.chars().any(char::is_control) {
            ("the text holds a line feed or another control character", "more than one line of plain text")
        } else {
            return Some(Self(text.to_owned()));
        };
        let location = reading.location(node);
        reading.report(Problem::error(Code::InvalidValue, problem.0).at(location, problem.1));
        None
    }

    fn shape() -> Shape {
        Shape::Text { what: "text", pattern: None }
    }

    fn show(&self) -> String {
        self.0.clone()
    }
}

/// The text of a scalar. A word that other readers take for a boolean is refused: who writes `name: no` means text.
pub(super) fn plain_text<'n>(node: &'n Node, expected: &str, reading: &mut Reading<'_>) -> Option<&'n str> {
    let Some(scalar) = node.as_scalar() else {
        reading.wrong_type(node, expected);
        return None;
    };
    let location = reading.location(node);
    let meaning = scalar.meaning();
    let problem = if matches!(meaning, PlainMeaning::Bool(_)) {
        Problem::error(Code::WrongType, format!("expected {expected}, found {}", scalar.text))
            .at(location, "a boolean")
            .hint(format!("write \"{}\" with quotes if text is meant", scalar.text))
    } else if let PlainMeaning::OldBool(value) = meaning {
        Problem::error(Code::YamlTrap, format!("{} is text to some YAML readers only", scalar.text))
            .at(location, format!("{value} in YAML 1.1, text in 1.2"))
            .hint(format!("write \"{}\" with quotes", scalar.text))
    } else {
        return Some(&scalar.text);
    };
    reading.report(problem);
    None
}

impl Value for bool {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(scalar) = node.as_scalar() else {
            reading.wrong_type(node, "true or false");
            return None;
        };
        let location = reading.location(node);
        let meaning = scalar.meaning();
        let problem = if let PlainMeaning::Bool(value) = meaning {
            return Some(value);
        } else if let PlainMeaning::OldBool(value) = meaning {
            Problem::error(Code::YamlTrap, format!("{} is a boolean to some YAML readers only", scalar.text))
                .at(location, format!("{value} in YAML 1.1, text in 1.2"))
                .hint(format!("write {value}"))
        } else {
            let problem = Problem::error(Code::WrongType, "expected true or false")
                .at(location, "neither true nor false");
            match scalar.text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => problem.hint("write true, without quotes"),
                "false" | "no" | "off" | "0" => problem.hint("write false, without quotes"),
                _ => problem,
            }
        };
        reading.report(problem);
        None
    }

    fn shape() -> Shape {
        Shape::Bool
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Reads text as a checked type and reports the rule it breaks.
pub fn read_checked<T>(
    node: &Node,
    what: &str,
    reading: &mut Reading<'_>,
    parse: impl Fn(&str) -> Result<T, Invalid>,
) -> Option<T> {
    let text = plain_text(node, what, reading)?;
    match parse(text) {
        Ok(value) => Some(value),
        Err(invalid) => {
            let location = reading.location(node);
            reading.report(
                Problem::error(Code::InvalidValue, format!("{} is not {what}", quoted(text)))
                    .at(location, format!("not {what}"))
                    .hint(invalid.rule),
            );
            None
        }
    }
}

/// Refuses names that a command would take for an option, or a path for a way up. Proxmox allows some of them, so what
/// is there may have one; a description may not bring one in.
pub fn harmless<T>(parse: impl Fn(&str) -> Result<T, Invalid>) -> impl Fn(&str) -> Result<T, Invalid> {
    move |text| {
        let parsed = parse(text)?;
        let strange = |part: &str| part.starts_with('-') || part == "." || part.contains("..");
        if text.split('/').any(strange) {
            let rule = "no part of the name begins with `-` or is `.`, and `..` stands nowhere in it";
            return Err(Invalid { what: "a harmless name", value: text.to_owned(), rule });
        }
        Ok(parsed)
    }
}

/// A text for a message: as it is where it is one short word, else in quotes and cut.
fn quoted(text: &str) -> String {
    let plain =
        !text.is_empty() && text.len() <= 80 && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if plain {
        return text.to_owned();
    }
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

/// Makes checked types readable: each with the words for what is expected.
macro_rules! text_values {
    ($($type:ty, $what:literal, $pattern:expr, $parse:expr;)+) => {$(
        impl $crate::read::Value for $type {
            fn read(
                node: &talmox_yaml::Node,
                reading: &mut $crate::read::Reading<'_>,
            ) -> Option<Self> {
                $crate::read::read_checked(node, $what, reading, $parse)
            }

            fn shape() -> $crate::read::Shape {
                $crate::read::Shape::Text { what: $what, pattern: $pattern }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

text_values! {
    NodeName, "a node name", Some("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"), NodeName::parse;
    NodePoolName, "a node pool name", Some("^[a-z0-9]([a-z0-9-]{0,57}[a-z0-9])?$"), NodePoolName::parse;
    ClusterName, "a cluster name", Some("^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"), ClusterName::parse;
    HostName, "a Proxmox host name", Some("^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$"), HostName::parse;
    StorageId, "a Proxmox storage id", Some("^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$"), harmless(StorageId::parse);
    BridgeName, "a bridge name", Some("^[A-Za-z0-9._][A-Za-z0-9._-]*$"), harmless(BridgeName::parse);
    MappingName, "a PCI mapping name", Some("^[A-Za-z][A-Za-z0-9_-]+$"), MappingName::parse;
    Tag, "a tag", Some("^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"), Tag::parse;
    ClusterUid, "a cluster uid", Some("^[0-9a-f]{16}$"), ClusterUid::parse;
    SchematicId, "a schematic id", Some("^[0-9a-f]{64}$"), SchematicId::parse;
    Fingerprint, "a certificate fingerprint", Some("^([0-9A-Fa-f]{2}:?){32}$"), Fingerprint::parse;
    PciAddress, "a PCI address", Some("^([0-9A-Fa-f]{4}:)?[0-9A-Fa-f]{2}:[01][0-9A-Fa-f](\\.[0-7])?$"), PciAddress::parse;
    Cidr, "a network", Some("^[0-9A-Fa-f.:]+/[0-9]{1,3}( *, *[0-9A-Fa-f.:]+/[0-9]{1,3})?$"), Cidr::parse;
    AddressRange, "a range of addresses", None, AddressRange::parse;
    Taint, "a taint", Some("^[^ =:]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$"), Taint::parse;
    Version, "a version", Some("^v?[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$"), Version::parse;
}

/// Types whose plain spelling YAML could take for a number: the schema must allow both.
macro_rules! number_like_values {
    ($($type:ty, $what:literal;)+) => {$(
        impl Value for $type {
            fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
                read_checked(node, $what, reading, <$type>::parse)
            }

            fn shape() -> Shape {
                // Text without a pattern may be a number in the schema.
                Shape::Text { what: $what, pattern: None }
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

number_like_values! {
    Contract, "a Talos contract";
    Ratio, "a ratio";
}

impl Value for IpAddr {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let text = plain_text(node, "an IP address", reading)?;
        if let Ok(address) = text.parse() {
            return Some(address);
        }
        let location = reading.location(node);
        let problem = Problem::error(Code::InvalidValue, format!("{} is not an IP address", quoted(text)))
            .at(location, "not an IP address");
        reading.report(match text.split_once('/') {
            Some((address, _)) if address.parse::<IpAddr>().is_ok() => {
                problem.hint(format!("write {address}; the prefix length comes from node_cidr"))
            }
            _ => problem.hint("like 10.0.7.11 or fd00:7::11"),
        });
        None
    }

    fn shape() -> Shape {
        Shape::Text { what: "an IP address", pattern: Some("^[0-9A-Fa-f.:, ]+$") }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for MacAddress {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let mac = read_checked(node, "a MAC address", reading, Self::parse)?;
        let scalar = node.as_scalar()?;
        if scalar.meaning() == PlainMeaning::OldSexagesimal {
            let location = reading.location(node);
            reading.report(
                Problem::warning(Code::YamlTrap, format!("{} is a number to some YAML readers", scalar.text))
                    .at(location, "a number in base 60 in YAML 1.1")
                    .hint(format!("write \"{}\" with quotes", scalar.text)),
            );
        }
        Some(mac)
    }

    fn shape() -> Shape {
        Shape::Text { what: "a MAC address", pattern: Some("^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$") }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Makes enums readable as one of a few words; words after the first are accepted and not advertised.
#[doc(hidden)]
#[macro_export]
macro_rules! __choices {
    ($($type:ty { $($word:literal $(| $alias:literal)* => $variant:ident),+ $(,)? })+) => {$(
        impl $crate::read::Value for $type {
            fn read(
                node: &talmox_yaml::Node,
                reading: &mut $crate::read::Reading<'_>,
            ) -> Option<Self> {
                let word = $crate::read::read_word(node, &[$($word),+], &[$($word, $($alias,)*)+], reading)?;
                match word {
                    $($word $(| $alias)* => Some(<$type>::$variant),)+
                    _ => None,
                }
            }

            fn shape() -> $crate::read::Shape {
                $crate::read::Shape::Choice(vec![$($word),+], [$(&[$($alias),*] as &[&'static str]),+].concat())
            }

            fn show(&self) -> String {
                match self { $(<$type>::$variant => $word.to_owned(),)+ }
            }
        }
    )+};
}

pub use __choices as choices;

/// One of several words; `on`, `off`, `true` and `false` count as words where a choice has them.
pub fn read_word<'n>(
    node: &'n Node,
    advertised: &[&str],
    accepted: &[&str],
    reading: &mut Reading<'_>,
) -> Option<&'n str> {
    let list = advertised.join(", ");
    let Some(scalar) = node.as_scalar() else {
        reading.wrong_type(node, &format!("one of {list}"));
        return None;
    };
    if accepted.contains(&scalar.text.as_str()) {
        return Some(&scalar.text);
    }
    let location = reading.location(node);
    let problem =
        Problem::error(Code::InvalidValue, format!("{} is not a choice here", quoted(&scalar.text)))
            .at(location, "not one of the choices");
    let hint = match super::suggest(&scalar.text, advertised.iter().copied()) {
        Some(close) => format!("did you mean {close}? (one of {list})"),
        None => format!("one of {list}"),
    };
    reading.report(problem.hint(hint));
    None
}
