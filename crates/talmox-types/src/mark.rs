//! The mark by which a VM is known to be ours.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::invalid::text_conversions;
use crate::{ClusterName, ClusterUid, Invalid, NodeName, VmId};

/// The last line of a VM's description. What people write above it is theirs.
///
/// Clone and restore copy it, so it names the VMID it was written for: on another one it proves a copy, not ownership.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mark {
    pub uid: ClusterUid,
    pub cluster: ClusterName,
    pub node: NodeName,
    pub vmid: VmId,
    /// Changes whenever the VM is built anew.
    pub incarnation: String,
}

const PREFIX: &str = "talmox:v1";

impl Mark {
    /// Reads one line.
    pub fn parse(line: &str) -> Result<Self, Invalid> {
        Self::read(line).ok_or_else(|| {
            Invalid::new("a mark", line, "talmox:v1 uid=… cluster=… node=… vmid=… incarnation=…")
        })
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        if words.next() != Some(PREFIX) {
            return None;
        }
        let mut value = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
        let mark = Self {
            uid: ClusterUid::parse(value("uid")?).ok()?,
            cluster: ClusterName::parse(value("cluster")?).ok()?,
            node: NodeName::parse(value("node")?).ok()?,
            vmid: VmId::try_from(value("vmid")?.parse::<u32>().ok()?).ok()?,
            incarnation: value("incarnation").filter(|text| !text.is_empty())?.to_owned(),
        };
        Some(mark)
    }

    /// The mark in a description: its last line, if that is one.
    pub fn of_description(description: &str) -> Option<Self> {
        description.trim_end().lines().last().and_then(|line| Self::parse(line.trim()).ok())
    }

    /// The serial number of the second witness, which the Proxmox cloud controller reads too.
    pub fn witness_serial(&self) -> String {
        format!("h={};i={}", self.node, self.vmid)
    }

    /// The family of the second witness.
    pub fn witness_family(&self) -> String {
        format!("{}.{}", self.uid, self.incarnation)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, cluster, node, vmid, incarnation } = self;
        write!(f, "{PREFIX} uid={uid} cluster={cluster} node={node} vmid={vmid} incarnation={incarnation}")
    }
}

text_conversions!(Mark);

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "talmox:v1 uid=0123456789abcdef cluster=home node=cp-1 vmid=2000 incarnation=a1";

    #[test]
    fn the_mark_is_the_last_line() {
        let mark = Mark::of_description(&format!("notes of mine\n\n{LINE}\n")).unwrap();
        assert_eq!(mark.to_string(), LINE);
        assert_eq!(mark.witness_serial(), "h=cp-1;i=2000");
        assert_eq!(mark.witness_family(), "0123456789abcdef.a1");
        assert!(Mark::of_description(&format!("{LINE}\nsomething below")).is_none());
    }

    #[test]
    fn half_a_mark_is_none() {
        for bad in
            ["", "talmox:v1", &LINE[..LINE.len() - 2], &LINE.replace("v1", "v2"), &LINE.replace("2000", "20")]
        {
            assert!(Mark::parse(bad).is_err(), "{bad}");
        }
    }
}
