//! The ids of tasks.

use std::fmt;

use serde::{Deserialize, Serialize};
use talmox_types::{HostName, is_hidden};

/// A task of a host: `UPID:pve1:000000EE:00027BF7:6AF96AED:qmcreate:901:root@pam!full:`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Upid {
    text: String,
    node: HostName,
}

/// A text that is no task id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a task id (UPID:host:pid:pstart:starttime:type:id:user:)")]
pub struct InvalidUpid(String);

impl Upid {
    pub fn parse(text: &str) -> Result<Self, InvalidUpid> {
        Self::read(text).ok_or_else(|| InvalidUpid(text.to_owned()))
    }

    fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [tag, node, pid, pstart, start, kind, id, user, end] = parts.as_slice() else { return None };
        let hex = |part: &str, lengths: std::ops::RangeInclusive<usize>| {
            lengths.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
        };
        let word = |part: &str| !part.contains(|c: char| c.is_whitespace() || is_hidden(c) || c == '/');
        let valid = *tag == "UPID"
            && end.is_empty()
            && hex(pid, 8..=8)
            && hex(pstart, 8..=9)
            && hex(start, 8..=8)
            && !kind.is_empty()
            && !user.is_empty()
            && word(kind)
            && word(id)
            && word(user);
        valid.then_some(Self { text: text.to_owned(), node: HostName::parse(node).ok()? })
    }

    /// The host the task runs on, which is not always the host that was asked.
    pub fn node(&self) -> &HostName {
        &self.node
    }

    /// What it does: `qmcreate`, `qmclone`, `download`.
    pub fn kind(&self) -> &str {
        self.part(5)
    }

    /// What it does it to: mostly a VMID; of a clone the source, of some nothing.
    pub fn id(&self) -> &str {
        self.part(6)
    }

    /// Seconds since the epoch at which it began.
    pub fn start_time(&self) -> u64 {
        u64::from_str_radix(self.part(4), 16).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn part(&self, index: usize) -> &str {
        self.text.split(':').nth(index).unwrap_or_default()
    }
}

impl fmt::Display for Upid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Upid {
    type Err = InvalidUpid;
    fn from_str(text: &str) -> Result<Self, InvalidUpid> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Upid {
    type Error = InvalidUpid;
    fn try_from(text: String) -> Result<Self, InvalidUpid> {
        Self::parse(&text)
    }
}

impl From<Upid> for String {
    fn from(upid: Upid) -> Self {
        upid.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_task_id() {
        let text = "UPID:pve1:000000EE:00027BF7:6AF96AED:qmcreate:901:root@pam!full:";
        let upid = Upid::parse(text).unwrap();
        assert_eq!((upid.node().as_str(), upid.kind(), upid.id()), ("pve1", "qmcreate", "901"));
        assert_eq!(upid.start_time(), 0x6AF9_6AED);
        assert_eq!(upid.to_string(), text);
        assert!(Upid::parse("UPID:pve1:00000927:00033DAE:6AF96CDD:imgcopy::capi@pve!full:").is_ok());
        for bad in [
            "UPID:pve1:00000927:00033DAE:6AF96CDD:x\u{1b}[2J::root@pam:",
            "",
            "UPID:pve1:1:2:3:qmcreate:901:root@pam:",
            &text[..text.len() - 1],
            "OK",
        ] {
            assert!(Upid::parse(bad).is_err(), "{bad}");
        }
    }
}
