//! Drives with configuration (`config_delivery: cidata`): put in before a start, taken out once the machine has its
//! configuration, and removed where a run left one behind.

use std::collections::BTreeMap;

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::desired::{ConfigDelivery, Desired, Node, OUR_SEEDS};
use talmox_types::{ClusterUid, HostName, StorageId, VmId};

use super::{Draft, Planner};
use crate::{Effect, Expected, Goal, Guest, NoteKind, Observed, Step, StepId, Until};

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
            && self.request.until > Until::Vms
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

    /// Whether a VM stays off in a run that ends at the VMs: its machine has no configuration yet, and the drive it would read one from
    /// is put in before its first start.
    pub(super) fn stays_off_for_drive(&mut self, node: &Node, vm: &Expected) -> bool {
        let ends_at_vms = self.request.until <= Until::Vms && self.request.goal == Goal::Converge;
        let by_drive = self.desired.talos.config_delivery == ConfigDelivery::Cidata;
        let guest = self.observed.guests.get(&vm.vmid());
        let has = guest.and_then(Guest::seen).is_some_and(|seen| seed_in(&seen.live).is_some());
        let stays_off = by_drive && ends_at_vms && !has && !vm.mark.configured;
        if stays_off {
            let text = "stays off: it gets its configuration drive before its first start, and this run ends at the VMs; talmox \
                        apply goes on";
            self.note(Some(&node.name), NoteKind::Placement, text.to_owned());
        }
        stays_off
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
        for SeedFile { host, volume, holder } in seed_files(self.desired, self.observed) {
            if holder.is_none() {
                self.remove_seed(host, volume, "a run left it behind, and it holds secrets", Vec::new());
            }
        }
    }

    /// Removes the drive of a VM that goes: Proxmox would leave the file.
    pub(super) fn seed_goes_with(&mut self, vmid: VmId, host: &HostName, removed: &StepId) {
        let guest = self.observed.guests.get(&vmid);
        if let Some((_, volume)) = guest.and_then(Guest::seen).and_then(|seen| seed_in(&seen.live)) {
            let reason = "its VM goes, and it holds secrets";
            self.remove_seed(host.clone(), volume, reason, vec![removed.clone()]);
        }
    }

    fn remove_seed(&mut self, host: HostName, volume: VolumeId, reason: &str, needs: Vec<StepId>) {
        let part = Some(format!("{host}-{}", volume.file_name()));
        let step = Step::RemoveSeed { host, volume };
        self.push(Draft { part, ..Draft::new(None, step, reason, Effect::ChangeLive).after(needs) });
    }
}

/// A drive of a cluster's on a storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeedFile {
    pub(crate) host: HostName,
    pub(crate) volume: VolumeId,
    /// The VM that has it.
    pub(crate) holder: Option<VmId>,
}

/// The drives of a cluster: those on storages that were looked at, and those in VMs.
pub(crate) fn seed_files(desired: &Desired, observed: &Observed) -> Vec<SeedFile> {
    let Some(uid) = &desired.uid else { return Vec::new() };
    let prefix = seeds_of(uid);
    let of_guest = |guest: &Guest| Some((seed_in(&guest.seen()?.live)?.1, (guest.host.clone(), guest.vmid)));
    let held: BTreeMap<VolumeId, (HostName, VmId)> = observed.guests.values().filter_map(of_guest).collect();
    let own = |volume: &VolumeId| volume.file_name().starts_with(&prefix);
    let mut found: BTreeMap<(VolumeId, Option<HostName>), SeedFile> = BTreeMap::new();
    for (volume, (host, vmid)) in held.iter().filter(|(volume, _)| own(volume)) {
        let file = SeedFile { host: host.clone(), volume: volume.clone(), holder: Some(*vmid) };
        found.insert((volume.clone(), None), file);
    }
    for ((host, storage), files) in &observed.files {
        let shared = observed.storage(host, storage).is_some_and(|storage| storage.shared);
        for file in files.iter().filter(|file| own(&file.volume) && !held.contains_key(&file.volume)) {
            let place = (file.volume.clone(), (!shared).then(|| host.clone()));
            let file = SeedFile { host: host.clone(), volume: file.volume.clone(), holder: None };
            found.entry(place).or_insert(file);
        }
    }
    found.into_values().collect()
}
