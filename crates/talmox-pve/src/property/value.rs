//! Single values inside a property string.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use talmox_types::{BridgeName, MacAddress, MappingName};

/// A value that an option of a property string can have.
pub trait PropertyValue: Sized {
    /// Reads the value; the error says what was expected.
    fn read(text: &str) -> Result<Self, String>;
    /// Prints the value as Proxmox does.
    fn print(&self) -> String;
}

impl PropertyValue for bool {
    /// Inside a property string Proxmox knows eight spellings, in any case.
    fn read(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "yes" | "true" => Ok(true),
            "0" | "off" | "no" | "false" => Ok(false),
            _ => Err(format!("`{text}` is neither 1 nor 0")),
        }
    }

    fn print(&self) -> String {
        if *self { "1" } else { "0" }.to_owned()
    }
}

impl PropertyValue for String {
    fn read(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }

    fn print(&self) -> String {
        self.clone()
    }
}

/// Types whose `FromStr` and `Display` are what Proxmox reads and prints.
macro_rules! by_display {
    ($($kind:ty: $expected:literal),+ $(,)?) => {$(
        impl PropertyValue for $kind {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!(concat!("`{}` is not ", $expected), text))
            }

            fn print(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

by_display! {
    u16: "a number",
    u32: "a number",
    u64: "a number",
    Ipv4Addr: "an IPv4 address",
    Ipv6Addr: "an IPv6 address",
    MacAddress: "a unicast MAC address",
    BridgeName: "a bridge name",
    MappingName: "a PCI mapping name",
}

/// A decimal number, kept in its shortest spelling: `12.50` is `12.5`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decimal(String);

impl PropertyValue for Decimal {
    fn read(text: &str) -> Result<Self, String> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(format!("`{text}` is not a number"));
        }
        let whole = match whole.trim_start_matches('0') {
            "" => "0",
            whole => whole,
        };
        Ok(Self(match fraction.trim_end_matches('0') {
            "" => whole.to_owned(),
            fraction => format!("{whole}.{fraction}"),
        }))
    }

    fn print(&self) -> String {
        self.0.clone()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Items separated by `;` whose order means nothing, like VLAN trunks and CPU flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemSet(pub BTreeSet<String>);

impl PropertyValue for ItemSet {
    fn read(text: &str) -> Result<Self, String> {
        Ok(Self(text.split(';').filter(|item| !item.is_empty()).map(str::to_owned).collect()))
    }

    fn print(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join(";")
    }
}

impl<T: Into<String>> FromIterator<T> for ItemSet {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_in_every_spelling() {
        for (text, value) in [("on", true), ("YES", true), ("True", true), ("off", false), ("No", false)] {
            assert_eq!(bool::read(text), Ok(value));
        }
        assert!(bool::read("2").is_err());
    }

    #[test]
    fn decimals_compare_by_value() {
        for (text, printed) in [("12.50", "12.5"), ("012", "12"), ("0.0", "0"), (".5", "0.5"), ("100", "100")]
        {
            assert_eq!(Decimal::read(text).unwrap().to_string(), printed);
        }
        for bad in ["", ".", "1e3", "-1", "1.2.3"] {
            assert!(Decimal::read(bad).is_err(), "{bad}");
        }
    }
}
