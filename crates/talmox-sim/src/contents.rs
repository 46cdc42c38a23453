//! What is on a disk or in a file, as far as it matters to whoever boots from it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::factory::identity;
use crate::files::hex;
use crate::iso;

/// Volume labels under which cloud-init, and Talos with it, looks for a configuration.
const CIDATA: [&str; 2] = ["cidata", "CIDATA"];
/// How much of a file is looked at: images say what they are at their beginning, and a volume with a configuration is small.
pub(crate) const LOOKED_AT: usize = 2 << 20;

/// What a file, a disk or a CD holds.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Nothing was written to it.
    #[default]
    Empty,
    /// An image of Talos, made by the simulated factory.
    Talos(TalosImage),
    /// The files under the volume label `cidata`, by name. They hold secrets.
    Cidata(BTreeMap<String, Secret>),
    /// Something nobody can boot.
    Other,
}

/// An image of Talos.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TalosImage {
    /// `1.13.9`, without a `v`.
    pub version: String,
    /// The schematic's id.
    pub schematic: String,
    /// `nocloud`, `metal`.
    pub platform: String,
    /// A CD to install from; else a disk on which Talos is installed already.
    pub iso: bool,
}

/// Bytes of a file. Only how many there are is shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("not hexadecimal"))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Talos(image) => f.debug_tuple("Talos").field(image).finish(),
            Self::Cidata(files) => f.debug_tuple("Cidata").field(files).finish(),
            Self::Other => f.write_str("Other"),
        }
    }
}

impl Content {
    /// Looks at real bytes, or at the first of many.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
        if let Some(image) = identity::find(bytes) {
            return Self::Talos(image);
        }
        match iso::read(bytes) {
            Some(volume) if CIDATA.contains(&volume.label.as_str()) => {
                Self::Cidata(volume.files.into_iter().map(|(name, file)| (name, Secret(file))).collect())
            }
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_says_is_not_shown_and_is_kept() {
        let files = BTreeMap::from([("user-data".to_owned(), Secret(b"token: x".to_vec()))]);
        let content = Content::Cidata(files);
        assert_eq!(format!("{content:?}"), r#"Cidata({"user-data": 8 bytes})"#);
        let text = serde_json::to_string(&content).unwrap();
        assert_eq!(serde_json::from_str::<Content>(&text).unwrap(), content);
        assert!(serde_json::from_str::<Secret>("\"abc\"").is_err());
    }

    #[test]
    fn bytes_of_no_kind_are_something_else() {
        assert_eq!(Content::of_bytes(b""), Content::Other);
        assert_eq!(Content::of_bytes(&vec![0; 40_000]), Content::Other);
    }
}
