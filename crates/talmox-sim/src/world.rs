//! The state of a cluster as plain data, and the calls by which a shell or a test arranges it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::access::{Access, Caller, Check, Groups, Privileges, denied};
use crate::factory::Factory;
use crate::files::FileFacts;
use crate::guests::PowerEvent;
use crate::locks::FileLock;
use crate::random::Random;
use crate::reply::ApiError;
use crate::schema::split_list;
use crate::storage::{Storage, Volumes};
use crate::tasks::{Event, Task, TaskId};
use crate::vm::Vm;
use crate::waiting::CallAtHand;

/// Entries of the cluster's log that are kept at least.
const JOURNAL: usize = 1000;

/// How long things take, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// From the reply with the UPID to the worker's first act.
    pub fork: u64,
    /// A synchronous call in the privileged daemon; each further worker is a little slower.
    pub call: u64,
    pub create: u64,
    pub per_disk: u64,
    pub destroy: u64,
    pub start: u64,
    pub stop: u64,
    /// A guest that reacts takes this long to power off.
    pub guest_shutdown: u64,
    pub small: u64,
    /// Bytes copied per millisecond.
    pub copy_rate: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            fork: 2,
            call: 9,
            create: 60,
            per_disk: 40,
            destroy: 11,
            start: 600,
            stop: 200,
            guest_shutdown: 2000,
            small: 60,
            copy_rate: 4 << 20,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    pub ip: String,
    pub nodeid: u32,
    pub reach: Reach,
    /// When that changed last, in milliseconds since boot.
    #[serde(default)]
    pub reach_since: Option<u64>,
    /// Its API was just killed: a connection another host kept to it breaks at the next call.
    #[serde(default)]
    pub severed: bool,
    pub cpus: u32,
    pub memory: u64,
    pub disk: u64,
    pub bridges: BTreeSet<String>,
    pub interfaces: BTreeSet<String>,
    pub fingerprint: String,
    pub name_server: String,
    pub pci: Vec<PciDevice>,
    /// When within ten seconds this host's status daemon broadcasts.
    pub broadcast_phase: u64,
    /// Its version, if it is not the one of the cluster.
    #[serde(default)]
    pub(crate) release: Option<String>,
    pub(crate) next_pid: u32,
    /// Privileged workers: each is busy until then.
    pub(crate) workers: Vec<u64>,
}

/// A device a host can hand to a VM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PciDevice {
    pub address: String,
    pub class: String,
    pub vendor: String,
    pub device: String,
    pub iommu_group: i32,
}

/// How a host looks from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    Up,
    /// The host lives, its API does not: connections are refused.
    ProxyDown,
    /// The link is gone, and with it the host's vote.
    Unreachable,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Pool {
    pub comment: Option<String>,
    pub vms: BTreeSet<u32>,
    pub storages: BTreeSet<String>,
}

