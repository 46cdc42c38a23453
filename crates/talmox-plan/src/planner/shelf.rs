//! Disks that outlive their VM: while it is built anew they hang on a shelf, a VM that never runs.
//!
//! ```text
//!  old VM stopped ─▶ shelf made ─▶ disks to the shelf ─▶ old VM removed ─▶ new VM made ─▶ disks to it ─▶ shelf removed ─▶ start
//! ```
//!
//! Proxmox gives a disk to another VM of the same host only, and every volume belongs to some VM at any time. The slot stays
//! the same throughout, so that whoever comes after a run that died finds out where each disk goes: a shelf that holds something
//! is emptied into the VM of its node, whichever that is by then.

use std::collections::BTreeMap;

use talmox_pve::property::{Disk, Slot, VolumeId};
use talmox_types::desired::Node;
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{HostName, Mark, NodeName, StorageId, VmId};

use super::remove::{attached, is_kept};
use super::{Draft, Planner};
use crate::{
    Effect, Expected, Guest, Identities, NoteKind, Observed, Owned, Step, StepId, Upkeep, Volume, Waiting,
};

/// A VM that holds disks of a node while its own VM is built anew.
#[derive(Clone)]
pub(super) struct Shelf {
    vm: Expected,
    /// What it holds, or will once `filled` is done.
    disks: BTreeMap<Slot, Shelved>,
    filled: Vec<StepId>,
}

#[derive(Clone)]
struct Shelved {
    storage: StorageId,
    /// None: it gets its name on the way.
    volume: Option<VolumeId>,
}

/// The shelf of each node that has one; the first where there are two, which is refused elsewhere.
pub(super) fn find(observed: &Observed, identities: &Identities) -> BTreeMap<NodeName, Shelf> {
    let mut found = BTreeMap::new();
    for owned in identities.shelves() {
        let Some(guest) = observed.guests.get(&owned.mark.vmid) else { continue };
        let disks = volumes(guest).into_iter().map(|Volume { slot, volume, .. }| {
            (slot, Shelved { storage: volume.storage().clone(), volume: Some(volume) })
        });
        let vm = Expected { host: guest.host.clone(), mark: owned.mark.clone() };
        let holder = Shelf { vm, disks: disks.collect(), filled: Vec::new() };
        found.entry(owned.mark.node.clone()).or_insert(holder);
    }
    found
}

/// The volumes of its own that a VM holds.
fn volumes(guest: &Guest) -> Vec<Volume> {
    let Some(seen) = guest.seen() else { return Vec::new() };
    let own = |(slot, disk): (Slot, Disk)| {
        let volume = disk.source.volume().filter(|volume| volume.owner() == Some(guest.vmid))?.clone();
        Some(Volume { slot, volume, size: disk.size })
    };
    attached(&[&seen.live, &seen.next]).into_iter().filter_map(own).collect()
}

