//! What a downloaded file must hash to.

use std::fmt;

use serde::Serialize;

use crate::Invalid;
use crate::invalid::text_conversions;

/// The algorithms Proxmox can check a download with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChecksumAlgorithm {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl ChecksumAlgorithm {
    pub const ALL: [Self; 6] =
        [Self::Md5, Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Proxmox's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha224 => "sha224",
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.word() == word)
    }

    /// How many hexadecimal digits it gives.
    pub fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha224 => 56,
            Self::Sha256 => 64,
            Self::Sha384 => 96,
            Self::Sha512 => 128,
        }
    }
}

/// A checksum, of the bytes as they travel: `sha256:…`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum {
    algorithm: ChecksumAlgorithm,
    value: String,
}

impl Checksum {
    /// Hexadecimal digits, as many as the algorithm gives; kept in lower case.
    pub fn new(algorithm: ChecksumAlgorithm, value: &str) -> Result<Self, Invalid> {
        let fits = value.len() == algorithm.digits() && value.bytes().all(|b| b.is_ascii_hexdigit());
        if !fits {
            return Err(Invalid::new(
                "a checksum",
                value,
                "as many hexadecimal digits as its algorithm gives",
            ));
        }
        Ok(Self { algorithm, value: value.to_ascii_lowercase() })
    }

    /// Reads `ALGORITHM:DIGITS`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            Invalid::new(
                "a checksum",
                text,
                "md5, sha1, sha224, sha256, sha384 or sha512, a colon and its digits",
            )
        };
        let (algorithm, value) = text.split_once(':').ok_or_else(invalid)?;
        let algorithm = ChecksumAlgorithm::of_word(algorithm).ok_or_else(invalid)?;
        Self::new(algorithm, value)
    }

    pub fn algorithm(&self) -> ChecksumAlgorithm {
        self.algorithm
    }

    /// Hexadecimal digits in lower case.
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.word(), self.value)
    }
}

impl Serialize for Checksum {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Checksum {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

text_conversions!(Checksum);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_has_the_length_of_its_algorithm() {
        let md5 = Checksum::parse("md5:D41D8CD98F00B204E9800998ECF8427E").unwrap();
        assert_eq!(md5.to_string(), "md5:d41d8cd98f00b204e9800998ecf8427e");
        for bad in ["", "md5:", "sha256:d41d8cd98f00b204e9800998ecf8427e", "crc:00", "<checksum>"] {
            assert!(Checksum::parse(bad).is_err(), "{bad}");
        }
    }
}
