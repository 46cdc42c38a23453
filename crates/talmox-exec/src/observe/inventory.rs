//! The cluster's own list of everything, sorted.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{Guest, GuestKind, Host, Power, Seen, Storage};
use talmox_pve::client::{NodeResource, NodeState, Resource, StorageResource, VmPower, VmResource, VmStatus};
use talmox_types::{HostName, PoolName, VmId};

/// What `/cluster/resources` holds.
#[derive(Default)]
pub(crate) struct Inventory {
    pub(crate) hosts: BTreeMap<HostName, Host>,
    pub(crate) storages: Vec<Storage>,
    pub(crate) guests: BTreeMap<VmId, Guest>,
    pub(crate) pools: BTreeSet<PoolName>,
}

impl Inventory {
    pub(crate) fn of(resources: Vec<Resource>) -> Self {
        let mut inventory = Self::default();
        for resource in resources {
            match resource {
                Resource::Qemu(vm) => inventory.add_guest(vm, GuestKind::Vm),
                Resource::Lxc(container) => inventory.add_guest(container, GuestKind::Container),
                Resource::Node(node) => {
                    inventory.hosts.insert(node.node.clone(), host(&node));
                }
                Resource::Storage(seen) => inventory.storages.push(storage(seen)),
                Resource::Pool(pool) => drop(inventory.pools.insert(pool.pool)),
                Resource::Other => {}
            }
        }
        inventory
    }

    fn add_guest(&mut self, resource: VmResource, kind: GuestKind) {
        self.guests.insert(resource.vmid, guest(resource, kind));
    }
}

fn guest(resource: VmResource, kind: GuestKind) -> Guest {
    let power = match resource.status.as_str() {
        "running" => Power::Running,
        "stopped" => Power::Stopped,
        _ => Power::Unknown,
    };
    Guest {
        vmid: resource.vmid,
        host: resource.node,
        kind,
        name: resource.name.filter(|name| !is_made_up(name, resource.vmid)),
        power,
        memory: resource.maxmem,
        cpus: whole(resource.maxcpu),
        template: resource.template,
        lock: resource.lock,
        tags: tags(resource.tags.as_deref()),
        pool: resource.pool,
        ha: resource.hastate,
        config: Seen::NotAsked,
    }
}

/// Takes over what a host itself says of a VM of its: that is never old.
pub(crate) fn refresh(guest: &mut Guest, host: &HostName, status: &VmStatus) {
    guest.host = host.clone();
    guest.name = status.name.clone().filter(|name| !is_made_up(name, guest.vmid));
    guest.power = power(status.status);
    guest.template = status.template;
    guest.lock.clone_from(&status.lock);
    guest.tags = tags(status.tags.as_deref());
}

/// A VM only its host knows so far.
pub(crate) fn newcomer(host: &HostName, status: &VmStatus, pool: Option<PoolName>) -> Guest {
    let mut guest = Guest {
        vmid: status.vmid,
        host: host.clone(),
        kind: GuestKind::Vm,
        name: None,
        power: Power::Unknown,
        memory: 0,
        cpus: 0,
        template: false,
        lock: None,
        tags: BTreeSet::new(),
        pool,
        ha: None,
        config: Seen::NotAsked,
    };
    refresh(&mut guest, host, status);
    guest
}

pub(crate) fn power(power: VmPower) -> Power {
    match power {
        VmPower::Running => Power::Running,
        VmPower::Stopped => Power::Stopped,
        VmPower::Unknown => Power::Unknown,
    }
}

/// What a host calls a VM that has no name (yet).
fn is_made_up(name: &str, vmid: VmId) -> bool {
    name == format!("VM {vmid}")
}

fn tags(text: Option<&str>) -> BTreeSet<String> {
    let words = text.unwrap_or_default().split([';', ',', ' ']);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// A whole number that Proxmox may write as a float.
fn whole(number: f64) -> u32 {
    format!("{number:.0}").parse().unwrap_or_default()
}

fn host(node: &NodeResource) -> Host {
    Host {
        online: node.status == NodeState::Online,
        memory: node.maxmem,
        memory_used: node.mem,
        cpus: node.maxcpu.map(whole),
    }
}

fn storage(seen: StorageResource) -> Storage {
    Storage {
        id: seen.storage,
        host: seen.node,
        kind: seen.plugintype,
        shared: seen.shared,
        available: seen.status == "available",
        content: seen.content.into_iter().collect(),
        total: seen.maxdisk,
        used: seen.disk,
    }
}