/// A file behind a URL.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Site {
    pub files: BTreeMap<String, FileFacts>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) time: u64,
    pub(crate) node: String,
    pub(crate) pid: u32,
    pub(crate) user: String,
    pub(crate) message: String,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) csrf: String,
    pub(crate) issued: u64,
    /// How far the time of day jumped since.
    #[serde(default)]
    pub(crate) jumped: i64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, csrf: _, issued, jumped: _ } = self;
        f.debug_struct("Session").field("user", user).field("issued", issued).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PciMapping {
    pub(crate) map: Vec<String>,
    pub(crate) options: BTreeMap<String, String>,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct World {
    /// Milliseconds since the hosts booted.
    pub(crate) clock: u64,
    /// Unix milliseconds when the clock stood at zero.
    pub(crate) epoch: u64,
    pub(crate) random: Random,
    pub version: String,
    pub release: String,
    pub repoid: String,
    pub timing: Timing,
    pub nodes: BTreeMap<String, Node>,
    /// The host that answers when a request names none.
    pub(crate) contact: String,
    /// Name and configuration version, if the hosts form a cluster.
    pub cluster: Option<(String, u32)>,
    pub access: Access,
    pub(crate) sessions: BTreeMap<String, Session>,
    pub storages: Vec<Storage>,
    pub(crate) volumes: Volumes,
    pub(crate) vms: BTreeMap<u32, Vm>,
    pub pools: BTreeMap<String, Pool>,
    pub(crate) ha_resources: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) ha_rules: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) ha_groups: BTreeMap<String, BTreeMap<String, String>>,
    /// Backup jobs by id, each with its options; `vmid` lists the guests.
    #[serde(default)]
    pub backup_jobs: BTreeMap<String, BTreeMap<String, String>>,
    /// Replication jobs by id, `GUEST-NUMBER`, each with its options.
    #[serde(default)]
    pub replication_jobs: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) pci_mappings: BTreeMap<String, PciMapping>,
    pub options: BTreeMap<String, String>,
    /// Web servers by `host:port`.
    pub sites: BTreeMap<String, Site>,
    /// The Image Factory the hosts can reach, if there is one.
    #[serde(default)]
    pub factory: Option<Factory>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) task_index: BTreeMap<String, TaskId>,
    pub(crate) events: BTreeMap<u64, Vec<Event>>,
    pub(crate) locks: BTreeMap<u32, FileLock>,
    /// Until when the lock of each storage is held, by place.
    #[serde(default)]
    pub(crate) storage_locks: BTreeMap<String, u64>,
    /// How long the lock of each storage has been held in all, by place.
    #[serde(default)]
    pub(crate) storage_holds: BTreeMap<String, u64>,
    pub(crate) journal: Vec<LogEntry>,
    #[serde(skip)]
    pub(crate) call: CallAtHand,
    /// The host whose code runs, where that matters.
    #[serde(skip)]
    pub(crate) acting: Option<String>,
    /// Does a manager act on what high availability is asked for.
    pub ha_manager: bool,
    /// When the manager woke up: with its first resource.
    pub(crate) ha_since: Option<u64>,
    /// When the manager last heard of each host.
    #[serde(default)]
    pub(crate) ha_heard: BTreeMap<String, u64>,
    /// How often it tried to start a resource that does not run.
    #[serde(default)]
    pub(crate) ha_tries: BTreeMap<String, u32>,
    /// Storages whose listing takes so many milliseconds.
    #[serde(default)]
    pub slow_storages: BTreeMap<String, u64>,
    /// Guests react to power buttons and unplugging unless a VM says otherwise.
    pub guests_react: bool,
    /// What befell machines and was not asked for yet, if anybody asks at all.
    #[serde(default)]
    pub(crate) power: Option<Vec<PowerEvent>>,
    /// What somebody saves along with the world who lives beside it.
    #[serde(default)]
    pub beside: Option<serde_json::Value>,
}

impl World {
    /// An empty cluster. `epoch` is the Unix time in milliseconds at which the hosts booted.
    pub fn new(seed: u64, epoch: u64) -> Self {
        Self {
            clock: 0,
            epoch,
            random: Random::new(seed),
            version: "9.2.11".into(),
            release: "9.2".into(),
            repoid: "0000000000000000".into(),
            timing: Timing::default(),
            nodes: BTreeMap::new(),
            contact: String::new(),
            cluster: None,
            access: Access::default(),
            sessions: BTreeMap::new(),
            storages: Vec::new(),
            volumes: Volumes::default(),
            vms: BTreeMap::new(),
            pools: BTreeMap::new(),
            ha_resources: BTreeMap::new(),
            ha_rules: BTreeMap::new(),
            ha_groups: BTreeMap::new(),
            backup_jobs: BTreeMap::new(),
            replication_jobs: BTreeMap::new(),
            pci_mappings: BTreeMap::new(),
            options: BTreeMap::new(),
            sites: BTreeMap::new(),
            factory: None,
            tasks: Vec::new(),
            task_index: BTreeMap::new(),
            events: BTreeMap::new(),
            locks: BTreeMap::new(),
            storage_locks: BTreeMap::new(),
            storage_holds: BTreeMap::new(),
            journal: Vec::new(),
            call: CallAtHand::default(),
            acting: None,
            ha_manager: true,
            ha_since: None,
            ha_heard: BTreeMap::new(),
            ha_tries: BTreeMap::new(),
            slow_storages: BTreeMap::new(),
            guests_react: true,
            power: None,
            beside: None,
        }
    }

