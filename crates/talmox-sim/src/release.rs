//! The versions of Proxmox VE that can be simulated, and what changed between them.

mod parameters;

use std::collections::BTreeMap;
use std::str::FromStr;
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

/// The versions of a cluster: of its hosts in general, and of some by name.
///
/// Written `8.4`, or `pve1=8.4,pve2=9.2`, or both: `9.2,pve3=8.4`. Hosts that are not named have the version that stands
/// alone, or the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    pub(crate) all: &'static Release,
    pub(crate) hosts: BTreeMap<String, &'static Release>,
}

impl Default for Versions {
    fn default() -> Self {
        Self { all: Release::last(), hosts: BTreeMap::new() }
    }
}

impl FromStr for Versions {
    type Err = UnknownRelease;

    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let mut versions = Self::default();
        for part in text.split(',').map(str::trim) {
            if let Some((host, release)) = part.split_once('=') {
                versions.hosts.insert(host.to_owned(), Release::named(release)?);
            } else {
                versions.all = Release::named(part)?;
            }
        }
        Ok(versions)
    }
}

impl Versions {
    /// Hosts that are named.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    fn of(&self, host: &str) -> &'static Release {
        self.hosts.get(host).copied().unwrap_or(self.all)
    }
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

    pub(crate) fn is_in(self, release: &Release) -> bool {
        self.releases().contains(&release.name)
    }
}

/// The right to talk to the guest agent before there were several.
static MONITOR: LazyLock<Check> = LazyLock::new(|| Check::read("perm(/vms/{vmid} VM.Monitor)"));

impl World {
    /// Makes this a cluster of another version, or of several: see [`Versions`].
    pub fn set_release(&mut self, text: &str) -> Result<(), UnknownRelease> {
        self.become_versions(&text.parse()?);
        Ok(())
    }

    pub(crate) fn become_versions(&mut self, versions: &Versions) {
        versions.all.name.clone_into(&mut self.release);
        versions.all.version.clone_into(&mut self.version);
        for (name, node) in &mut self.nodes {
            node.release = versions.hosts.get(name).map(|release| release.name.to_owned());
        }
        self.tune_access();
    }

    /// Is this a cluster of these versions?
    pub fn is_of(&self, versions: &Versions) -> bool {
        self.nodes.keys().all(|host| self.release_of(host) == versions.of(host))
    }

    /// What a host says it is: `9.2.11`.
    pub fn version_of(&self, host: &str) -> &str {
        let own = self.nodes.get(host).is_some_and(|node| node.release.is_some());
        if own { self.release_of(host).version } else { &self.version }
    }

    /// The version of a host; one that nobody knows counts as the last.
    pub(crate) fn release_of(&self, host: &str) -> &'static Release {
        let own = self.nodes.get(host).and_then(|node| node.release.as_ref());
        let name = own.unwrap_or(&self.release);
        RELEASES.iter().find(|release| release.name == name).unwrap_or(Release::last())
    }

    /// The version of the host that acts.
    pub(crate) fn known_release(&self) -> &'static Release {
        self.release_of(self.acting.as_deref().unwrap_or_default())
    }

    /// Is it in the version of the host that acts?
    pub(crate) fn has(&self, change: Change) -> bool {
        change.is_in(self.known_release())
    }

    /// Is it in the version of every host? What is decided together waits for the last one.
    pub(crate) fn all_have(&self, change: Change) -> bool {
        self.nodes.keys().all(|host| change.is_in(self.release_of(host)))
    }

    /// Are there hosts of more than one version?
    pub(crate) fn is_mixed(&self) -> bool {
        self.nodes.values().any(|node| node.release.is_some())
    }

    /// Lets a host do something: it does it as its own version does.
    pub(crate) fn as_host<T>(&mut self, host: &str, act: impl FnOnce(&mut Self) -> T) -> T {
        if !self.is_mixed() {
            return act(self);
        }
        let before = self.acting.replace(host.to_owned());
        self.tune_access();
        let result = act(self);
        self.acting = before;
        self.tune_access();
        result
    }

    /// Built-in roles are those of the host that looks at them.
    fn tune_access(&mut self) {
        self.access.has_monitor = !self.has(Change::AgentPrivileges);
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
    fn a_host_acts_as_its_own_version_does() {
        let mut world = World::new(1, 0);
        for host in ["a", "b", "c"] {
            world.add_node(host, "192.0.2.1");
        }
        world.set_release("9.0,b=8.4,c=9.2").unwrap();
        let rules = |world: &mut World| (world.has(Change::HaRules), world.access.has_monitor);
        assert_eq!(rules(&mut world), (true, false));
        assert_eq!(world.as_host("b", rules), (false, true));
        let within = world.as_host("b", |world| (world.as_host("c", rules), rules(world)));
        assert_eq!(within, ((true, false), (false, true)));
        assert_eq!(rules(&mut world), (true, false));
        assert!(!world.all_have(Change::HaRules));
        assert_eq!(["a", "b", "c"].map(|host| world.version_of(host)), ["9.0.11", "8.4.21", "9.2.11"]);
        assert!(world.is_of(&"c=9.2,8.4,a=9.0".parse().unwrap()) && !world.is_of(&Versions::default()));
    }

    #[test]
    fn only_what_is_known_is_simulated() {
        let known = ["9.2", "9.2.11", "9.0", "8.4", "pve1=8.4", "9.0,pve2=9.2.11"];
        assert!(known.iter().all(|text| text.parse::<Versions>().is_ok()));
        for other in ["8.3", "9", "9.3", "9.2.4", "", "9.2,", "pve1=", "pve1=8.4,8.3"] {
            assert!(other.parse::<Versions>().is_err(), "{other}");
        }
        assert_eq!(RELEASES[RELEASES.len() - 1].name, RELEASE);
    }
}
