//! Versions of Talos and Kubernetes, and Talos's configuration contracts.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// A full version, written with or without a leading `v` and printed without.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
    /// `alpha.1`, `rc.0`; compared as `SemVer` does.
    pub pre_release: Option<String>,
}

impl Version {
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch, pre_release: None }
    }

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new("a version", text, "three numbers separated by dots, like 1.13.9 or v1.13.9")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (numbers, pre_release) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, Some(pre)),
            None => (text, None),
        };
        let valid_pre = pre_release.is_none_or(|pre| {
            pre.split('.')
                .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
        });
        let mut parts = numbers.split('.').map(number);
        let version = Self {
            major: parts.next()??,
            minor: parts.next()??,
            patch: parts.next()??,
            pre_release: pre_release.map(str::to_owned),
        };
        (valid_pre && parts.next().is_none()).then_some(version)
    }

    /// The contract (major and minor) this version belongs to.
    pub fn contract(&self) -> Contract {
        Contract { major: self.major, minor: self.minor }
    }
}

/// A number without sign or leading zero.
fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        self.pre_release.as_ref().map_or(Ok(()), |pre| write!(f, "-{pre}"))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |v: &Self| (v.major, v.minor, v.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| match (&self.pre_release, &other.pre_release) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(mine), Some(theirs)) => compare_pre_release(mine, theirs),
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `SemVer`'s rule: numeric parts by value and below text ones; a prefix is lower.
fn compare_pre_release(mine: &str, theirs: &str) -> Ordering {
    let (mut mine, mut theirs) = (mine.split('.'), theirs.split('.'));
    loop {
        let order = match (mine.next(), theirs.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// A Talos version contract: the layout of machine configuration, named by major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Contract {
    pub major: u16,
    pub minor: u16,
}

impl Contract {
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads `1.13`, `v1.13`, or a full version whose patch then does not matter.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        let two = bare.split_once('.').and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        match two {
            Some((major, minor)) => Ok(Self { major, minor }),
            None => Version::parse(text)
                .map(|version| version.contract())
                .map_err(|_| Invalid::new("a Talos contract", text, "major and minor version, like 1.13")),
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

text_conversions!(Version, Contract);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_print_and_order() {
        let order = ["1.9.10", "1.14.0-alpha.2", "1.14.0-alpha.10", "1.14.0-rc.0", "1.14.0", "v1.14.1"];
        let parsed: Vec<Version> = order.iter().map(|text| Version::parse(text).unwrap()).collect();
        assert!(parsed.is_sorted());
        assert_eq!(parsed[5].to_string(), "1.14.1");
        for bad in ["", "1.14", "1.14.0.0", "1.014.0", "1.14.x", "1.14.0-", "1.14.0-a..b", "99999.0.0"] {
            assert!(Version::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn contracts_come_from_short_and_full_versions() {
        assert_eq!(Contract::parse("v1.13").unwrap(), Contract::parse("1.13.9").unwrap());
        assert!(Contract::parse("1.10").unwrap() > Contract::parse("1.9").unwrap());
        assert!(Contract::parse("1").is_err());
    }
}
