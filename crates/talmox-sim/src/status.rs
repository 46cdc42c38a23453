//! What hosts tell each other every ten seconds. Until then the others know only that a VM exists.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::qemu::view::{boot_disk_size, cpus};
use crate::tasks::Event;
use crate::vm::Vm;
use crate::world::{Reach, World};

/// Milliseconds between two broadcasts of a host.
pub(crate) const BROADCAST_PERIOD: u64 = 10_000;

/// A VM as its host last described it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VmStat {
    pub(crate) name: String,
    pub(crate) running: bool,
    pub(crate) template: bool,
    pub(crate) cpus: u64,
    pub(crate) memory: u64,
    pub(crate) disk: u64,
    pub(crate) since: u64,
    /// Of the VM this was made from, to tell whether anything changed.
    seen: u64,
}

/// Changes with the configuration and with power.
fn fingerprint(vm: &Vm) -> u64 {
    let mut hasher = DefaultHasher::new();
    vm.config.hash(&mut hasher);
    vm.run.as_ref().map(|run| run.since).hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn next_broadcast(now: u64, phase: u64) -> u64 {
    let period = BROADCAST_PERIOD;
    let base = now - now % period + phase;
    if base > now { base } else { base + period }
}

impl World {
    /// Says when within ten seconds a host broadcasts.
    pub fn set_broadcast_phase(&mut self, name: &str, phase: u64) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.broadcast_phase = phase % BROADCAST_PERIOD;
        let of_node = |event: &Event| matches!(event, Event::Broadcast(node) if node == name);
        for events in self.events.values_mut() {
            events.retain(|event| !of_node(event));
        }
        let next = next_broadcast(self.clock, phase);
        self.schedule(next, Event::Broadcast(name.to_owned()));
    }

    pub(crate) fn broadcast(&mut self, node: &str) {
        let now = self.clock;
        let host = self.host_cpus(node);
        // What a host without a link says, nobody hears.
        let heard = self.nodes.get(node).is_some_and(|node| node.reach != Reach::Unreachable);
        for (vmid, vm) in self.vms.iter_mut().filter(|(_, vm)| heard && vm.node == node) {
            let seen = fingerprint(vm);
            if vm.stat.as_ref().is_some_and(|stat| stat.seen == seen) {
                continue;
            }
            vm.stat = Some(VmStat {
                name: vm.name(*vmid),
                running: vm.run.is_some(),
                template: vm.is_template(),
                cpus: cpus(vm, host),
                memory: vm.memory_bytes(),
                disk: boot_disk_size(vm),
                since: vm.run.as_ref().map_or(now, |run| run.since),
                seen,
            });
        }
        let phase = self.nodes.get(node).map_or(0, |node| node.broadcast_phase);
        let next = next_broadcast(now, phase);
        self.schedule(next, Event::Broadcast(node.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn broadcasts_come_once_a_period_at_their_phase() {
        assert_eq!(next_broadcast(0, 7_700), 7_700);
        assert_eq!(next_broadcast(7_700, 7_700), 17_700);
        assert_eq!(next_broadcast(19_000, 2_700), 22_700);
    }

    #[test]
    fn a_new_vm_is_unknown_to_others_until_the_next_broadcast() {
        let mut world = World::new(1, 0);
        world.add_node("n", "192.0.2.1");
        world.add_vm("n", 100, BTreeMap::new(), false);
        assert!(world.vms[&100].stat.is_none());
        world.advance_to(10_000);
        assert_eq!(world.vms[&100].stat.as_ref().unwrap().name, "VM 100");
    }
}
