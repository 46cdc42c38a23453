//! MAC addresses.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// A unicast MAC address; printed in upper case as Proxmox generates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// The prefix registered for Proxmox; addresses that talmox derives begin with it.
    pub const PROXMOX_PREFIX: [u8; 3] = [0xBC, 0x24, 0x11];

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |rule| Invalid::new("a MAC address", text, rule);
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().unwrap_or_default();
            let hex = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16)
                .ok()
                .filter(|_| hex)
                .ok_or_else(|| invalid("six hexadecimal pairs with colons, like BC:24:11:00:01:01"))?;
        }
        if parts.next().is_some() {
            return Err(invalid("six hexadecimal pairs with colons, like BC:24:11:00:01:01"));
        }
        if bytes[0] & 1 == 1 {
            return Err(invalid("a VM needs a unicast address, the second digit must be even"));
        }
        Ok(Self(bytes))
    }

    /// An address in the Proxmox prefix from three bytes of one's own.
    pub fn in_proxmox_prefix(tail: [u8; 3]) -> Self {
        let mut octets = [0; 6];
        octets[..3].copy_from_slice(&Self::PROXMOX_PREFIX);
        octets[3..].copy_from_slice(&tail);
        Self(octets)
    }

    pub fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, octet) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{octet:02X}")?;
        }
        Ok(())
    }
}

text_conversions!(MacAddress);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_separator_do_not_matter() {
        let upper = MacAddress::parse("BC:24:11:62:36:54").unwrap();
        assert_eq!(MacAddress::parse("bc-24-11-62-36-54").unwrap(), upper);
        assert_eq!(upper.to_string(), "BC:24:11:62:36:54");
    }

    #[test]
    fn multicast_and_nonsense_are_refused() {
        for bad in ["", "BC:24:11:62:36", "BC:24:11:62:36:54:00", "BD:24:11:62:36:54", "+C:24:11:62:36:54"] {
            assert!(MacAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
