//! What there is at one moment, to be compared with another moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::World;

/// VMs, volumes and pools, without anything that only time changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    pub vms: BTreeMap<u32, VmDump>,
    /// By place (a host, or `*` for shared storages) and volume id.
    pub volumes: BTreeMap<String, VolumeDump>,
    /// Members by pool.
    pub pools: BTreeMap<String, BTreeSet<u32>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VmDump {
    pub node: String,
    pub running: bool,
    pub config: BTreeMap<String, String>,
    pub pending: BTreeMap<String, String>,
    /// Keys that go with the next restart.
    pub deletes: BTreeSet<String>,
    pub snapshots: BTreeMap<String, BTreeMap<String, String>>,
}

impl VmDump {
    pub fn is_locked_by(&self, lock: &str) -> bool {
        self.config.get("lock").is_some_and(|held| held == lock)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeDump {
    pub owner: Option<u32>,
    pub size: u64,
    pub format: String,
}

impl World {
    pub fn dump(&self) -> Dump {
        let vms = self.vms.iter().map(|(vmid, vm)| {
            let dump = VmDump {
                node: vm.node.clone(),
                running: vm.run.is_some(),
                config: vm.config.clone(),
                pending: vm.pending.clone(),
                deletes: vm.pending_delete.keys().cloned().collect(),
                snapshots: vm.snapshots.clone(),
            };
            (*vmid, dump)
        });
        let volumes = self.volumes.iter().map(|(key, volume)| {
            let dump = VolumeDump { owner: volume.vmid, size: volume.size, format: volume.format.clone() };
            (key.clone(), dump)
        });
        let pools = self.pools.iter().map(|(name, pool)| (name.clone(), pool.vms.clone()));
        Dump { vms: vms.collect(), volumes: volumes.collect(), pools: pools.collect() }
    }
}
