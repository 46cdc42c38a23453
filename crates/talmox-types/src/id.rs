//! Ids that are not names: VMIDs, cluster uids, schematic ids, certificate fingerprints.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// The number of a guest, unique in a Proxmox cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VmId(u32);

impl VmId {
    pub const MIN: u32 = 100;
    pub const MAX: u32 = 999_999_999;

    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for VmId {
    type Error = Invalid;
    fn try_from(id: u32) -> Result<Self, Invalid> {
        if (Self::MIN..=Self::MAX).contains(&id) {
            Ok(Self(id))
        } else {
            Err(Invalid::new("a VMID", &id.to_string(), "a number from 100 to 999999999"))
        }
    }
}

impl From<VmId> for u32 {
    fn from(id: VmId) -> Self {
        id.0
    }
}

impl fmt::Display for VmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What makes a cluster itself: sixteen lower-case hexadecimal digits, written into every mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClusterUid(String);

impl ClusterUid {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() == 16 && lower_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("a cluster uid", text, "sixteen lower-case hexadecimal digits"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<[u8; 8]> for ClusterUid {
    fn from(bytes: [u8; 8]) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(bytes)))
    }
}

impl fmt::Display for ClusterUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of an Image Factory schematic: the SHA-256 of its canonical bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SchematicId(String);

impl SchematicId {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() == 64 && lower_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("a schematic id", text, "64 lower-case hexadecimal digits"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SchematicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SHA-256 fingerprint of a certificate, printed as Proxmox does: 32 upper-case pairs with colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Accepts pairs with or without colons, in either case.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid =
            || Invalid::new("a certificate fingerprint", text, "SHA-256, 32 hexadecimal pairs with colons");
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(invalid());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

text_conversions!(ClusterUid, SchematicId, Fingerprint);

fn lower_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vmid_bounds() {
        assert!(VmId::try_from(99).is_err());
        assert!(VmId::try_from(100).is_ok());
        assert!(VmId::try_from(999_999_999).is_ok());
        assert!(VmId::try_from(1_000_000_000).is_err());
    }

    #[test]
    fn uid_from_bytes_keeps_leading_zeros() {
        assert_eq!(ClusterUid::from([0, 0, 0, 0, 0, 0, 1, 0xab]).as_str(), "00000000000001ab");
        assert!(ClusterUid::parse("00000000000001AB").is_err());
    }

    #[test]
    fn fingerprint_prints_as_proxmox_does() {
        let text = ["ab"; 32].join(":");
        let parsed = Fingerprint::parse(&text).unwrap();
        assert_eq!(parsed.to_string(), text.to_uppercase());
        assert_eq!(Fingerprint::parse(&"ab".repeat(32)).unwrap(), parsed);
        assert!(Fingerprint::parse("ab:cd").is_err());
        assert!(Fingerprint::parse(&"é".repeat(32)).is_err());
    }
}
