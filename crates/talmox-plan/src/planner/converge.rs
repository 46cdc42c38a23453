//! Nodes whose VM is there: what differs, and whether it runs.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Slot, VmConfig};
use talmox_pve::render::{Circumstances, vm_config};
use talmox_types::desired::{Node, Power as WantedPower};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{AwayWord, Mark, NodeName};

use super::{Draft, Planner, is_being_made};
use crate::diff::{Difference, Differences, How, Policies, State, Subject, decided, differences, size_field};
use crate::{
    Applies, CarriedRestart, Change, Effect, Expected, Guest, NoteKind, Owned, Power, SeenMachine, Step,
    StepId, Waiting, boot_iso,
};

/// Changes of a VM on their way into the plan.
pub(super) struct Changes {
    found: Differences,
    digest: Option<String>,
    state: State,
    /// Keys that take effect at the next restart.
    after_reboot: BTreeSet<String>,
}

impl<'a> Planner<'a> {
    /// Plans what a VM that is there lacks.
    pub(super) fn existing(&mut self, node: &Node, owned: &Owned) {
        let observed = self.observed;
        let Some(guest) = observed.guests.get(&owned.mark.vmid) else { return };
        if let Some(lock) = &guest.lock {
            let waiting = Waiting::Locked {
                node: node.name.clone(),
                vmid: guest.vmid,
                host: guest.host.clone(),
                lock: lock.clone(),
            };
            self.plan.waiting.push(waiting);
            if !owned.finished && is_being_made(lock) {
                self.finish_later(node);
            }
            return;
        }
        if !observed.hosts.get(&guest.host).is_some_and(|host| host.online) {
            let reason = format!("{} is down", guest.host);
            return self.wait_for_host(guest.host.clone(), &node.name, &reason);
        }
        if !self.placement(node, guest) || self.has_left(node, &owned.mark) || self.is_rewound(node, guest) {
            return;
        }
        if self.lives_elsewhere(node) || self.has_left_etcd(node) {
            return;
        }
        if !self.shelf_fits(node, guest) {
            return;
        }
        let vm = Expected { host: guest.host.clone(), mark: owned.mark.clone() };
        let Some(changes) = self.changes(node, &vm, guest, owned.finished) else { return };
        let joined = self.join_pool(node, &vm, guest);
        self.power_and_changes(node, &vm, guest, changes, joined);
        self.move_vm(node, &vm, guest);
    }

    /// A run took the machine out of the cluster, wiped it, and did not come to the end. Started, it would be nobody.
    fn has_left(&mut self, node: &Node, mark: &Mark) -> bool {
        let left = mark.away == Some(AwayWord::Retired);
        if left {
            let problem = format!("VM {} has left the cluster and was wiped, to be built anew", mark.vmid);
            let choices = vec![format!("talmox apply --replace {} goes on with it", node.name)];
            self.refuse(Some(&node.name), problem, choices);
        }
        left
    }

    /// The machine answers at another address than is described for it. Its address is in its certificates, in etcd's list of members
    /// and in Kubernetes: one that lives keeps it.
    fn lives_elsewhere(&mut self, node: &Node) -> bool {
        let seen = self.observed.talos.get(&node.name).and_then(SeenMachine::configured);
        let (Some(seen), Some(wanted)) = (seen, self.addresses.get(&node.name)) else { return false };
        let has = seen.address;
        if wanted.iter().any(|address| address == has) {
            return false;
        }
        let problem = format!(
            "it lives at {has}, the description wants {}, and a machine keeps its address",
            wanted.primary()
        );
        let choices = vec![
            format!("put {has} back into the description"),
            format!("talmox apply --replace {} builds it anew with the other address", node.name),
        ];
        self.refuse(Some(&node.name), problem, choices);
        true
    }

