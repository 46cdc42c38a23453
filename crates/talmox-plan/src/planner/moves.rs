//! VMs that are moved to another host because somebody asked for it.

use std::collections::BTreeSet;

use talmox_pve::property::{Disk, Slot, SlotKind, VolumeId};
use talmox_types::desired::Node;
use talmox_types::{HostName, StorageId};

use super::{Draft, Planner, place};
use crate::{Effect, Expected, Guest, NoteKind, Power, Step, StepId};

impl Planner<'_> {
    /// Plans the move of a VM that is there, if one was asked for, after everything else that is done to it.
    pub(super) fn move_vm(&mut self, node: &Node, vm: &Expected, guest: &Guest) {
        let Some(to) = self.request.moves.get(&node.name).cloned() else { return };
        if guest.host == to {
            return self.note(Some(&node.name), NoteKind::Placement, format!("is on {to} already"));
        }
        let local = match self.can_move(node, guest, &to) {
            Ok(local) => local,
            Err((problem, choices)) => return self.refuse(Some(&node.name), problem, choices),
        };
        if let Some(named) = node.vm.host.as_ref().filter(|named| **named != to) {
            let text = format!("goes to {to} though the description names {named}: change it there too");
            self.note(Some(&node.name), NoteKind::Warning, text);
        }
        let online = guest.power == Power::Running;
        let steps = self.plan.steps.iter().filter(|step| step.node.as_ref() == Some(&node.name));
        let needs: Vec<StepId> = steps.map(|step| step.id.clone()).collect();
        let reason = match (online, local.is_empty()) {
            (true, true) => "it was asked for; the machine goes on running".to_owned(),
            (true, false) => {
                format!("it was asked for; the machine goes on running, {} is copied", listed(&local))
            }
            (false, _) => "it was asked for; the machine does not run".to_owned(),
        };
        let step = Step::MoveVm { vm: vm.clone(), to, local_disks: !local.is_empty() };
        self.push(Draft::new(Some(&node.name), step, &reason, Effect::Move).after(needs));
    }

    /// The slots whose disks must be copied, or why the VM cannot go there.
    pub(super) fn can_move(
        &self,
        node: &Node,
        guest: &Guest,
        to: &HostName,
    ) -> Result<BTreeSet<Slot>, (String, Vec<String>)> {
        let allowed = place::allowed_hosts(self.desired, self.observed).unwrap_or_default();
        if !allowed.contains(to) {
            let known = allowed.iter().map(HostName::as_str).collect::<Vec<_>>().join(", ");
            let problem =
                format!("it cannot move to {to}: no such host may carry VMs of this cluster, or it is down");
            return Err((problem, vec![format!("hosts that may: {known}")]));
        }
        let Some(seen) = guest.seen() else {
            return Err(("its configuration cannot be read".to_owned(), Vec::new()));
        };
        if let Some((slot, _)) =
            seen.live.slots().find(|(slot, _)| matches!(slot.kind(), SlotKind::HostPci | SlotKind::Usb))
        {
            let problem = format!("it cannot move: {slot} is a device of {}", guest.host);
            return Err((
                problem,
                vec![format!("talmox apply --replace {} builds it anew elsewhere", node.name)],
            ));
        }
        self.places.bears_load(to, node).map_err(|sum| {
            (
                format!("it cannot move to {to}: {sum}"),
                vec!["make room there, or name another host".to_owned()],
            )
        })?;
        let mut local = BTreeSet::new();
        for (slot, text) in seen.live.slots().filter(|(slot, _)| slot.holds_volume()) {
            let Ok(disk) = Disk::parse(text) else { continue };
            let Some(volume) = disk.source.volume() else { continue };
            if self.is_shared(&guest.host, volume.storage()) {
                continue;
            }
            if disk.is_cdrom() && !disk.is_cloud_init() {
                let problem = format!("it cannot move: {slot} holds {volume}, which only {} has", guest.host);
                let eject = format!("take the ISO out: qm set {} --{slot} none,media=cdrom", guest.vmid);
                return Err((problem, vec![eject]));
            }
            if stands_on_template(volume) {
                let problem = format!(
                    "it cannot move: {slot} stands on its template's disk, which only {} has",
                    guest.host
                );
                let anew = format!("talmox apply --replace {} builds it anew elsewhere", node.name);
                return Err((problem, vec![anew]));
            }
            let there = self.observed.storage(to, volume.storage());
            if !there.is_some_and(|storage| storage.available && storage.content.contains("images")) {
                let problem = format!(
                    "it cannot move to {to}: that host has no storage {} for disks",
                    volume.storage()
                );
                return Err((problem, vec![format!("move {slot} to a shared storage first")]));
            }
            local.insert(slot);
        }
        Ok(local)
    }

    fn is_shared(&self, host: &HostName, storage: &StorageId) -> bool {
        self.observed.storage(host, storage).is_some_and(|storage| storage.shared)
    }
}

/// Whether a volume is a linked clone: Proxmox moves none of those between storages that are not shared.
fn stands_on_template(volume: &VolumeId) -> bool {
    let own = volume.file_name();
    volume.name().split('/').any(|part| part != own && part.starts_with("base-"))
}

fn listed(slots: &BTreeSet<Slot>) -> String {
    slots.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