impl Planner<'_> {
    /// Whether the shelf of a node, if it has one, can be dealt with now.
    pub(super) fn shelf_is_at_hand(&mut self, node: &NodeName) -> bool {
        let owned: Vec<Owned> =
            self.identities.shelves().filter(|owned| owned.mark.node == *node).cloned().collect();
        if let [first, second, ..] = owned.as_slice() {
            let problem = format!("VM {} and VM {} both hold disks of it", first.mark.vmid, second.mark.vmid);
            let choices = vec![format!(
                "give all of them to one: qm disk move {} SLOT --target-vmid {}, and remove the other",
                second.mark.vmid, first.mark.vmid
            )];
            self.refuse(Some(node), problem, choices);
            return false;
        }
        let guests = owned.iter().filter_map(|owned| self.observed.guests.get(&owned.mark.vmid));
        let locked = guests.clone().find_map(|guest| Some((guest, guest.lock.clone()?)));
        let Some((guest, lock)) = locked else { return true };
        let (node, vmid, host) = (node.clone(), guest.vmid, guest.host.clone());
        self.plan.waiting.push(Waiting::Locked { node, vmid, host, lock });
        false
    }

    /// Where the shelf of a node is.
    pub(super) fn shelf_host(&self, node: &NodeName) -> Option<HostName> {
        self.shelves.get(node).map(|holder| holder.vm.host.clone())
    }

    /// Whether the disks a node keeps can come along to a host. Those of a VM that goes are not on the shelf yet.
    pub(super) fn kept_disks_reach(&mut self, node: &Node, going: Option<&Guest>, to: &HostName) -> bool {
        let on_vm = going.into_iter().flat_map(|guest| {
            let kept = volumes(guest).into_iter().filter(|volume| is_kept(node, volume.slot));
            kept.map(|volume| (guest.host.clone(), guest.vmid, volume.slot, volume.volume.storage().clone()))
        });
        let on_shelf = self.shelves.get(&node.name).into_iter().flat_map(|holder| {
            let vm = &holder.vm;
            holder.disks.iter().map(|(slot, disk)| (vm.host.clone(), vm.vmid(), *slot, disk.storage.clone()))
        });
        let stays = on_vm.chain(on_shelf).find(|(host, _, _, storage)| !self.sees(host, to, storage));
        let Some((host, vmid, slot, storage)) = stays else { return true };
        let problem = format!(
            "{slot} of VM {vmid} is to be kept (keep: true) and is on {storage}, which only {host} has: it cannot \
             come along to {to}"
        );
        let choices = vec![
            format!("let it stay where its disk is: host {host} for this node"),
            format!(
                "put the disk on a storage that both hosts see first: qm disk move {vmid} {slot} STORAGE"
            ),
            format!("if it may go: qm disk unlink {vmid} --idlist {slot} --force 1"),
        ];
        self.refuse(Some(&node.name), problem, choices);
        false
    }

    /// Whether another host sees what a host has on a storage.
    fn sees(&self, host: &HostName, other: &HostName, storage: &StorageId) -> bool {
        let shared = |on: &HostName| {
            self.observed.storage(on, storage).is_some_and(|storage| storage.shared && storage.available)
        };
        host == other || (shared(host) && shared(other))
    }

    /// Plans that disks of a VM that goes are put on the shelf of its node; gives what the removal has to wait for. None
    /// if that cannot be.
    pub(super) fn shelve(
        &mut self,
        node: &Node,
        (vm, guest): (&Expected, &Guest),
        kept: &[Volume],
        needs: Vec<StepId>,
    ) -> Option<Vec<StepId>> {
        if kept.is_empty() || sabotaged(Defect::KeptDisksLeftBehind) {
            return Some(needs);
        }
        let mut holder = match self.shelves.get(&node.name) {
            Some(holder) => holder.clone(),
            None => self.make_shelf(node, &guest.host, needs.clone())?,
        };
        let mut last = self.bring_shelf(&node.name, &mut holder, &guest.host, needs);
        for Volume { slot, volume, .. } in kept {
            let storage = volume.storage().clone();
            let step = Step::Upkeep(Upkeep::MoveDisk {
                from: vm.clone(),
                to: Box::new(holder.vm.clone()),
                slot: *slot,
                storage: storage.clone(),
                volume: Some(volume.clone()),
            });
            let reason = "it is kept while the VM is built anew";
            let draft = Draft::new(Some(&node.name), step, reason, Effect::ChangeLive).after(last);
            last = vec![self.push(Draft { part: Some(format!("{slot}-to-shelf")), ..draft })];
            holder.disks.insert(*slot, Shelved { storage, volume: None });
        }
        holder.filled.clone_from(&last);
        self.shelves.insert(node.name.clone(), holder);
        Some(last)
    }

    /// Why disks of a VM cannot be put on the shelf, if they cannot.
    pub(super) fn cannot_shelve(&mut self, node: &Node, guest: &Guest, kept: &[Volume]) -> bool {
        if kept.is_empty() {
            return false;
        }
        let vmid = guest.vmid;
        if let Some(snapshot) = guest.seen().and_then(|seen| seen.live.get("parent")) {
            let problem = format!(
                "VM {vmid} has snapshots (the last is {snapshot}), and a disk that is to be kept cannot leave it before \
                 they are gone"
            );
            let choices = vec![format!("qm listsnapshot {vmid}, and qm delsnapshot {vmid} NAME for each")];
            self.refuse(Some(&node.name), problem, choices);
            return true;
        }
        let twice = kept.iter().find(|volume| {
            self.shelves.get(&node.name).is_some_and(|holder| holder.disks.contains_key(&volume.slot))
        });
        let Some(Volume { slot, .. }) = twice else { return false };
        self.refuse_taken_slot(&node.name, vmid, *slot);
        true
    }

    fn refuse_taken_slot(&mut self, node: &NodeName, vmid: VmId, slot: Slot) {
        let Some(holder) = self.shelves.get(node).map(|holder| holder.vm.vmid()) else { return };
        let problem = format!("VM {holder} keeps a disk for {slot}, where VM {vmid} has another one by now");
        let choices = vec![
            format!("if VM {vmid} needs its own no more: qm disk unlink {vmid} --idlist {slot} --force 1"),
            format!("if it needs the other no more: qm disk unlink {holder} --idlist {slot} --force 1"),
            format!(
                "if both are needed: qm disk move {holder} {slot} --target-vmid {vmid} --target-disk SLOT"
            ),
        ];
        self.refuse(Some(node), problem, choices);
    }

    fn make_shelf(&mut self, node: &Node, host: &HostName, needs: Vec<StepId>) -> Option<Shelf> {
        let Some(vmid) = self.ids.next() else {
            let range = self.desired.proxmox.vmid_range;
            let problem = format!("no VMID from {} to {} is free", range.start, range.end);
            self.refuse(Some(&node.name), problem, vec!["widen proxmox_vmid_range".to_owned()]);
            return None;
        };
        let mark = Mark { shelf: true, ..self.mark(&node.name, vmid) };
        let pool = self.desired.proxmox.pool.clone();
        let needs = needs.into_iter().chain(self.ensure_pool()).collect();
        let vm = Expected { host: host.clone(), mark: mark.clone() };
        let step = Step::Upkeep(Upkeep::MakeShelf { host: host.clone(), mark, pool });
        let reason = "it holds the disks that are kept, and never runs";
        let made = self.push(Draft::new(Some(&node.name), step, reason, Effect::Create).after(needs));
        Some(Shelf { vm, disks: BTreeMap::new(), filled: vec![made] })
    }

    /// Plans that a shelf comes to a host, if it is elsewhere; whether it can was asked before.
    fn bring_shelf(
        &mut self,
        node: &NodeName,
        holder: &mut Shelf,
        to: &HostName,
        mut needs: Vec<StepId>,
    ) -> Vec<StepId> {
        for filled in &holder.filled {
            if !needs.contains(filled) {
                needs.push(filled.clone());
            }
        }
        if holder.vm.host == *to {
            return needs;
        }
        let step = Step::Upkeep(Upkeep::MoveShelf { vm: holder.vm.clone(), to: to.clone() });
        let reason = "a disk is given to another VM of the same host only";
        holder.vm.host = to.clone();
        vec![self.push(Draft::new(Some(node), step, reason, Effect::ChangeLive).after(needs))]
    }

    /// Slots of a VM that get what is on the shelf of its node.
    pub(super) fn is_shelved(&self, node: &NodeName, slot: Slot) -> bool {
        self.shelves.get(node).is_some_and(|holder| holder.disks.contains_key(&slot))
    }

    /// Whether what is on the shelf of a node fits into its VM; says so if it does not.
    pub(super) fn shelf_fits(&mut self, node: &Node, guest: &Guest) -> bool {
        let Some(holder) = self.shelves.get(&node.name) else { return true };
        let Some(seen) = guest.seen() else { return true };
        let held = attached(&[&seen.live, &seen.next]);
        let taken = holder.disks.keys().find(|slot| held.contains_key(slot)).copied();
        if let Some(slot) = taken {
            self.refuse_taken_slot(&node.name, guest.vmid, slot);
            return false;
        }
        self.kept_disks_reach(node, None, &guest.host)
    }

    /// Plans that a VM gets what is on the shelf of its node, and that the shelf goes; gives what comes after has to wait
    /// for.
    pub(super) fn unshelve(&mut self, node: &NodeName, vm: &Expected, needs: Vec<StepId>) -> Vec<StepId> {
        let Some(mut holder) = self.shelves.remove(node) else { return needs };
        let mut last = self.bring_shelf(node, &mut holder, &vm.host, needs);
        for (slot, Shelved { storage, volume }) in &holder.disks {
            let step = Step::Upkeep(Upkeep::MoveDisk {
                from: holder.vm.clone(),
                to: Box::new(vm.clone()),
                slot: *slot,
                storage: storage.clone(),
                volume: volume.clone(),
            });
            let reason = "it was kept for this node";
            let draft = Draft::new(Some(node), step, reason, Effect::ChangeLive).after(last);
            last = vec![self.push(Draft { part: Some(slot.to_string()), ..draft })];
        }
        vec![self.remove_shelf(node, holder.vm, "it holds nothing any more", last)]
    }

    fn remove_shelf(&mut self, node: &NodeName, vm: Expected, reason: &str, needs: Vec<StepId>) -> StepId {
        let step = Step::Upkeep(Upkeep::RemoveShelf { vm });
        self.push(Draft::new(Some(node), step, reason, Effect::ChangeLive).after(needs))
    }

    /// Shelves of nodes that go or are gone: empty ones go, others hold what is to be kept.
    pub(super) fn leftover_shelves(&mut self, goes: impl Fn(&NodeName) -> bool) -> Vec<StepId> {
        let mut removed = Vec::new();
        let nodes: Vec<NodeName> = self.shelves.keys().filter(|node| goes(node)).cloned().collect();
        for node in nodes {
            if !self.shelf_is_at_hand(&node) {
                continue;
            }
            let Some(holder) = self.shelves.remove(&node) else { continue };
            let vmid = holder.vm.vmid();
            if holder.disks.is_empty() {
                removed.push(self.remove_shelf(&node, holder.vm, "it holds nothing", Vec::new()));
            }
            for slot in holder.disks.keys() {
                let problem = format!("VM {vmid} holds {slot}, which is to be kept (keep: true)");
                let choices = vec![
                    format!("give it to another VM: qm disk move {vmid} {slot} --target-vmid OTHER"),
                    format!("if it may go: qm disk unlink {vmid} --idlist {slot} --force 1"),
                ];
                self.refuse(Some(&node), problem, choices);
            }
        }
        removed
    }

    /// Says which shelves nobody describes.
    pub(super) fn undeclared_shelves(&mut self) {
        let request = self.request;
        let asked = |node: &NodeName| request.prune || request.remove.contains(node);
        let names = self.names.clone();
        let undeclared = |node: &NodeName| !names.contains_key(node.as_str()) && request.covers(node);
        self.leftover_shelves(|node| undeclared(node) && asked(node));
        let left: Vec<(NodeName, Expected)> = self
            .shelves
            .iter()
            .filter(|(node, _)| undeclared(node))
            .map(|(node, holder)| (node.clone(), holder.vm.clone()))
            .collect();
        for (node, vm) in left {
            let text = format!(
                "{} on {} holds disks that were kept for {node}, which is not in the description: left alone",
                vm.vmid(),
                vm.host
            );
            self.note(Some(&node), NoteKind::Undeclared, text);
        }
    }

    /// What is lost, and what is not, of a node whose host is gone for good. False if something outlives the host and must be
    /// fetched first.
    pub(super) fn kept_disks_of_a_lost_host(&mut self, node: &Node) -> bool {
        let lost = self.unknown.of_name(&node.name);
        let Some(guest) = lost.first().filter(|guest| self.request.hosts.gone.contains(&guest.host)) else {
            return true;
        };
        let (vmid, host) = (guest.vmid, guest.host.clone());
        let kept = node.vm.extra_disks.iter().filter(|disk| disk.keep);
        let is_shared = |storage: &StorageId| {
            self.observed.storages.iter().any(|seen| seen.id == *storage && seen.shared)
        };
        let (outlives, gone): (Vec<_>, Vec<_>) = kept.partition(|disk| is_shared(&disk.storage));
        if let Some(disk) = outlives.first() {
            let (slot, storage) = (disk.slot, &disk.storage);
            let problem = format!(
                "scsi{slot} of VM {vmid} is to be kept (keep: true), and {storage} outlives {host}: built anew, the node \
                 would get an empty disk"
            );
            let choices = vec![
                format!(
                    "take the VM over, on a host that answers: mv /etc/pve/nodes/{host}/qemu-server/{vmid}.conf \
                     /etc/pve/qemu-server/, and talmox apply --replace {}",
                    node.name
                ),
                format!("if the disk may go: keep: false for scsi{slot}"),
            ];
            self.refuse(Some(&node.name), problem, choices);
            return false;
        }
        if !gone.is_empty() {
            let slots: Vec<String> =
                gone.iter().map(|disk| format!("scsi{} on {}", disk.slot, disk.storage)).collect();
            let text = format!(
                "is lost with {host}, though it was to be kept: {} (VM {vmid}); it gets an empty one",
                slots.join(", ")
            );
            self.note(Some(&node.name), NoteKind::Warning, text);
        }
        true
    }
}
