//! The world `talmox sim` starts with: a small cluster as its owner would have set it up for talmox.

use std::collections::{BTreeMap, BTreeSet};

use crate::access::{AclEntry, Token, User};
use crate::factory::Factory;
use crate::release::{Change, UnknownRelease, Versions};
use crate::storage::Storage;
use crate::world::World;

const USER: &str = "talmox@pve";
const TOKEN: &str = "sim";
const ROLE: &str = "Talmox";
/// What provisioning needs, and what it can make use of: start order, removing ISOs, moving VMs, mapped devices, pools.
const PRIVILEGES: &str = "\
    VM.Allocate VM.Clone VM.Audit VM.PowerMgmt VM.Migrate VM.Config.CDROM VM.Config.CPU \
    VM.Config.Cloudinit VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options \
    Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit SDN.Use Mapping.Use \
    Sys.AccessNetwork Sys.Audit Sys.Modify Pool.Allocate Pool.Audit";
const GIB: u64 = 1 << 30;

/// How to make the world.
#[derive(Clone, Debug)]
pub struct Starter {
    hosts: u32,
    seed: u64,
    epoch: u64,
    versions: Versions,
    storages: Vec<Storage>,
}

/// A new world and the ways into it.
pub struct Started {
    pub world: World,
    /// `USER@REALM!NAME=SECRET`, with a role that suffices for provisioning.
    pub token: String,
    /// The password of `root@pam`.
    pub root_password: String,
}

impl Starter {
    /// Hosts `pve1` and so on. Ids and secrets come from the seed; `epoch` is the Unix time in milliseconds.
    pub fn new(hosts: u32, seed: u64, epoch: u64) -> Self {
        Self { hosts, seed, epoch, versions: Versions::default(), storages: Vec::new() }
    }

    /// Of another version, or of several: see [`Versions`].
    pub fn release(self, text: &str) -> Result<Self, UnknownRelease> {
        Ok(self.versions(text.parse()?))
    }

    #[must_use]
    pub fn versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// With these storages beside, or in place of, those of the same name.
    #[must_use]
    pub fn storages(mut self, storages: Vec<Storage>) -> Self {
        self.storages = storages;
        self
    }

    /// A world without hosts and storages, for [`World::fit`] to add them.
    pub fn bare(seed: u64, epoch: u64) -> Started {
        Self::with_access(World::new(seed, epoch))
    }

    pub fn build(self) -> Started {
        let mut world = World::new(self.seed, self.epoch);
        for number in 1..=self.hosts.max(1) {
            world.add_node(&format!("pve{number}"), "127.0.0.1");
        }
        world.become_versions(&self.versions);
        if self.hosts > 1 {
            world.cluster = Some(("talmox-sim".into(), self.hosts));
        }
        world.storages = storages();
        world.storages.retain(|storage| self.storages.iter().all(|own| own.id != storage.id));
        world.storages.extend(self.storages);
        Self::with_access(world)
    }

    fn with_access(mut world: World) -> Started {
        world.factory = Some(Factory::default());
        let secret = world.random.uuid();
        let root_password = world.random.hex(24);
        add_access(&mut world, &secret, &root_password);
        Started { world, token: format!("{USER}!{TOKEN}={secret}"), root_password }
    }
}

fn words(text: &str) -> BTreeSet<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn storages() -> Vec<Storage> {
    let local = Storage {
        id: "local".into(),
        kind: "dir".into(),
        place: "/var/lib/vz".into(),
        content: words("backup import iso snippets vztmpl"),
        ..Storage::default()
    };
    let zfs = Storage {
        id: "local-zfs".into(),
        kind: "zfspool".into(),
        place: "rpool/data".into(),
        content: words("images rootdir"),
        total: Some(1024 * GIB),
        options: BTreeMap::from([("sparse".into(), "1".into())]),
        ..Storage::default()
    };
    vec![local, zfs]
}

fn add_access(world: &mut World, secret: &str, root_password: &str) {
    let root = User { password: Some(root_password.to_owned()), ..User::default() };
    world.access.users.insert(crate::access::ROOT.into(), root);
    let token = Token { secret: secret.to_owned(), privsep: false, ..Token::default() };
    let user = User { tokens: BTreeMap::from([(TOKEN.into(), token)]), ..User::default() };
    world.access.users.insert(USER.into(), user);
    let mut privileges = words(PRIVILEGES);
    // In a cluster of several versions a role holds both, and each host ignores what it does not know.
    let of_hosts = world.nodes.keys().map(|host| Change::AgentPrivileges.is_in(world.release_of(host)));
    // A world that gets its hosts later gives them its own version.
    let later = world.nodes.is_empty().then(|| world.has(Change::AgentPrivileges));
    for new in of_hosts.chain(later) {
        privileges.insert(if new { "VM.GuestAgent.Audit" } else { "VM.Monitor" }.to_owned());
    }
    world.access.roles.insert(ROLE.into(), privileges);
    world.access.acl.push(AclEntry {
        path: "/".into(),
        kind: "user".into(),
        subject: USER.into(),
        role: ROLE.into(),
        propagate: true,
    });
}

impl World {
    /// The token of the user talmox works as, if the world still has it.
    pub fn starter_token(&self) -> Option<String> {
        let secret = &self.access.users.get(USER)?.tokens.get(TOKEN)?.secret;
        Some(format!("{USER}!{TOKEN}={secret}"))
    }

    /// The password of `root@pam`.
    pub fn root_password(&self) -> Option<&str> {
        self.access.users.get(crate::access::ROOT)?.password.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::is_privilege;

    #[test]
    fn the_role_names_privileges_that_exist() {
        for name in words(PRIVILEGES) {
            assert!(is_privilege(&name), "{name}");
        }
    }

    #[test]
    fn one_seed_makes_one_world() {
        let build = |seed| Starter::new(3, seed, 0).build();
        assert_eq!(build(1).token, build(1).token);
        assert_ne!(build(1).token, build(2).token);
        let started = build(1);
        assert_eq!(started.world.starter_token(), Some(started.token));
        assert_eq!(started.world.root_password(), Some(started.root_password.as_str()));
        assert_eq!(started.world.nodes.keys().collect::<Vec<_>>(), ["pve1", "pve2", "pve3"]);
    }
}
