//! Needs beside grants: what `talmox trust` lists.

use serde::Serialize;
use talmox_trust::{Need, list};

use super::folder::Folder;

/// A need, and whether it is met.
#[derive(Serialize)]
pub(crate) struct Listed {
    pub(crate) kind: &'static str,
    /// What the description would do.
    pub(crate) would: String,
    pub(crate) granted: bool,
    /// The grant as YAML, for `TALMOX_TRUST`.
    pub(crate) grant: String,
}

/// Every need once, in the order of the description.
pub(crate) fn listed(needs: &[Need], folder: &Folder) -> Vec<Listed> {
    let grants = folder.granted();
    let mut all: Vec<&Need> = Vec::new();
    for need in needs {
        if !all.contains(&need) {
            all.push(need);
        }
    }
    all.into_iter()
        .map(|need| Listed {
            kind: need.kind(),
            would: need.to_string(),
            granted: grants.allows(need),
            grant: list([&need.grant()]),
        })
        .collect()
}
