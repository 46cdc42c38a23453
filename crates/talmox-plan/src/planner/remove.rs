//! VMs that shall go. Only what was asked for by name, and only volumes that may go with it.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, Slot, SlotKind, VmConfig};
use talmox_types::desired::{Node, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{NodeName, VmId};

use super::converge::shutdown_timeout;
use super::upkeep::Departure;
use super::{Draft, Planner, is_being_made, is_being_removed, is_our_pool};
use crate::{
    Effect, Expected, Guest, Intent, NoteKind, Owned, Power, Seen, SeenJobs, Step, StepId, Volume, Waiting,
};

/// What the removal of a VM waits for that Proxmox still makes or removes.
const AFTER_EARLIER_RUN: &str = "once Proxmox is done with what an earlier run began";

impl Planner<'_> {
    /// Shows what is ours and not described, and removes what was asked for.
    pub(super) fn undeclared(&mut self) {
        self.forget_leftovers();
        self.undeclared_shelves();
        let owned: Vec<Owned> = self.identities.ours().cloned().collect();
        if self.prunes_too_much(&owned) {
            return;
        }
        for owned in owned {
            let name = &owned.mark.node;
            let refused = self.refused.contains(name);
            if self.names.contains_key(name.as_str()) || !self.request.covers(name) || refused {
                continue;
            }
            if self.request.prune || self.request.remove.contains(name) {
                let all: Vec<Owned> = self.identities.of_node(name).cloned().collect();
                if all.len() > 1 {
                    self.refuse_doubles(name, &all);
                    continue;
                }
                self.remove(&owned, None, Effect::Destroy);
            } else {
                let text = format!(
                    "{} on {} is not in the description: left alone (--remove {name})",
                    owned.mark.vmid, owned.host
                );
                self.note(Some(name), NoteKind::Undeclared, text);
            }
        }
    }

    /// Refuses to remove most of a cluster because the description does not have it: a description that lost its nodes by mistake looks
    /// the same. What somebody names was meant.
    fn prunes_too_much(&mut self, owned: &[Owned]) -> bool {
        let unnamed = |owned: &&Owned| {
            let name = &owned.mark.node;
            let request = self.request;
            request.covers(name) && !self.names.contains_key(name.as_str()) && !request.remove.contains(name)
        };
        let unnamed: Vec<Owned> = owned.iter().filter(unnamed).cloned().collect();
        if self.request.prune && self.spares_another(&unnamed) {
            return true;
        }
        let going: BTreeSet<&str> = unnamed.iter().map(|owned| owned.mark.node.as_str()).collect();
        let all: BTreeSet<&str> = owned.iter().map(|owned| owned.mark.node.as_str()).collect();
        if !self.request.prune || going.len() * 2 <= all.len() || sabotaged(Defect::PrunesEverything) {
            return false;
        }
        let listed = |between: &str| going.iter().copied().collect::<Vec<_>>().join(between);
        let problem = format!(
            "--prune would remove {} of the {} VMs of this cluster, which is more than half: {}",
            going.len(),
            all.len(),
            listed(", ")
        );
        let choices = vec![
            "is this the right description, and all of it? talmox status shows what is there".to_owned(),
            format!("if they are to go, name them: talmox apply --remove {}", listed(",")),
            "talmox destroy, for an end of the whole cluster".to_owned(),
        ];
        self.refuse(None, problem, choices);
        true
    }

    /// Removes every VM of ours within the targets, and the pool with the last of them.
    pub(super) fn destroy(&mut self) {
        let owned: Vec<Owned> = self.identities.ours().cloned().collect();
        let going: Vec<Owned> =
            owned.iter().filter(|owned| self.request.covers(&owned.mark.node)).cloned().collect();
        if self.spares_another(&going) {
            return;
        }
        let mut removed = Vec::new();
        if self.request.targets.is_empty() {
            self.delete_ha_rules();
        }
        let shelves: Vec<Owned> = self.identities.shelves().cloned().collect();
        let request = self.request;
        removed.extend(self.leftover_shelves(|node| request.covers(node)));
        self.refuse_members_of_what_lives(&owned);
        for owned in owned.iter().filter(|owned| request.covers(&owned.mark.node)) {
            if self.refused.contains(&owned.mark.node) {
                continue;
            }
            let node = self.names.get(owned.mark.node.as_str()).copied();
            removed.extend(self.remove(owned, node, Effect::Destroy));
        }
        let owned: Vec<Owned> = owned.into_iter().chain(shelves).collect();
        if self.request.targets.is_empty() {
            self.forgotten_seeds();
        }
        super::conflicts::find_for_destroy(self);
        self.out_of_reach();
        self.delete_pool(&owned, removed);
    }

    /// A control plane does not simply vanish from under a cluster that goes on: it has to take its leave from etcd. One that is not
    /// described may be a control plane too.
    fn refuse_members_of_what_lives(&mut self, owned: &[Owned]) {
        // What is described as a worker may have been a control plane until then; the gate asks, and some marks tell.
        let is_controller = |owned: &Owned| {
            let node = self.names.get(owned.mark.node.as_str());
            owned.mark.bootstrap.is_some() || node.is_none_or(|node| node.role == Role::Controller)
        };
        let controllers: Vec<&Owned> = owned.iter().filter(|owned| is_controller(owned)).collect();
        let begun = owned.iter().any(|owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done));
        let (go, stay): (Vec<&Owned>, Vec<&Owned>) =
            controllers.into_iter().partition(|owned| self.request.covers(&owned.mark.node));
        if !begun || stay.is_empty() {
            return;
        }
        let names: Vec<NodeName> = go.iter().map(|owned| owned.mark.node.clone()).collect();
        for name in names {
            let declared = self.names.contains_key(name.as_str());
            let is = if declared { "is" } else { "is not described, and may be" };
            let problem = format!(
                "it {is} a control plane of a cluster that was bootstrapped, and others of it stay: it has to take its leave from \
                 etcd first"
            );
            let mut choices = if declared {
                vec![
                    format!(
                        "take {name} out of the description, with another control plane in its place (they come in odd numbers), then: \
                         talmox apply --remove {name}"
                    ),
                    format!("build it anew: talmox apply --replace {name}"),
                ]
            } else {
                vec![format!("talmox apply --remove {name}")]
            };
            choices.push("talmox destroy, for an end of the whole cluster".to_owned());
            self.refuse(Some(&name), problem, choices);
        }
    }

    /// VMs on hosts that do not answer may be ours; they stay, and that must be said.
    fn out_of_reach(&mut self) {
        let observed = self.observed;
        for guest in observed.guests.values().filter(|guest| !guest.template) {
            let Seen::Unreadable(reason) = &guest.config else { continue };
            let Some(name) = guest.name.as_deref().and_then(|name| NodeName::parse(name).ok()) else {
                continue;
            };
            let pool = &self.desired.proxmox.pool;
            let declared = self.names.contains_key(name.as_str());
            if (declared || (pool.is_some() && guest.pool == *pool)) && self.request.covers(&name) {
                self.wait_for_host(guest.host.clone(), &name, reason);
            }
        }
    }

    fn delete_pool(&mut self, owned: &[Owned], removed: Vec<StepId>) {
        let Some(pool) = &self.observed.pool else { return self.leave_unseen_pool() };
        let Some(comment) = pool.comment.clone().filter(|comment| is_our_pool(comment, &self.uid)) else {
            return;
        };
        let ours: BTreeSet<String> = owned.iter().map(|owned| format!("qemu/{}", owned.mark.vmid)).collect();
        if !self.request.targets.is_empty() || !pool.members.is_subset(&ours) {
            return;
        }
        let is_later = |owned: &Owned| {
            let mut later = self.plan.later.iter().filter(|intent| intent.step == "remove");
            later.any(|intent| intent.node.as_ref() == Some(&owned.mark.node))
        };
        let later = owned.iter().filter(|owned| is_later(owned)).count();
        if removed.len() + later != owned.len() {
            return;
        }
        if later > 0 {
            self.plan.later.push(Intent {
                node: None,
                step: "delete-pool".to_owned(),
                effect: Effect::Destroy,
                reason: AFTER_EARLIER_RUN.to_owned(),
            });
            return;
        }
        let step = Step::DeletePool { pool: pool.name.clone(), comment };
        self.push(
            Draft::new(None, step, "the cluster goes, and it was its pool", Effect::Destroy).after(removed),
        );
    }

    /// What cannot be seen cannot be removed, and is not said to be gone.
    fn leave_unseen_pool(&mut self) {
        let Some(pool) = &self.desired.proxmox.pool else { return };
        if !self.request.targets.is_empty()
            || self.observed.rights.holds(&format!("/pool/{pool}"), "Pool.Audit")
        {
            return;
        }
        let text =
            format!("the pool {pool} stays if it is there: Pool.Audit is missing on /pool/{pool}, to see it");
        self.note(None, NoteKind::LeftOut, text);
    }

    /// Plans the removal of one VM; gives its last step, or nothing if it is refused or has to wait.
    pub(super) fn remove(&mut self, owned: &Owned, node: Option<&Node>, effect: Effect) -> Option<StepId> {
        let observed = self.observed;
        let name = &owned.mark.node;
        let guest = observed.guests.get(&owned.mark.vmid)?;
        if let Some(lock) = &guest.lock {
            self.plan.waiting.push(Waiting::Locked {
                node: name.clone(),
                vmid: guest.vmid,
                host: guest.host.clone(),
                lock: lock.clone(),
            });
            if is_being_made(lock) || is_being_removed(lock) {
                self.remove_later(name, node, effect);
            }
            return None;
        }
        let seen = guest.seen()?;
        if seen.next.flag("protection") {
            self.refuse_protected(name, guest.vmid, node);
            return None;
        }
        if let Some(snapshot) = seen.live.get("parent") {
            let text = format!("VM {} has snapshots (the last is {snapshot}): they go with it", guest.vmid);
            self.note(Some(name), NoteKind::Warning, text);
        }
        let (goes, detach, kept) = self.volumes(name, guest, node, effect)?;
        if node.is_some_and(|node| self.cannot_shelve(node, guest, &kept)) {
            return None;
        }
        let vm = Expected { host: guest.host.clone(), mark: owned.mark.clone() };
        // Two VMs of one node have one name; their steps must not.
        let is_double = self.identities.of_node(name).count() > 1;
        let part = is_double.then(|| guest.vmid.to_string());
        let leaves = if is_double { Departure::Unnoticed } else { self.departure(name, node, effect)? };
        let mut needs = self.leave(&vm, &leaves, effect);
        if guest.power != Power::Stopped {
            let step = Step::StopVm { vm: vm.clone(), timeout: shutdown_timeout(node) };
            let draft = Draft::new(Some(name), step, "it is to be removed", Effect::Stop).after(needs);
            needs = vec![self.push(Draft { part: part.clone(), ..draft })];
        }
        if let Some(node) = node {
            needs = self.shelve(node, (&vm, guest), &kept, needs)?;
        }
        self.tell_of_unseen_jobs();
        let step = Step::RemoveVm { vm, detach, purges: self.purges(guest) };
        let reason = match (effect, node) {
            (Effect::Replace, _) => "it is to be built anew, as asked",
            (_, Some(_)) => "it is to be destroyed, as asked",
            (_, None) => "it is not in the description, and its removal was asked for",
        };
        let draft = Draft::new(Some(name), step, reason, effect).after(needs);
        let removed = self.push(Draft { part, destroys: goes, ..draft });
        self.seed_goes_with(guest.vmid, &guest.host, &removed);
        Some(self.forget(name, &leaves, "its VM is gone", vec![removed.clone()]).unwrap_or(removed))
    }

    /// The end of a VM that Proxmox is still making or removing for an earlier run. Approved with the rest of the plan, so
    /// that one run is enough.
    fn remove_later(&mut self, name: &NodeName, node: Option<&Node>, effect: Effect) {
        let removal = [("stop", Effect::Stop), ("remove", effect)];
        self.plan.later.extend(removal.map(|(step, effect)| Intent {
            node: Some(name.clone()),
            step: step.to_owned(),
            effect,
            reason: AFTER_EARLIER_RUN.to_owned(),
        }));
        if let Some(node) = node.filter(|_| effect == Effect::Replace) {
            self.follow_later(node);
        }
    }

    /// Says once that there may be backup jobs nobody could list.
    fn tell_of_unseen_jobs(&mut self) {
        let unseen = self.observed.jobs.as_ref().is_some_and(|jobs| jobs.backups.is_none());
        let text = "backup jobs that name what is removed forget it; which those are, these credentials may not see \
                    (Sys.Audit on /)";
        if unseen && !self.plan.notes.iter().any(|note| note.text == text) {
            self.note(None, NoteKind::Warning, text.to_owned());
        }
    }

    /// Where Proxmox forgets the VM when it goes.
    fn purges(&self, guest: &Guest) -> Vec<String> {
        let vmid = guest.vmid;
        let ha = guest.ha.as_ref().map(|_| format!("HA resource vm:{vmid}"));
        let Some(SeenJobs { backups, replications }) = &self.observed.jobs else {
            return ha.into_iter().collect();
        };
        let backups = backups.iter().flatten().filter(|(_, guests)| guests.contains(&vmid));
        let backups = backups.map(|(id, _)| format!("backup job {id}"));
        let replications = replications.iter().filter(|(_, guest)| **guest == vmid);
        let replications = replications.map(|(id, _)| format!("replication job {id}"));
        ha.into_iter().chain(backups).chain(replications).collect()
    }

    fn refuse_protected(&mut self, name: &NodeName, vmid: VmId, node: Option<&Node>) {
        let mut choices = vec![format!("qm set {vmid} --protection 0 on its host")];
        if node.is_some() {
            choices.insert(0, "protection: false for this node, and talmox apply".to_owned());
        }
        self.refuse(Some(name), format!("VM {vmid} is protected"), choices);
    }

    /// What goes with a VM, which slots hold what belongs to others, and what goes over to the VM that takes its place.
    /// Refuses what neither may go nor can stay.
    fn volumes(
        &mut self,
        name: &NodeName,
        guest: &Guest,
        node: Option<&Node>,
        effect: Effect,
    ) -> Option<(Vec<Volume>, BTreeSet<Slot>, Vec<Volume>)> {
        let seen = guest.seen()?;
        let (mut goes, mut detach, mut kept) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (slot, disk) in attached(&[&seen.live, &seen.next]) {
            let Some(volume) = disk.source.volume().cloned() else { continue };
            if volume.owner() != Some(guest.vmid) {
                if !disk.is_cdrom() {
                    detach.insert(slot);
                }
            } else if may_go(slot, &disk, node) {
                goes.push(Volume { slot, volume, size: disk.size });
            } else {
                kept.push(Volume { slot, volume, size: disk.size });
            }
        }
        let goes_over = |volume: &Volume| {
            effect == Effect::Replace && node.is_some_and(|node| is_kept(node, volume.slot))
        };
        if kept.iter().all(goes_over) {
            return Some((goes, detach, kept));
        }
        kept.retain(|volume| !goes_over(volume));
        let vmid = guest.vmid;
        for Volume { slot, volume, .. } in &kept {
            let declared = node.is_some_and(|node| is_kept(node, *slot));
            let why = if declared { "is to be kept (keep: true)" } else { "is not in the description" };
            let mut choices =
                vec![format!("give it to another VM: qm disk move {vmid} {slot} --target-vmid OTHER")];
            choices.push(if declared {
                "if it may go: take keep: true of this disk out of the description, and plan again".to_owned()
            } else {
                format!("if it may go: qm disk unlink {vmid} --idlist {slot} --force 1")
            });
            let problem = format!("{slot} ({volume}) {why} and would go with VM {vmid}");
            self.refuse(Some(name), problem, choices);
        }
        None
    }
}

