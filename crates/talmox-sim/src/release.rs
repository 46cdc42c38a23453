//! The versions of Proxmox VE that can be simulated, and what changed between them.

mod parameters;

use std::sync::LazyLock;

use crate::access::Check;
use crate::schema::Route;
use crate::world::World;

/// The version whose replies were recorded.
pub const RELEASE: &str = "9.2";

/// A version that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Proxmox VE {asked} cannot be simulated: there are 8.4, 9.0 and {RELEASE}")]
pub struct UnknownRelease {
    pub asked: String,
}

/// Says whether a version (`9.2`, `9.2.11`) is one the simulator can be.
pub fn check_release(text: &str) -> Result<(), UnknownRelease> {
    Release::named(text).map(drop)
}

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

impl Release {
    pub(crate) fn named(text: &str) -> Result<&'static Self, UnknownRelease> {
        let found = RELEASES.iter().find(|release| text == release.name || text == release.version);
        found.ok_or_else(|| UnknownRelease { asked: text.to_owned() })
    }

    pub(crate) fn last() -> &'static Self {
        &RELEASES[RELEASES.len() - 1]
    }
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
    /// The guest agent has privileges of its own, and `VM.Monitor` is gone.
    AgentPrivileges,
    /// Rules take the place of HA groups.
    HaRules,
    /// Resources list networks as such, and VMs with the memory they take of the host.
    NetworkResources,
    /// Tags of a new VM are checked and brought to normal form.
    TagsOnCreate,
    /// Starting a new VM asks for the right to do so.
    StartOnCreate,
    /// The worker of a change takes the lock, not the call.
    LockInWorker,
    /// Thick LVM takes qcow2 images, and a TPM state any format.
    FormatsOfBlocks,
    /// A new EFI disk with enrolled keys says which.
    CertificateMarker,
    /// A refusal to authenticate gives no reason.
    PlainRefusals,
}

impl Change {
    /// The releases that have it.
    fn releases(self) -> &'static [&'static str] {
        match self {
            Self::AgentPrivileges | Self::HaRules | Self::NetworkResources | Self::FormatsOfBlocks => {
                &["9.0", "9.2"]
            }
            Self::TagsOnCreate | Self::StartOnCreate | Self::LockInWorker => &["9.2"],
            // Both came to the old line as well, after 9.0.
            Self::CertificateMarker | Self::PlainRefusals => &["8.4", "9.2"],
        }
    }
}

/// The right to talk to the guest agent before there were several.
static MONITOR: LazyLock<Check> = LazyLock::new(|| Check::read("perm(/vms/{vmid} VM.Monitor)"));

impl World {
    /// Makes this a cluster of another version.
    pub fn set_release(&mut self, text: &str) -> Result<(), UnknownRelease> {
        self.become_release(Release::named(text)?);
        Ok(())
    }

    pub(crate) fn become_release(&mut self, release: &Release) {
        release.name.clone_into(&mut self.release);
        release.version.clone_into(&mut self.version);
        self.access.has_monitor = !self.has(Change::AgentPrivileges);
    }

    /// Which version this is; one that nobody knows counts as the last.
    pub(crate) fn known_release(&self) -> &'static Release {
        RELEASES.iter().find(|release| release.name == self.release).unwrap_or(Release::last())
    }

    pub(crate) fn has(&self, change: Change) -> bool {
        change.releases().contains(&self.known_release().name)
    }

    /// Is there such a call in this version?
    pub(crate) fn knows(&self, route: &Route) -> bool {
        self.has(Change::HaRules) || !route.template.starts_with("/cluster/ha/rules")
    }

    /// What the call asks for in this version.
    pub(crate) fn check_of<'a>(&self, route: &'a Route) -> &'a Check {
        let agent = route.template.contains("/agent") && route.check != Check::All;
        if agent && !self.has(Change::AgentPrivileges) { &MONITOR } else { &route.check }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_with_a_release_and_stay() {
        let mut world = World::new(1, 0);
        assert!(world.has(Change::AgentPrivileges) && world.has(Change::TagsOnCreate));
        world.set_release("9.0").unwrap();
        assert!(world.has(Change::AgentPrivileges) && !world.has(Change::TagsOnCreate));
        world.set_release("8.4").unwrap();
        assert!(!world.has(Change::AgentPrivileges) && !world.has(Change::StartOnCreate));
        assert_eq!((world.release.as_str(), world.version.as_str()), ("8.4", "8.4.21"));
    }

    #[test]
    fn only_what_is_known_is_simulated() {
        assert!(["9.2", "9.2.11", "9.0", "8.4"].iter().all(|release| check_release(release).is_ok()));
        for other in ["8.3", "9", "9.3", "9.2.4", ""] {
            assert!(check_release(other).is_err(), "{other}");
        }
        assert_eq!(RELEASES[RELEASES.len() - 1].name, RELEASE);
    }
}