    /// Adds a host with defaults of a small machine; the first one added is the contact.
    pub fn add_node(&mut self, name: &str, ip: &str) -> &mut Node {
        if self.contact.is_empty() {
            name.clone_into(&mut self.contact);
        }
        let index = u64::try_from(self.nodes.len()).unwrap_or_default();
        let fingerprint = self.random.hex(64).to_uppercase();
        let pairs: Vec<&str> = (0..32).map(|at| &fingerprint[2 * at..2 * at + 2]).collect();
        let node = Node {
            ip: ip.to_owned(),
            nodeid: u32::try_from(index).unwrap_or_default() + 1,
            reach: Reach::Up,
            reach_since: None,
            severed: false,
            cpus: 8,
            memory: 64 << 30,
            disk: 512 << 30,
            bridges: BTreeSet::from(["vmbr0".to_owned()]),
            interfaces: BTreeSet::from(["eth0".to_owned()]),
            fingerprint: pairs.join(":"),
            name_server: "10.255.255.53".into(),
            pci: Vec::new(),
            // Hosts boot apart, so their status daemons do not broadcast together.
            broadcast_phase: (7_700 + 5_000 * index) % crate::status::BROADCAST_PERIOD,
            release: None,
            next_pid: 1000,
            workers: vec![0; 3],
        };
        let first = crate::status::next_broadcast(self.clock, node.broadcast_phase);
        self.schedule(first, Event::Broadcast(name.to_owned()));
        self.nodes.entry(name.to_owned()).or_insert(node)
    }

    /// Unix seconds.
    pub(crate) fn unix(&self) -> u64 {
        (self.epoch + self.clock) / 1000
    }

    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Unix milliseconds when the clock stood at zero.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Hosts whose votes count together, seen from the contact.
    pub(crate) fn quorate(&self) -> bool {
        let present = self.nodes.values().filter(|node| node.reach != Reach::Unreachable).count();
        self.cluster.is_none() || 2 * present > self.nodes.len()
    }

    /// A configuration file cannot be written while there is no quorum.
    pub(crate) fn need_writable(&self, node: &str, vmid: u32, pid: u32) -> Result<(), String> {
        if self.quorate() {
            return Ok(());
        }
        Err(format!(
            "unable to open file '/etc/pve/nodes/{node}/qemu-server/{vmid}.conf.tmp.{pid}' - Permission denied"
        ))
    }

    /// Refuses what writes to the cluster file system while there is no quorum.
    pub(crate) fn need_quorum(&self) -> Result<(), ApiError> {
        if self.quorate() { Ok(()) } else { Err(ApiError::plain("cluster not ready - no quorum?")) }
    }

    pub(crate) fn privileges(&self, caller: &Caller, path: &str) -> Privileges {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        let pool = self.pool_of_path(path);
        self.access.privileges(caller, path, pool)
    }

    fn pool_of_path(&self, path: &str) -> Option<&str> {
        let vm = path.strip_prefix("/vms/").and_then(|id| id.parse().ok());
        let storage = path.strip_prefix("/storage/");
        let holds = |pool: &Pool| {
            vm.is_some_and(|id: u32| pool.vms.contains(&id))
                || storage.is_some_and(|id| pool.storages.contains(id))
        };
        self.pools.iter().find(|(_, pool)| holds(pool)).map(|(name, _)| name.as_str())
    }

    pub(crate) fn host_cpus(&self, node: &str) -> u64 {
        self.nodes.get(node).map_or(1, |node| u64::from(node.cpus))
    }

