//! How full hosts and storages are, and what more they bear.
//!
//! Memory and CPU are counted as Proxmox would have to give them: what runs, and what of ours is going to. Templates and
//! VMs that others have stopped take none, but their disks take room. Whatever Proxmox does not tell limits nothing.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, VolumeId};
use talmox_types::desired::{Desired, Node, PciSource, PlacementPolicy, Power as WantedPower};
use talmox_types::{HostName, MappingName, Ratio, StorageId};

use crate::identity::{Names, by_name};
use crate::{Guest, Identities, Observed, Power, Storage};

const GIB: u64 = 1 << 30;

/// What is taken and what there is.
#[derive(Clone)]
pub(super) struct Capacity {
    policy: PlacementPolicy,
    hosts: BTreeMap<HostName, HostLoad>,
    storages: BTreeMap<StorageKey, StorageLoad>,
    devices: BTreeMap<(MappingName, HostName), DeviceLoad>,
}

/// A storage that hosts share is one; of others each host has its own.
type StorageKey = (StorageId, Option<HostName>);

#[derive(Clone, Default)]
struct HostLoad {
    /// Bytes; none: not known.
    memory: Option<u64>,
    committed: u64,
    cpus: Option<u32>,
    committed_cpus: u32,
}

#[derive(Clone)]
struct StorageLoad {
    total: u64,
    taken: u64,
    /// Thousandths of its size that may be promised.
    overcommit: u64,
}

#[derive(Clone, Copy, Default)]
struct DeviceLoad {
    there: usize,
    taken: usize,
}

impl Capacity {
    pub(super) fn new(desired: &Desired, observed: &Observed, identities: &Identities) -> Self {
        let policy = desired.proxmox.placement;
        let hosts = observed.hosts.iter().map(|(name, host)| {
            let load = HostLoad { memory: host.memory, cpus: host.cpus, ..HostLoad::default() };
            (name.clone(), load)
        });
        let mut capacity = Self {
            policy,
            hosts: hosts.collect(),
            storages: storages(observed, policy),
            devices: BTreeMap::new(),
        };
        for (mapping, hosts) in &observed.mappings {
            for (host, count) in hosts {
                let load = DeviceLoad { there: *count, taken: 0 };
                capacity.devices.insert((mapping.clone(), host.clone()), load);
            }
        }
        let names = by_name(desired);
        for guest in observed.guests.values() {
            capacity.count(guest, will_run(&names, identities, guest), true);
        }
        capacity
    }

    /// Counts a guest, or takes it out again.
    fn count(&mut self, guest: &Guest, runs: bool, there: bool) {
        let change =
            |taken: &mut u64, by: u64| *taken = if there { *taken + by } else { taken.saturating_sub(by) };
        if let Some(load) = self.hosts.get_mut(&guest.host).filter(|_| runs) {
            change(&mut load.committed, guest.memory);
            load.committed_cpus = if there {
                load.committed_cpus + guest.cpus
            } else {
                load.committed_cpus.saturating_sub(guest.cpus)
            };
        }
        for mapping in mappings_of(guest) {
            if let Some(device) = self.devices.get_mut(&(mapping, guest.host.clone())) {
                device.taken = if there { device.taken + 1 } else { device.taken.saturating_sub(1) };
            }
        }
    }

    /// Takes a VM out that is going to be removed, and its disks with it.
    pub(super) fn forget(&mut self, observed: &Observed, guest: &Guest) {
        self.count(guest, guest.power == Power::Running, false);
        for (volume, size) in disks_on(guest) {
            if let Some(load) = self.storages.get_mut(&key(observed, &guest.host, volume.storage())) {
                load.taken = load.taken.saturating_sub(size);
            }
        }
    }

