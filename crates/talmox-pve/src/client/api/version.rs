//! The version a host says it runs.

use std::fmt;

/// A version of Proxmox VE: numbers with dots, and perhaps one more such group: `9.2.11`, `6.4-13`, of a beta `9.0.0~11`.
///
/// Nothing else is taken for one: it is shown to people and written into lines that root runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionNumber(String);

/// A text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version of Proxmox VE such as 9.2.11")]
pub struct InvalidVersionNumber(String);

impl VersionNumber {
    pub fn parse(text: &str) -> Result<Self, InvalidVersionNumber> {
        let numbers = |part: &str| {
            part.split('.').all(|number| {
                (1..=9).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        let mut groups = text.split(['-', '~']);
        let valid = groups.next().is_some_and(numbers) && groups.next().is_none_or(numbers);
        if valid && groups.next().is_none() {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidVersionNumber(text.to_owned()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for VersionNumber {
    type Err = InvalidVersionNumber;
    fn from_str(text: &str) -> Result<Self, InvalidVersionNumber> {
        Self::parse(text)
    }
}

impl From<VersionNumber> for String {
    fn from(version: VersionNumber) -> Self {
        version.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_are_versions() {
        for good in ["9.2.11", "8", "9.2", "6.4-13", "9.0.0~11", "6.4-13.1"] {
            assert_eq!(VersionNumber::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "9.",
            ".9",
            "9..2",
            "9.2.11\n touch x #",
            "9.2-",
            "-9",
            "9-1-2",
            "9.2 ",
            "v9",
            "9.2.x",
            "9;id",
            "9.2.11\u{1b}[2J",
            "9.1234567890",
            "٩.٢",
        ] {
            assert!(VersionNumber::parse(bad).is_err(), "{bad:?}");
        }
    }
}