    /// A right on VMs, worked out once for all that have no entry and no pool of their own: there may be thousands.
    pub(crate) fn vm_right<'a>(
        &'a self,
        caller: &'a Caller,
        privilege: &'a str,
    ) -> impl Fn(u32) -> bool + 'a {
        let own = self.access.acl.iter().filter_map(|entry| entry.path.strip_prefix("/vms/")?.parse().ok());
        let pooled = self.pools.values().flat_map(|pool| pool.vms.iter().copied());
        let special: BTreeSet<u32> = own.chain(pooled).collect();
        let usual = self.may(caller, "/vms/0", privilege);
        move |vmid| {
            if special.contains(&vmid) { self.may(caller, &format!("/vms/{vmid}"), privilege) } else { usual }
        }
    }

    pub(crate) fn may(&self, caller: &Caller, path: &str, privilege: &str) -> bool {
        let path = if path.len() > 1 { path.trim_end_matches('/') } else { path };
        self.access.holds(caller, path, self.pool_of_path(path), privilege)
    }

    pub(crate) fn need(&self, caller: &Caller, path: &str, privilege: &str) -> Result<(), ApiError> {
        if self.may(caller, path, privilege) { Ok(()) } else { Err(denied(path, privilege)) }
    }

    pub(crate) fn need_any(&self, caller: &Caller, path: &str, privileges: &[&str]) -> Result<(), ApiError> {
        let ok = privileges.iter().any(|name| self.may(caller, path, name));
        if ok { Ok(()) } else { Err(denied(path, &privileges.join("|"))) }
    }

    /// May the caller decide over a path: by right, or because it may make such things.
    pub(crate) fn need_modify(&self, caller: &Caller, path: &str) -> Result<(), ApiError> {
        let maker =
            [("/storage/", "Datastore.Allocate"), ("/vms/", "VM.Allocate"), ("/pool/", "Pool.Allocate")];
        let own = maker.iter().find(|(prefix, _)| path.starts_with(prefix)).map(|(_, privilege)| *privilege);
        let any: Vec<&str> = std::iter::once("Permissions.Modify").chain(own).collect();
        self.need_any(caller, path, &any)
    }

    /// Applies an endpoint's check; `fill` gives the raw values of parameters named in paths.
    pub(crate) fn apply_check(
        &self,
        check: &Check,
        caller: &Caller,
        fill: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), ApiError> {
        let plain = || ApiError::Permission(None);
        match check {
            Check::All | Check::World => Ok(()),
            Check::Root => {
                if caller.is_root() {
                    Ok(())
                } else {
                    Err(ApiError::Permission(Some("user != root@pam".into())))
                }
            }
            Check::Perm { needs: Some(param), .. } if fill(param).is_none() => Err(plain()),
            Check::Perm { path, privileges, any, .. } => {
                let path = fill_path(path, fill);
                let names: Vec<&str> = privileges.iter().map(String::as_str).collect();
                if *any {
                    self.need_any(caller, &path, &names)
                } else {
                    names.iter().try_for_each(|name| self.need(caller, &path, name))
                }
            }
            Check::And(parts) => parts.iter().try_for_each(|part| self.apply_check(part, caller, fill)),
            Check::Or(parts) => {
                let any = parts.iter().any(|part| self.apply_check(part, caller, fill).is_ok());
                if any { Ok(()) } else { Err(plain()) }
            }
            Check::UserGroup { privileges, groups } => {
                self.check_groups(caller, privileges, *groups, &|name| fill(name).unwrap_or_default())
            }
            Check::UserSelf => {
                if fill("userid") == Some(caller.id()) {
                    Ok(())
                } else {
                    Err(plain())
                }
            }
            Check::UserRealm(privilege) => {
                let user = fill("userid").unwrap_or_default();
                let realm = user.split_once('@').map_or("", |(_, realm)| realm);
                if self.may(caller, &format!("/access/realm/{realm}"), privilege) {
                    Ok(())
                } else {
                    Err(plain())
                }
            }
            Check::ModifyAcl(path) => self.need_modify(caller, &fill_path(path, fill)),
        }
    }

    /// Users are in the care of those who care for their groups; those who care for all groups care for all users.
    fn check_groups(
        &self,
        caller: &Caller,
        privileges: &[String],
        groups: Groups,
        parameter: &dyn Fn(&str) -> String,
    ) -> Result<(), ApiError> {
        if caller.is_root() {
            return Ok(());
        }
        let name = parameter("userid");
        let user = self.access.users.get(&name);
        if groups != Groups::OfNew && user.is_none() {
            return Err(ApiError::plain(format!("no such user ('{name}')")));
        }
        let cares = |path: &str| privileges.iter().any(|privilege| self.may(caller, path, privilege));
        if cares("/access/groups") {
            return Ok(());
        }
        let all = privileges.join("|");
        let wanted = parameter("groups");
        let wanted: Vec<&str> = split_list(&wanted).collect();
        if groups != Groups::Own {
            if wanted.is_empty() {
                return Err(denied("/access/groups", &all));
            }
            let paths = wanted.iter().map(|group| format!("/access/groups/{group}"));
            if let Some(path) = paths.into_iter().find(|path| !cares(path)) {
                return Err(denied(&path, &all));
            }
        }
        let own = user
            .is_some_and(|user| user.groups.iter().any(|group| cares(&format!("/access/groups/{group}"))));
        if own || groups == Groups::OfNew { Ok(()) } else { Err(ApiError::Permission(None)) }
    }

    pub(crate) fn note(&mut self, node: &str, pid: u32, user: &str, message: String) {
        let entry =
            LogEntry { time: self.unix(), node: node.to_owned(), pid, user: user.to_owned(), message };
        self.journal.push(entry);
        if self.journal.len() > 2 * JOURNAL {
            self.journal.drain(..JOURNAL);
        }
    }
}

fn fill_path(template: &str, fill: &dyn Fn(&str) -> Option<String>) -> String {
    let mut path = String::new();
    let mut rest = template;
    while let Some((front, tail)) = rest.split_once('{') {
        let (name, after) = tail.split_once('}').unwrap_or((tail, ""));
        path.push_str(front);
        path.push_str(&fill(name).unwrap_or_default());
        rest = after;
    }
    path.push_str(rest);
    path
}

/// A world holds passwords and token secrets: only that it is one is shown.
impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}