    /// Counts a node that is going to be made.
    pub(super) fn add(&mut self, observed: &Observed, host: &HostName, node: &Node) {
        if let Some(load) = self.hosts.get_mut(host) {
            load.committed += memory_of(node);
            load.committed_cpus += node.vm.cores * node.vm.sockets;
        }
        for (storage, need) in disks_of(node) {
            let key = key(observed, host, storage);
            if let Some(load) = self.storages.get_mut(&key) {
                load.taken += need;
            }
        }
        for mapping in wanted_mappings(node) {
            if let Some(device) = self.devices.get_mut(&(mapping.clone(), host.clone())) {
                device.taken += 1;
            }
        }
    }

    /// Whether a host bears a node, or the sum it would not.
    pub(super) fn bears(&self, observed: &Observed, host: &HostName, node: &Node) -> Result<(), String> {
        self.bears_load(host, node)?;
        for (storage, need) in disks_of(node) {
            let Some(load) = self.storages.get(&key(observed, host, storage)) else { continue };
            let limit = load.total / 1000 * load.overcommit;
            if load.taken + need > limit {
                return Err(format!(
                    "storage {storage} on {host} has {} of disks and would get {} more, of {} (placement.storage_overcommit {})",
                    gib(load.taken),
                    gib(need),
                    gib(load.total),
                    self.policy.storage_overcommit
                ));
            }
        }
        for mapping in wanted_mappings(node) {
            let device = self.devices.get(&(mapping.clone(), host.clone())).copied().unwrap_or_default();
            if device.there == 0 {
                return Err(format!("{host} has no device of the PCI mapping {mapping}"));
            }
            if device.taken >= device.there {
                let there = device.there;
                return Err(format!(
                    "{host} has {there} of the PCI mapping {mapping}, all of them given to VMs"
                ));
            }
        }
        Ok(())
    }

    /// Whether a host bears what a node takes while it runs.
    pub(super) fn bears_load(&self, host: &HostName, node: &Node) -> Result<(), String> {
        let Some(load) = self.hosts.get(host) else { return Ok(()) };
        self.bears_memory(host, load, node)?;
        self.bears_cpus(host, load, node)
    }

    fn bears_memory(&self, host: &HostName, load: &HostLoad, node: &Node) -> Result<(), String> {
        let Some(memory) = load.memory else { return Ok(()) };
        let reserve = u64::from(self.policy.reserve_memory) << 20;
        let need = memory_of(node);
        if load.committed + need + reserve <= memory {
            return Ok(());
        }
        Err(format!(
            "{host} has {} of memory, {} of it for running VMs and {} for itself (placement.reserve_memory), and {} more does not fit",
            gib(memory),
            gib(load.committed),
            gib(reserve),
            gib(need)
        ))
    }

    fn bears_cpus(&self, host: &HostName, load: &HostLoad, node: &Node) -> Result<(), String> {
        let Some(cpus) = load.cpus else { return Ok(()) };
        let need = node.vm.cores * node.vm.sockets;
        let limit = u64::from(cpus) * u64::from(self.policy.cpu_overcommit.thousandths()) / 1000;
        if u64::from(load.committed_cpus + need) <= limit {
            return Ok(());
        }
        Err(format!(
            "{host} has {cpus} CPUs and {} given to running VMs; {need} more is beyond placement.cpu_overcommit {}",
            load.committed_cpus, self.policy.cpu_overcommit
        ))
    }

    /// Bytes of memory that stay free once the node is there; none: not known.
    pub(super) fn left(&self, host: &HostName, node: &Node) -> Option<u64> {
        let load = self.hosts.get(host)?;
        let reserve = u64::from(self.policy.reserve_memory) << 20;
        Some(load.memory?.saturating_sub(load.committed + memory_of(node) + reserve))
    }

    /// The same in words: `11 of 32 GiB memory stay free`.
    pub(super) fn left_in_words(&self, host: &HostName, node: &Node) -> Option<String> {
        let (left, all) = (self.left(host, node)?, self.hosts.get(host)?.memory?);
        Some(format!("{} of {} memory stay free", gib(left).trim_end_matches(" GiB"), gib(all)))
    }
}

fn memory_of(node: &Node) -> u64 {
    u64::from(node.vm.memory) << 20
}

