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

#[cfg(test)]
mod tests {
    use crate::{Files, Rank, read_files};

    #[test]
    fn patches_come_from_the_farthest_to_the_nearest_with_their_places() {
        let text = "proxmox_vm_worker_defaults:\n  patches: [{machine: {env: {A: role}}}]\n\
            patches:\n  - {machine: {env: {A: one}}}\n  - two.yaml\n\
            proxmox_vm_defaults:\n  patches: [{machine: {env: {A: all}}}]\n\
            node_pools:\n  - name: pool\n    count: 1\n    addresses: 10.0.7.32/28\n    patches: [{machine: {env: {A: pool}}}]\n\
            nodes:\n  - name: cp-1\n    address: 10.0.7.11\n    controller: true\n    patches: [{machine: {env: {A: node}}}]\n";
        let outcome = read_files(Files::from_texts(text, None));
        let places = |name: &str| {
            let member = outcome.description.member(name).unwrap();
            let patches = outcome.description.patches(&member);
            patches.into_iter().map(|patch| (patch.place, patch.rank)).collect::<Vec<_>>()
        };
        let at = |line: u32, rank| (format!("cluster.yaml:{line}"), rank);
        let cluster = [at(4, Rank::Cluster), at(5, Rank::Cluster), at(7, Rank::Cluster)];
        assert_eq!(places("pool-1"), [&cluster[..], &[at(2, Rank::Role), at(12, Rank::Pool)]].concat());
        assert_eq!(places("cp-1"), [&cluster[..], &[at(17, Rank::Node)]].concat());
        let desired = outcome.desired.unwrap();
        let node = desired.nodes.iter().find(|node| node.name.as_str() == "pool-1").unwrap();
        assert_eq!(node.patches.len(), 5);
    }
}
