//! Drives with configuration (`config_delivery: cidata`): put in before a start, taken out once the machine has its
//! configuration, and removed where a run left one behind.

use std::collections::BTreeSet;

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::desired::{ConfigDelivery, Desired, Node, OUR_SEEDS};
use talmox_types::{ClusterUid, StorageId};

use super::{Draft, Planner};
use crate::{Effect, Expected, Goal, Guest, Step, StepId, Until};

/// The storage configuration drives of a description go to.
pub fn seed_storage(desired: &Desired) -> &StorageId {
    desired.proxmox.seed_storage.as_ref().unwrap_or(&desired.proxmox.iso_storage)
}

/// The drive of ours a VM has.
pub fn seed_in(config: &VmConfig) -> Option<(String, VolumeId)> {
    let drives = config.slots().filter(|(slot, _)| slot.is_drive());
    drives
        .filter_map(|(slot, text)| Some((slot.to_string(), Disk::parse(text).ok()?.source.volume()?.clone())))
        .find(|(_, volume)| volume.file_name().starts_with(OUR_SEEDS))
}

/// How the names of a cluster's drives begin.
pub fn seeds_of(uid: &ClusterUid) -> String {
    format!("{OUR_SEEDS}{uid}-")
}

impl Planner<'_> {
    /// What a VM gets before it is started, if its configuration comes by drive; gives what the start has to wait for.
    pub(super) fn seed(
        &mut self,
        node: &Node,
        vm: &Expected,
        needs: Vec<StepId>,
        effect: Effect,
    ) -> Vec<StepId> {
        let wanted = self.desired.talos.config_delivery == ConfigDelivery::Cidata
            && self.request.until >= Until::Configured
            && self.request.goal == Goal::Converge;
        let guest = self.observed.guests.get(&vm.vmid());
        let has = guest.and_then(Guest::seen).is_some_and(|seen| seed_in(&seen.live).is_some());
        let Some(address) = self.addresses.get(&node.name).copied().filter(|_| wanted && !has) else {
            return needs;
        };
        let storage = seed_storage(self.desired).clone();
        let step = Step::AttachSeed { vm: vm.clone(), address, storage };
        let reason = "its configuration comes by drive";
        vec![self.push(Draft::new(Some(&node.name), step, reason, effect).after(needs))]
    }

    /// Takes the drive out of a machine that has its configuration, or will have it after a step.
    pub(super) fn eject(&mut self, node: &Node, vm: &Expected, after: Option<StepId>) {
        let guest = self.observed.guests.get(&vm.vmid());
        let held = guest.and_then(Guest::seen).and_then(|seen| seed_in(&seen.live));
        let address = self.addresses.get(&node.name).copied();
        let (Some((_, volume)), Some(address), true) = (held, address, self.request.covers(&node.name))
        else {
            return;
        };
        let step = Step::EjectSeed { vm: vm.clone(), volume, address };
        let reason = "it holds secrets, and is not needed any more";
        let needs = after.into_iter().collect();
        self.push(Draft::new(Some(&node.name), step, reason, Effect::ChangeLive).after(needs));
    }

    /// Removes drives of this cluster that no VM has.
    pub(super) fn forgotten_seeds(&mut self) {
        let Some(uid) = &self.desired.uid else { return };
        let (prefix, observed) = (seeds_of(uid), self.observed);
        let configs = observed.guests.values().filter_map(Guest::seen);
        let held: BTreeSet<VolumeId> = configs.filter_map(|seen| Some(seed_in(&seen.live)?.1)).collect();
        let mut seen: BTreeSet<&VolumeId> = BTreeSet::new();
        for ((host, storage), files) in &observed.files {
            let shared = observed.storage(host, storage).is_some_and(|storage| storage.shared);
            for file in files.iter().filter(|file| file.volume.file_name().starts_with(&prefix)) {
                if held.contains(&file.volume) || (shared && !seen.insert(&file.volume)) {
                    continue;
                }
                let step = Step::RemoveSeed { host: host.clone(), volume: file.volume.clone() };
                let reason = "a run left it behind, and it holds secrets";
                let part = Some(format!("{host}-{}", file.volume.file_name()));
                self.push(Draft { part, ..Draft::new(None, step, reason, Effect::ChangeLive) });
            }
        }
    }
}
