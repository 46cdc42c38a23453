//! Hosts of Proxmox that somebody works on: nodes leave them, and come back.
//!
//! ```text
//!  drain:   can run elsewhere ─▶ noted in its mark ─▶ moved, running ─▶ well again ─▶ the next one
//!           cannot            ─▶ drained ─▶ noted in its mark ─▶ stopped
//!  return:  stopped for it    ─▶ started ─▶ well again, pods back ─▶ the note goes
//!           moved for it      ─▶ stays, and the host is free again; or is moved back if that was asked for
//! ```
//!
//! What was done is known by the note alone, which is in the VM's mark: the hosts that are not back, and where the VM was before the
//! first of them.

use std::collections::BTreeSet;

use talmox_types::desired::{Node, Power as WantedPower, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{AwayWord, HostName, NodeName};

use super::converge::shutdown_timeout;
use super::{Draft, Planner, place};
use crate::{
    Effect, Expected, Guest, HostsRequest, NoteKind, Owned, Power, SeenEtcd, Step, StepId, Upkeep, Waiting,
};

impl Planner<'_> {
    /// Plans what was asked about hosts.
    pub(super) fn hosts(&mut self) {
        if !self.plan.refusals.is_empty() {
            return;
        }
        let HostsRequest { drain, back, .. } = self.request.hosts.clone();
        if let Some(host) = drain.filter(|host| self.answers(host)) {
            self.drain_host(&host);
        }
        if let Some(host) = back.filter(|host| self.answers(host)) {
            self.return_host(&host);
        }
    }

    /// Refuses a host that Proxmox does not have, or that is down: what is on it cannot be read, and would seem not to be there.
    fn answers(&mut self, host: &HostName) -> bool {
        let Some(seen) = self.observed.hosts.get(host) else {
            let known: Vec<&str> = self.observed.hosts.keys().map(HostName::as_str).collect();
            let choices = vec![format!("its hosts are {}", known.join(", "))];
            self.refuse(None, format!("Proxmox has no host {host}"), choices);
            return false;
        };
        if !seen.online {
            let problem =
                format!("{host} is down: nodes on it are off, and nobody can move, stop or start them");
            let choices = vec![
                format!("run this again once {host} is back"),
                format!("if it is gone for good: talmox apply --replace NODE --host-gone {host}"),
            ];
            self.refuse(None, problem, choices);
            return false;
        }
        true
    }

    fn drain_host(&mut self, host: &HostName) {
        let on_host = self.identities.ours().filter(|owned| owned.host == *host);
        let owned: Vec<Owned> =
            on_host.filter(|owned| self.request.covers(&owned.mark.node)).cloned().collect();
        let mut stopped: BTreeSet<NodeName> = BTreeSet::new();
        for owned in owned {
            let name = owned.mark.node.clone();
            let Some(guest) = self.observed.guests.get(&owned.mark.vmid) else { continue };
            if self.is_locked(&name, guest) {
                continue;
            }
            if guest.power == Power::Stopped {
                if owned.mark.away.is_none() {
                    self.note(Some(&name), NoteKind::Placement, format!("does not run, and stays on {host}"));
                }
                continue;
            }
            let Some(node) = self.names.get(name.as_str()).copied() else {
                self.refuse_undescribed(&name, guest);
                continue;
            };
            if self.has_another_role(node) {
                continue;
            }
            let vm = Expected { host: host.clone(), mark: owned.mark.clone() };
            match self.elsewhere(node, guest, host) {
                Ok((to, local_disks)) => self.move_off(node, &vm, guest, (to, local_disks)),
                Err(why) => self.stop_for(node, &vm, &why, &mut stopped),
            }
        }
    }

    /// What is not described may be anything, a member of etcd too: nobody knows what it needs elsewhere, or whether it can be stopped. And
    /// a host is not empty while it runs there.
    fn refuse_undescribed(&mut self, name: &NodeName, guest: &Guest) {
        let (vmid, host) = (guest.vmid, &guest.host);
        let problem = format!(
            "VM {vmid} runs on {host} and is not in the description: whether the cluster can do without it is not known"
        );
        let choices = vec![
            format!("describe it, and run this again: talmox host drain {host}"),
            format!("if it is to go: talmox apply --remove {name}"),
        ];
        self.refuse(Some(name), problem, choices);
    }

    fn is_locked(&mut self, node: &NodeName, guest: &Guest) -> bool {
        let Some(lock) = &guest.lock else { return false };
        let (node, vmid, host) = (node.clone(), guest.vmid, guest.host.clone());
        self.plan.waiting.push(Waiting::Locked { node, vmid, host, lock: lock.clone() });
        true
    }

    /// The best host that can take a running VM, and whether disks have to be copied; or why none can.
    fn elsewhere(&self, node: &Node, guest: &Guest, from: &HostName) -> Result<(HostName, bool), String> {
        let hosts = place::allowed_hosts(self.desired, self.observed).unwrap_or_default();
        let others: Vec<HostName> = hosts.into_iter().filter(|host| host != from).collect();
        let mut reasons = Vec::new();
        let mut possible = Vec::new();
        for to in others {
            if self.places.is_drained(&to) {
                reasons.push(format!("{to} is drained too"));
                continue;
            }
            match self.can_move(node, guest, &to) {
                Ok(local) => possible.push((to, !local.is_empty())),
                Err((problem, _)) => reasons.push(problem),
            }
        }
        // Without copying disks first, then where it fits best.
        let best = possible.into_iter().min_by_key(|(to, local)| (*local, self.places.load(to, node)));
        reasons.dedup();
        best.ok_or_else(|| match reasons.as_slice() {
            [] => "there is no other host".to_owned(),
            _ => reasons.join("; "),
        })
    }

    fn move_off(&mut self, node: &Node, vm: &Expected, guest: &Guest, (to, local_disks): (HostName, bool)) {
        self.places.remove(self.observed, guest, &node.name);
        self.places.add(self.observed, &to, node);
        let away = Some(AwayWord::draining(vm.mark.away.as_ref(), &vm.host));
        let noted = self.note_away(&node.name, vm, away, Vec::new());
        let copied = if local_disks { ", its disks are copied" } else { "" };
        let reason = format!("{} is drained; the machine goes on running{copied}", vm.host);
        let step = Step::MoveVm { vm: vm.clone(), to, local_disks };
        let moved = self.push(Draft::new(Some(&node.name), step, &reason, Effect::Move).after(vec![noted]));
        self.well_again(node, vec![moved]);
    }

    /// Stops a node that can run nowhere else, unless etcd could not do without it.
    fn stop_for(&mut self, node: &Node, vm: &Expected, why: &str, stopped: &mut BTreeSet<NodeName>) {
        if node.role == Role::Controller && !self.majority_without(&node.name, stopped) {
            let problem = format!("it cannot run elsewhere ({why}), and etcd has no majority without it");
            let choices = vec![
                "make it fit to be moved: shared storage, no devices of the host".to_owned(),
                format!("talmox apply --replace {} with another host named for it", node.name),
            ];
            return self.refuse(Some(&node.name), problem, choices);
        }
        stopped.insert(node.name.clone());
        let needs = self.drain(&node.name, &format!("{} is drained", vm.host), Vec::new());
        let away = Some(AwayWord::draining(vm.mark.away.as_ref(), &vm.host));
        let noted = self.note_away(&node.name, vm, away, needs);
        let step = Step::StopVm { vm: vm.clone(), timeout: shutdown_timeout(Some(node)) };
        let reason = format!("{} is drained, and it cannot run elsewhere: {why}", vm.host);
        self.push(Draft::new(Some(&node.name), step, &reason, Effect::Stop).after(vec![noted]));
    }

    fn return_host(&mut self, host: &HostName) {
        let concerns = |owned: &&Owned| {
            let away = owned.mark.away.as_ref();
            away.is_some_and(|away| away.drained().contains(host) || away.home() == Some(host))
        };
        let owned: Vec<Owned> = self.identities.ours().filter(concerns).cloned().collect();
        for owned in owned {
            let name = owned.mark.node.clone();
            let Some(guest) = self.observed.guests.get(&owned.mark.vmid) else { continue };
            if self.is_locked(&name, guest) {
                continue;
            }
            let vm = Expected { host: guest.host.clone(), mark: owned.mark.clone() };
            self.bring_back(&name, (&vm, guest), host);
        }
    }

    /// Brings back what a host carried before it was drained, as far as it is to come, and notes what is left.
    fn bring_back(&mut self, name: &NodeName, (vm, guest): (&Expected, &Guest), host: &HostName) {
        let Some(away) = vm.mark.away.clone() else { return };
        let node = self.names.get(name.as_str()).copied();
        let (mut needs, mut now_on) = (Vec::new(), guest.host.clone());
        if guest.host != *host && away.home() == Some(host) {
            match node.filter(|_| self.request.hosts.move_back) {
                Some(node) => match self.can_move(node, guest, host) {
                    Ok(local) => {
                        let step =
                            Step::MoveVm { vm: vm.clone(), to: host.clone(), local_disks: !local.is_empty() };
                        let draft = Draft::new(Some(name), step, "it was there before", Effect::Move);
                        needs.push(self.push(draft));
                        now_on = host.clone();
                    }
                    Err((problem, choices)) => return self.refuse(Some(name), problem, choices),
                },
                None => {
                    let text = format!(
                        "was moved to {} when {host} was drained, and stays (--move-back)",
                        guest.host
                    );
                    self.note(Some(name), NoteKind::Placement, text);
                }
            }
        }
        let left = away.returning(host, &now_on);
        // One that is off on a host that is still drained is not started.
        let is_free = !left.as_ref().is_some_and(|left| left.drained().contains(&now_on));
        let wanted = is_free && node.is_none_or(|node| node.vm.power == WantedPower::Running);
        let starts = guest.power == Power::Stopped && wanted;
        if starts && node.is_none_or(|node| node.role == Role::Controller) && self.must_stay_off(name, guest)
        {
            return;
        }
        if starts {
            let step = Step::StartVm { vm: vm.clone() };
            let reason = format!("it was stopped when {host} was drained");
            needs = vec![self.push(Draft::new(Some(name), step, &reason, Effect::Start).after(needs))];
        }
        let stays = guest.power == Power::Running && now_on == guest.host && guest.host != *host;
        if let Some(node) = node.filter(|_| wanted && !stays) {
            needs = self.well_again(node, needs);
        }
        if left != vm.mark.away && !sabotaged(Defect::ReturnedStaysDrained) {
            self.note_away(name, vm, left, needs);
        }
    }

    fn note_away(
        &mut self,
        node: &NodeName,
        vm: &Expected,
        away: Option<AwayWord>,
        needs: Vec<StepId>,
    ) -> StepId {
        if away.is_some() && vm.mark.away == away {
            return needs.last().cloned().unwrap_or_else(|| self.noted_already(node, vm));
        }
        let reason = match &away {
            Some(AwayWord::From(_)) => "the host is back",
            Some(_) => "so that it is known later",
            None => "it is back",
        };
        let step = Step::Upkeep(Upkeep::NoteAway { vm: vm.clone(), away });
        self.push(Draft::new(Some(node), step, reason, Effect::ChangeLive).after(needs))
    }

    /// A note that is there already is read again, which costs little and keeps the order.
    fn noted_already(&mut self, node: &NodeName, vm: &Expected) -> StepId {
        let step = Step::Upkeep(Upkeep::NoteAway { vm: vm.clone(), away: vm.mark.away.clone() });
        self.push(Draft::new(Some(node), step, "so that it is known later", Effect::ChangeLive))
    }

    /// Waits until a node that lives in a cluster is well; gives what comes next has to wait for.
    fn well_again(&mut self, node: &Node, needs: Vec<StepId>) -> Vec<StepId> {
        let lives = self.observed.talos.values().any(|machine| machine.configured().is_some());
        let Some(address) = self.addresses.get(&node.name).filter(|_| lives) else { return needs };
        let step = Step::Upkeep(Upkeep::ReturnNode { node: node.name.clone(), address: address.primary() });
        let draft = Draft::new(Some(&node.name), step, "it has to be well again", Effect::ChangeLive);
        vec![self.push(draft.after(needs))]
    }

    /// Whether etcd has a majority of well members without a node and those that are stopped before it.
    fn majority_without(&self, name: &NodeName, stopped: &BTreeSet<NodeName>) -> bool {
        let (mut members, mut well): (BTreeSet<&str>, usize) = (BTreeSet::new(), 0);
        for (node, machine) in &self.observed.talos {
            let Some(SeenEtcd::Member { healthy, members: known, .. }) =
                machine.configured().and_then(|seen| seen.etcd.as_ref())
            else {
                continue;
            };
            members.extend(known.iter().flatten().map(String::as_str));
            well += usize::from(*healthy && node != name && !stopped.contains(node));
        }
        members.is_empty() || well * 2 > members.len()
    }
}

/// Whether a node is off because its host was drained.
pub(super) fn is_away(owned: &Owned, power: Power) -> bool {
    matches!(owned.mark.away, Some(AwayWord::Drained(_))) && power == Power::Stopped
}
