//! The versions of Proxmox VE that can be simulated, and what changed between them.

use crate::world::World;

/// One version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// How people call it.
    pub(crate) name: &'static str,
    /// What the server says it is.
    pub(crate) version: &'static str,
    pub(crate) qemu: &'static str,
    pub(crate) kernel: &'static str,
}

/// The one whose replies were recorded comes last.
pub(crate) const RELEASES: [Release; 3] = [
    Release { name: "8.4", version: "8.4.21", qemu: "9.2.0", kernel: "6.8.12-9-pve" },
    Release { name: "9.0", version: "9.0.11", qemu: "10.0.2", kernel: "6.14.11-3-pve" },
    Release { name: "9.2", version: "9.2.11", qemu: "10.0.2", kernel: "6.17.2-1-pve" },
];

/// Something that is not in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Tags of a new VM are checked and brought to normal form.
    TagsOnCreate,
    /// Starting a new VM asks for the right to do so.
    StartOnCreate,
}

impl Change {
    /// The release it came with.
    fn since(self) -> &'static str {
        match self {
            Self::TagsOnCreate | Self::StartOnCreate => "9.2",
        }
    }
}

fn position(name: &str) -> Option<usize> {
    RELEASES.iter().position(|release| release.name == name)
}

impl World {
    /// Which version this is; one that nobody knows counts as the last.
    pub(crate) fn known_release(&self) -> &'static Release {
        RELEASES.iter().find(|release| release.name == self.release).unwrap_or(&RELEASES[RELEASES.len() - 1])
    }

    pub(crate) fn has(&self, change: Change) -> bool {
        position(self.known_release().name) >= position(change.since())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_with_a_release_and_stay() {
        let mut world = World::new(1, 0);
        assert!(world.has(Change::StartOnCreate) && world.has(Change::TagsOnCreate));
        world.release = "9.0".into();
        assert!(!world.has(Change::TagsOnCreate));
    }
}
