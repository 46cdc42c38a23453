//! Images: what registries have, and what nodes keep.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::hardware::MachineId;
use crate::nodes::Nodes;

/// An image in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// As it was asked for: `ghcr.io/siderolabs/installer:v1.13.9`.
    pub(crate) reference: String,
    /// By its digest: `ghcr.io/siderolabs/installer@sha256:…`.
    pub(crate) pinned: String,
}

impl Stored {
    pub(crate) fn new(reference: &str) -> Self {
        let digest = Sha256::digest(reference.as_bytes());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let pinned = format!("{}@sha256:{digest}", repository(reference));
        Self { reference: reference.to_owned(), pinned }
    }

    fn is(&self, name: &str) -> bool {
        self.reference == name || self.pinned == name
    }
}

/// A reference without tag and digest.
fn repository(reference: &str) -> &str {
    let bare = reference.split('@').next().unwrap_or(reference);
    let tag = bare.rfind(':').filter(|at| !bare[*at..].contains('/'));
    tag.map_or(bare, |at| &bare[..at])
}

/// Why an image cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoImage {
    /// It is no reference at all.
    Malformed(String),
    NotFound(String),
}

impl Nodes {
    /// Pulls an image into a node's store. Of Talos itself, nobody published anything but version 1.
    pub(crate) fn pull(&mut self, id: MachineId, reference: &str) -> Result<Stored, NoImage> {
        if reference.is_empty() || reference.contains(char::is_whitespace) {
            return Err(NoImage::Malformed(format!(
                "failed to parse image reference \"{reference}\": invalid reference format"
            )));
        }
        let installer = repository(reference).contains("installer");
        let tag = reference.rsplit_once(':').map(|(_, tag)| tag).unwrap_or_default();
        let foreign = installer && tag.starts_with('v') && !tag.starts_with("v1.");
        let missing =
            [reference, repository(reference)].iter().any(|name| self.missing_images.contains(*name));
        if foreign || missing {
            return Err(NoImage::NotFound(format!(
                "1 error(s) occurred:\n\tfailed to pull image \"{reference}\": failed to resolve reference \
                 \"{reference}\": {reference}: not found"
            )));
        }
        let stored = Stored::new(reference);
        let keep = |images: &mut Vec<Stored>| {
            if !images.contains(&stored) {
                images.push(stored.clone());
            }
        };
        if let Some(ephemeral) = self.system_disk_mut(id).and_then(|disk| disk.ephemeral.as_mut()) {
            keep(&mut ephemeral.images);
        } else if let Some(run) = self.run_mut(id) {
            keep(&mut run.images);
        }
        Ok(stored)
    }

    /// An image a node has, by either of its names.
    pub(crate) fn stored(&self, id: MachineId, name: &str) -> Option<Stored> {
        let on_disk = self.system_disk(id).and_then(|disk| disk.ephemeral.as_ref()).map(|one| &one.images);
        let in_memory = self.run(id).map(|run| &run.images);
        on_disk.into_iter().chain(in_memory).flatten().find(|stored| stored.is(name)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(repository("localhost:5000/installer"), "localhost:5000/installer");
        assert_eq!(repository("localhost:5000/installer:v1.13.9"), "localhost:5000/installer");
        let stored = Stored::new("ghcr.io/siderolabs/installer:v1.13.9");
        assert!(
            stored.pinned.starts_with("ghcr.io/siderolabs/installer@sha256:") && stored.is(&stored.pinned)
        );
    }
}
