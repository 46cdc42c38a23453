//! The mark by which a template is known to be ours.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::text_conversions;
use crate::{Invalid, VmId};

/// The last line of a managed template's description. What people write above it is theirs.
///
/// A clone made by hand copies it, so it names the VMID it was written for. It is not a node's mark and cannot be read as
/// one: whoever clones a template without saying whose node it is gets a VM that is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TemplateMark {
    /// Who had it built: a cluster's uid, or the name of a template's own description.
    pub owner: String,
    /// What it was built from: another image means another template.
    pub image: Digest16,
    /// What else was decided: where this differs, the template is changed in place.
    pub settings: Digest16,
    pub vmid: VmId,
    pub incarnation: String,
}

/// The first sixteen hexadecimal digits of a hash.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest16(String);

impl Digest16 {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let valid = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("a digest", text, "sixteen hexadecimal digits"))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const PREFIX: &str = "talmox-template:v1";

impl TemplateMark {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, Invalid> {
        Self::read(line).ok_or_else(|| {
            let rule = "talmox-template:v1 owner=… image=… settings=… vmid=… incarnation=…";
            Invalid::new("a template's mark", line, rule)
        })
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next() != Some(PREFIX) {
            return None;
        }
        let mut value =
            |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=').filter(|text| !text.is_empty());
        let mark = Self {
            owner: value("owner")?.to_owned(),
            image: Digest16::parse(value("image")?).ok()?,
            settings: Digest16::parse(value("settings")?).ok()?,
            vmid: VmId::try_from(value("vmid")?.parse::<u32>().ok()?).ok()?,
            incarnation: value("incarnation")?.to_owned(),
        };
        words.next().is_none().then_some(mark)
    }

    /// The mark in a description: its last line, if that is one.
    pub fn of_description(description: &str) -> Option<Self> {
        description.trim_end().lines().last().and_then(|line| Self::parse(line.trim()).ok())
    }

    /// What people wrote above the mark, byte for byte, with this mark below it.
    pub fn below(&self, description: &str) -> String {
        let text = description.trim_end();
        let above = match text.rfind('\n') {
            Some(end) if Self::of_description(text).is_some() => &text[..=end],
            None if Self::of_description(text).is_some() => "",
            _ if text.is_empty() => "",
            _ => return format!("{text}\n{self}"),
        };
        format!("{above}{self}")
    }
}

impl fmt::Display for TemplateMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, image, settings, vmid, incarnation } = self;
        write!(
            f,
            "{PREFIX} owner={owner} image={image} settings={settings} vmid={vmid} incarnation={incarnation}"
        )
    }
}

text_conversions!(TemplateMark, Digest16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mark;

    const LINE: &str = "talmox-template:v1 owner=0123456789abcdef image=00000000000000aa settings=00000000000000bb vmid=9000 incarnation=a1";

    #[test]
    fn the_mark_is_the_last_line_and_no_nodes() {
        let mark = TemplateMark::of_description(&format!("notes\n{LINE}\n")).unwrap();
        assert_eq!(mark.to_string(), LINE);
        assert!(Mark::of_description(LINE).is_none());
        for bad in ["", "talmox-template:v1", &LINE[..LINE.len() - 2], &format!("{LINE} more")] {
            assert!(TemplateMark::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_people_wrote_stays() {
        let mark = TemplateMark::parse(LINE).unwrap();
        assert_eq!(mark.below(""), LINE);
        assert_eq!(mark.below(&LINE.replace("a1", "b2")), LINE);
        assert_eq!(mark.below("mine"), format!("mine\n{LINE}"));
        assert_eq!(mark.below(&format!("mine\n\n{}\n", LINE.replace("a1", "b2"))), format!("mine\n\n{LINE}"));
    }
}