    /// A run took the machine out of etcd, or somebody did, and it stands there without: it does not join again by itself.
    fn has_left_etcd(&mut self, node: &Node) -> bool {
        let seen = |name: &NodeName| self.observed.talos.get(name).and_then(SeenMachine::configured);
        let others = self.desired.nodes.iter().filter(|other| other.name != node.name);
        let well = others.filter_map(|other| seen(&other.name)).filter(|other| other.is_well());
        let left = seen(&node.name).is_some_and(|own| own.has_left_etcd(node.name.as_str(), well));
        if left {
            let problem = "it left etcd, and does not come back by itself".to_owned();
            let choices = vec![format!("talmox apply --replace {} builds it anew", node.name)];
            self.refuse(Some(&node.name), problem, choices);
        }
        left
    }

    /// Says where the VM is if the description wants it elsewhere; false if that cannot be.
    fn placement(&mut self, node: &Node, guest: &Guest) -> bool {
        if let Some(wanted) = &node.vm.host
            && *wanted != guest.host
        {
            let text = format!(
                "is on {}, described for {wanted}: VMs that were moved stay where they are",
                guest.host
            );
            self.note(Some(&node.name), NoteKind::Placement, text);
        }
        if let Some(id) = node.vm.id
            && id != guest.vmid
        {
            let choices = vec![
                format!("vm_id: {}", guest.vmid),
                format!("talmox apply --replace {} builds it anew", node.name),
            ];
            let problem =
                format!("its VM is {}, the description wants {id}, and ids cannot change", guest.vmid);
            self.refuse(Some(&node.name), problem, choices);
            return false;
        }
        true
    }

    /// The node as the description wants it, without what the credentials may not set.
    pub(super) fn wanted(&mut self, node: &Node, mark: &Mark) -> Option<VmConfig> {
        let Some(address) = self.addresses.get(&node.name).copied() else {
            let choices = vec!["widen the pool's addresses".to_owned()];
            self.refuse(Some(&node.name), "its pool has no free address left".to_owned(), choices);
            return None;
        };
        let mark = Mark { cluster: self.desired.name.clone(), ..mark.clone() };
        let iso = boot_iso(self.desired, node).file;
        let on = Circumstances { vmid: mark.vmid, address, mark: Some(mark), iso };
        match vm_config(self.desired, node, &on) {
            Ok(mut config) => {
                if !self.observed.rights.start_order() && config.remove("startup").is_some() {
                    self.start_order_is_left_out();
                }
                Some(config)
            }
            Err(error) => {
                self.refuse(Some(&node.name), error.to_string(), Vec::new());
                None
            }
        }
    }

    /// One line for all nodes.
    fn start_order_is_left_out(&mut self) {
        if !self.plan.notes.iter().any(|note| note.kind == NoteKind::LeftOut) {
            let text =
                "start order and delays are left unset: the credentials lack Sys.Modify on /".to_owned();
            self.note(None, NoteKind::LeftOut, text);
        }
    }

    fn changes(&mut self, node: &Node, vm: &Expected, guest: &Guest, finished: bool) -> Option<Changes> {
        let seen = guest.seen()?;
        let wanted = self.wanted(node, &vm.mark)?;
        let state = match (finished, guest.power) {
            (false, Power::Stopped) => State::Fresh,
            (_, Power::Stopped) => State::Stopped,
            (_, Power::Running | Power::Unknown) => State::Running,
        };
        let policies = self.policies(node, state);
        let compare = |have: &VmConfig| {
            let mut found = differences(&Subject { node, wanted: &wanted, have, state, policies: &policies });
            found.leave_alone(&policies);
            found
        };
        let held = if sabotaged(Defect::PendingIgnored) { &seen.next } else { &seen.live };
        let (mut found, live) = (compare(&seen.next), compare(held));
        let all = Subject { node, wanted: &wanted, have: &seen.next, state, policies: &Policies::default() };
        let shown = differences(&all).shown(&policies);
        for difference in &mut found.values {
            // What somebody changed and is still waiting for can simply be taken back.
            if !live.has(&difference.change.key) {
                difference.change.applies = Applies::Now;
                difference.replugs = false;
            }
        }
        if !finished && state != State::Fresh {
            found.values.push(Difference::witness(Applies::AfterReboot));
        }
        let ours = decided(&all);
        let pending = seen.pending().into_iter().filter(|key| ours.contains(*key) && live.has(key));
        let mut after_reboot: BTreeSet<String> = pending.map(str::to_owned).collect();
        self.left_alone(node, &shown);
        let later =
            found.values.iter().filter(|difference| difference.change.applies == Applies::AfterReboot);
        after_reboot.extend(later.map(|difference| difference.change.key.clone()));
        self.foreign_notes(node, &found, state);
        self.impossible(node, &found).then(|| Changes {
            found,
            digest: Some(seen.digest.clone()),
            state,
            after_reboot,
        })
    }