fn wanted_mappings(node: &Node) -> impl Iterator<Item = &MappingName> {
    node.vm.pci.iter().filter_map(|device| match &device.source {
        PciSource::Mapping(mapping) => Some(mapping),
        PciSource::Address(_) => None,
    })
}

fn mappings_of(guest: &Guest) -> Vec<MappingName> {
    let devices = guest.seen().and_then(|seen| seen.next.host_devices().ok()).unwrap_or_default();
    devices.into_values().filter_map(|device| device.mapping).collect()
}

/// Bytes a node needs on each storage.
fn disks_of(node: &Node) -> BTreeMap<&StorageId, u64> {
    let mut needs: BTreeMap<&StorageId, u64> = BTreeMap::new();
    let system = std::iter::once((&node.vm.storage, node.vm.disk_size));
    for (storage, size) in system.chain(node.vm.extra_disks.iter().map(|disk| (&disk.storage, disk.size))) {
        *needs.entry(storage).or_default() += u64::from(size) * GIB;
    }
    needs
}

/// What runs, and what of ours is stopped and going to run.
fn will_run(names: &Names<'_>, identities: &Identities, guest: &Guest) -> bool {
    let ours = identities.class(guest.vmid).owned();
    match ours.and_then(|owned| names.get(owned.mark.node.as_str())) {
        Some(node) => node.vm.power == WantedPower::Running,
        None => guest.power == Power::Running && !guest.template,
    }
}

fn key(observed: &Observed, host: &HostName, storage: &StorageId) -> StorageKey {
    let shared = observed.storage(host, storage).is_some_and(|storage| storage.shared);
    (storage.clone(), (!shared).then(|| host.clone()))
}

/// Storages with what is promised on them: the sizes of all disks, or what is written if that is more.
fn storages(observed: &Observed, policy: PlacementPolicy) -> BTreeMap<StorageKey, StorageLoad> {
    let promised = promised(observed);
    let load = |storage: &Storage| {
        let key = key(observed, &storage.host, &storage.id);
        let thin = is_thin(&storage.kind);
        let disks = if thin { promised.get(&key).copied().unwrap_or_default() } else { 0 };
        let overcommit = if thin { thousandths(policy.storage_overcommit) } else { 1000 };
        (key, StorageLoad { total: storage.total, taken: disks.max(storage.used), overcommit })
    };
    observed.storages.iter().filter(|storage| storage.total > 0).map(load).collect()
}

fn thousandths(ratio: Ratio) -> u64 {
    u64::from(ratio.thousandths())
}

fn promised(observed: &Observed) -> BTreeMap<StorageKey, u64> {
    let mut known: BTreeSet<(StorageKey, VolumeId)> = BTreeSet::new();
    let mut sums: BTreeMap<StorageKey, u64> = BTreeMap::new();
    for guest in observed.guests.values() {
        for (volume, size) in disks_on(guest) {
            let key = key(observed, &guest.host, volume.storage());
            if known.insert((key.clone(), volume)) {
                *sums.entry(key).or_default() += size;
            }
        }
    }
    sums
}

/// The disks of a guest and their sizes.
fn disks_on(guest: &Guest) -> Vec<(VolumeId, u64)> {
    let Some(seen) = guest.seen() else { return Vec::new() };
    let drives = seen.next.slots().filter(|(slot, _)| slot.holds_volume());
    let disks = drives.filter_map(|(_, text)| Disk::parse(text).ok()).filter(|disk| !disk.is_cdrom());
    disks.filter_map(|disk| Some((disk.source.volume()?.clone(), disk.size?.bytes()))).collect()
}

/// Whether a disk takes only what is written to it.
fn is_thin(kind: &str) -> bool {
    kind != "lvm"
}

/// `12 GiB`, with one digit after the point where it is not whole.
fn gib(bytes: u64) -> String {
    let tenths = bytes * 10 / GIB;
    if tenths.is_multiple_of(10) {
        format!("{} GiB", tenths / 10)
    } else {
        format!("{}.{} GiB", tenths / 10, tenths % 10)
    }
}
