//! Patches with the places they were written at.

use std::path::PathBuf;

use talmox_types::desired::Patch;

use crate::description::Description;
use crate::layers::{Member, Rank};

/// A patch and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPatch {
    pub patch: Patch,
    /// `nodes.yaml:22`.
    pub place: String,
    pub rank: Rank,
    /// What the path of a file is relative to.
    pub folder: PathBuf,
}

impl Description {
    /// The patches of a node in the order they apply: the cluster's, the role's, the pool's, the node's.
    pub fn patches(&self, member: &Member<'_>) -> Vec<WrittenPatch> {
        let written = member.all(|settings| settings.patches.as_ref());
        written
            .filter(|(rank, _)| *rank > Rank::BuiltIn)
            .flat_map(|(rank, list)| list.value.iter().map(move |patch| (rank, patch)))
            .map(|(rank, patch)| WrittenPatch {
                patch: patch.value.clone(),
                place: self.sources.line_name(patch.location),
                rank,
                folder: self.sources.get(patch.location.source).folder.clone(),
            })
            .collect()
    }
}