    /// The changes of a VM that is yet to be cloned.
    pub(super) fn fresh_changes(&mut self, node: &Node, vm: &Expected, have: &VmConfig) -> Option<Changes> {
        let wanted = self.wanted(node, &vm.mark)?;
        let subject =
            Subject { node, wanted: &wanted, have, state: State::Fresh, policies: &Policies::default() };
        let found = differences(&subject);
        let after_reboot = BTreeSet::new();
        self.impossible(node, &found).then_some(Changes {
            found,
            digest: None,
            state: State::Fresh,
            after_reboot,
        })
    }

    /// What is done about differences of a node. What was just cloned is made as described, whatever it was before.
    fn policies<'p>(&self, node: &'p Node, state: State) -> Policies<'p>
    where
        'a: 'p,
    {
        if state == State::Fresh {
            return Policies::default();
        }
        Policies {
            asked: Some(&self.request.ignore_drift),
            node: Some(&node.vm.drift),
            shown: &self.desired.proxmox.ignore_drift,
        }
    }

    fn left_alone(&mut self, node: &Node, shown: &[String]) {
        if !shown.is_empty() {
            let text = format!("left alone though different: {}", shown.join("; "));
            self.note(Some(&node.name), NoteKind::Ignored, text);
        }
    }

    fn foreign_notes(&mut self, node: &Node, found: &Differences, state: State) {
        if state == State::Fresh {
            return;
        }
        for device in &found.foreign {
            let text = format!("{device} is not from the description: left alone");
            self.note(Some(&node.name), NoteKind::Foreign, text);
        }
    }

    /// Refuses what cannot be changed; false if there is any.
    fn impossible(&mut self, node: &Node, found: &Differences) -> bool {
        for problem in &found.impossible {
            self.refuse(Some(&node.name), problem.problem.clone(), problem.choices.clone());
        }
        found.impossible.is_empty()
    }

    fn join_pool(&mut self, node: &Node, vm: &Expected, guest: &Guest) -> Vec<StepId> {
        let Some(pool) = self.desired.proxmox.pool.clone() else { return Vec::new() };
        match &guest.pool {
            Some(held) if *held == pool => Vec::new(),
            Some(held) => {
                let text = format!("is in the pool {held}, described for {pool}: left there");
                self.note(Some(&node.name), NoteKind::Foreign, text);
                Vec::new()
            }
            // Without Pool.Audit a VM's own entry does not name its pool; the pool does name its VMs.
            None if self.observed.pool.as_ref().is_some_and(|pool| pool.holds(vm.vmid())) => Vec::new(),
            None if self.observed.pool.is_none()
                && !self.observed.rights.holds(&format!("/pool/{pool}"), "Pool.Audit") =>
            {
                self.is_blind(Some(&node.name));
                Vec::new()
            }
            None => {
                let needs = self.ensure_pool();
                let step = Step::JoinPool { vm: vm.clone(), pool };
                let draft = Draft::new(Some(&node.name), step, "it is in no pool", Effect::ChangeLive);
                vec![self.push(draft.after(needs))]
            }
        }
    }

    /// Pushes the changes, and what the VM's power needs before and after them.
    fn power_and_changes(
        &mut self,
        node: &Node,
        vm: &Expected,
        guest: &Guest,
        mut changes: Changes,
        needs: Vec<StepId>,
    ) {
        if changes.state == State::Fresh {
            return self.carry_out(node, vm, changes, needs, Effect::Create);
        }
        let running = guest.power == Power::Running;
        let stops = running && node.vm.power == WantedPower::Stopped;
        let mut needs = needs;
        if stops {
            let reason = "it is described as stopped";
            needs = self.drain(&node.name, reason, needs);
            let step = Step::StopVm { vm: vm.clone(), timeout: shutdown_timeout(Some(node)) };
            let draft = Draft::new(Some(&node.name), step, reason, Effect::Stop);
            needs = vec![self.push(draft.after(needs))];
            // What a stop applies is not the state this was decided on.
            changes.digest = None;
        }
        let restarts = running && !stops && self.request.allow_reboot;
        if running && !stops && !restarts {
            changes.found.values.retain(|difference| !difference.replugs);
        }
        let effect = match (running && !stops, changes.after_reboot.is_empty()) {
            (true, false) => Effect::ChangePending,
            _ => Effect::ChangeLive,
        };
        let after_reboot: Vec<String> = changes.after_reboot.iter().cloned().collect();
        let needs_restart = running && !stops && !after_reboot.is_empty();
        let replugs = restarts && changes.found.values.iter().any(|difference| difference.replugs);
        if replugs {
            needs = self.drain(&node.name, "a device of it is taken out and put in again", needs);
        }
        let mut last = self.write(node, vm, changes, needs, effect);
        if needs_restart && !replugs && self.upgrade_restarts(node, &vm.mark) {
            let carries = CarriedRestart { keys: after_reboot, timeout: shutdown_timeout(Some(node)) };
            self.carried.insert(node.name.clone(), (carries, last));
        } else if needs_restart && restarts {
            let waits = if after_reboot.len() == 1 { "waits" } else { "wait" };
            let reason = format!("{} {waits} for a restart", after_reboot.join(", "));
            if !replugs {
                last = self.drain(&node.name, &reason, last);
            }
            let step = Step::RebootVm { vm: vm.clone(), timeout: shutdown_timeout(Some(node)) };
            let draft = Draft::new(Some(&node.name), step, &reason, Effect::Reboot);
            last = vec![self.push(draft.after(last))];
            self.give_back(&node.name, last);
        } else if replugs {
            self.give_back(&node.name, last);
        } else if needs_restart {
            let (node, vmid) = (node.name.clone(), vm.vmid());
            self.plan.waiting.push(Waiting::Reboot { node, vmid, keys: after_reboot });
        } else if let (Power::Stopped, Some(AwayWord::Drained(drained))) = (guest.power, &vm.mark.away) {
            let host = drained.stopped_for(&guest.host);
            let text = format!("is off because {host} was drained: talmox host return {host}");
            self.note(Some(&node.name), NoteKind::Placement, text);
        } else if guest.power == Power::Stopped
            && node.vm.power == WantedPower::Running
            && !self.stays_off_for_drive(node, vm)
        {
            let last = self.before_start(node, vm, last, Effect::ChangeLive);
            let step = Step::StartVm { vm: vm.clone() };
            self.push(Draft::new(Some(&node.name), step, "it is stopped", Effect::Start).after(last));
        }
    }

    /// Pushes what finishes a VM that was just cloned.
    pub(super) fn carry_out(
        &mut self,
        node: &Node,
        vm: &Expected,
        changes: Changes,
        needs: Vec<StepId>,
        effect: Effect,
    ) {
        let last = self.write(node, vm, changes, needs, effect);
        if node.vm.power == WantedPower::Running && !self.stays_off_for_drive(node, vm) {
            let last = self.before_start(node, vm, last, effect);
            let step = Step::StartVm { vm: vm.clone() };
            self.push(Draft::new(Some(&node.name), step, "it is new", effect).after(last));
        }
    }

    /// Pushes the steps that write changes; gives what comes after them has to wait for.
    fn write(
        &mut self,
        node: &Node,
        vm: &Expected,
        changes: Changes,
        mut needs: Vec<StepId>,
        effect: Effect,
    ) -> Vec<StepId> {
        let Changes { found, digest, state, .. } = changes;
        let reason = if state == State::Fresh { "it is new" } else { "it differs from the description" };
        let disk_effect = if state == State::Fresh { Effect::Create } else { Effect::ChangeLive };
        if !found.values.is_empty() {
            let replugs = found.values.iter().any(|difference| difference.replugs);
            // Of a VM that this plan makes there is no old value to show.
            let shown: Vec<Change> = match &digest {
                None if state == State::Fresh => Vec::new(),
                _ => found.values.iter().map(|difference| difference.change.clone()).collect(),
            };
            let step = configure(vm, &found.values, digest);
            let effect = if replugs { Effect::Reboot } else { effect };
            let draft = Draft::new(Some(&node.name), step, reason, effect).after(needs);
            needs = vec![self.push(Draft { changes: shown, ..draft })];
        }
        let mut last = needs.clone();
        let shelved: BTreeSet<Slot> = found
            .new_disks
            .iter()
            .map(|disk| disk.slot)
            .filter(|slot| self.is_shelved(&node.name, *slot))
            .collect();
        for growth in found.growths {
            let step = Step::GrowDisk { vm: vm.clone(), slot: growth.slot, to: growth.to };
            let change = Change {
                key: growth.slot.to_string(),
                old: growth.from.map(|from| from.to_string()),
                new: Some(growth.to.to_string()),
                applies: Applies::Now,
                field: Some(size_field(growth.slot).to_owned()),
                sub: Vec::new(),
            };
            let draft = Draft::new(Some(&node.name), step, reason, disk_effect).after(last.clone());
            let (part, changes) = (Some(growth.slot.to_string()), vec![change]);
            last = vec![self.push(Draft { part, changes, ..draft })];
        }
        for disk in found.new_disks.into_iter().filter(|disk| !shelved.contains(&disk.slot)) {
            let change = Change {
                key: disk.slot.to_string(),
                old: None,
                new: Some(format!("{} on {}", disk.size, disk.storage)),
                applies: Applies::Now,
                field: Some("vm_disks".to_owned()),
                sub: Vec::new(),
            };
            let (slot, storage, size, value) = (disk.slot, disk.storage, disk.size, disk.value);
            let step = Step::AddDisk { vm: vm.clone(), slot, storage, size, value };
            let draft = Draft::new(Some(&node.name), step, reason, disk_effect).after(last.clone());
            let (part, changes) = (Some(slot.to_string()), vec![change]);
            last = vec![self.push(Draft { part, changes, ..draft })];
        }
        self.unshelve(&node.name, vm, last)
    }
}

/// Seconds a guest gets to shut down: what the description gives it, and at least the minute Proxmox itself would.
pub(super) fn shutdown_timeout(node: Option<&Node>) -> u32 {
    node.map_or(0, |node| u32::from(node.vm.startup.down)).max(60)
}

fn configure(vm: &Expected, differences: &[Difference], digest: Option<String>) -> Step {
    let (mut set, mut delete, mut drives, mut witness) =
        (BTreeMap::new(), BTreeSet::new(), BTreeMap::new(), false);
    for Difference { change, how, .. } in differences {
        match how {
            How::Set(value) => {
                set.insert(change.key.clone(), value.clone());
            }
            How::Delete => {
                delete.insert(change.key.clone());
            }
            How::Drive(slot, options) => {
                drives.insert(*slot, *options);
            }
            How::Witness => witness = true,
        }
    }
    Step::ConfigureVm { vm: vm.clone(), set, delete, drives, witness, digest }
}