/// Everything that holds a volume, now or after the next restart.
pub(super) fn attached(configs: &[&VmConfig]) -> BTreeMap<Slot, Disk> {
    let slots = configs.iter().flat_map(|config| config.slots());
    let disks = slots.filter(|(slot, _)| slot.holds_volume());
    disks.filter_map(|(slot, text)| Some((slot, Disk::parse(text).ok()?))).collect()
}

/// The system disk and what every VM has go with it; other disks if the description says so.
fn may_go(slot: Slot, disk: &Disk, node: Option<&Node>) -> bool {
    let of_every_vm = matches!(slot.kind(), SlotKind::EfiDisk | SlotKind::TpmState)
        || (slot.kind() == SlotKind::Scsi && slot.index() == 0)
        || disk.is_cloud_init();
    let declared = node.is_some_and(|node| {
        let mut disks = node.vm.extra_disks.iter();
        slot.kind() == SlotKind::Scsi && disks.any(|disk| disk.slot == slot.index() && !disk.keep)
    });
    of_every_vm || declared || sabotaged(Defect::KeptVolumesGo)
}

pub(super) fn is_kept(node: &Node, slot: Slot) -> bool {
    let mut disks = node.vm.extra_disks.iter();
    slot.kind() == SlotKind::Scsi && disks.any(|disk| disk.slot == slot.index() && disk.keep)
}
