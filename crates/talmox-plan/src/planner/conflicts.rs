//! VMs that are not what we manage and stand in the way: copies, lost ones, and holders of our addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{MacAddress, Mark, NodeName, VmId};

use super::Planner;
use crate::identity::{addresses, macs};
use crate::{Class, Guest, GuestKind, NoteKind, Owned, Planned, Step, StepId, Upkeep};

pub(super) fn find(planner: &mut Planner<'_>) {
    let found: Vec<(VmId, Class)> =
        planner.identities.iter().map(|(vmid, class)| (vmid, class.clone())).collect();
    for (vmid, class) in &found {
        match class {
            Class::Copy { mark, why } => {
                planner.note(Some(&mark.node), NoteKind::Copy, copy(*vmid, mark, why));
            }
            Class::Lost { node, why, .. } => lost(planner, *vmid, node, why),
            Class::Ours(_) | Class::InFlight { .. } | Class::Foreign => {}
        }
    }
    held_addresses(planner);
    without_uid(planner);
}

/// VMs that carry a mark of a cluster of this name: without the uid, the description would make them once more.
fn without_uid(planner: &mut Planner<'_>) {
    if planner.desired.uid.is_some() {
        return;
    }
    let marks = planner.observed.guests.values().filter_map(own_mark);
    let mut uids: Vec<String> =
        marks.filter(|mark| mark.cluster == planner.desired.name).map(|mark| mark.uid.to_string()).collect();
    uids.sort();
    uids.dedup();
    if uids.is_empty() {
        return;
    }
    let problem =
        format!("VMs of a cluster {} are there, and the description has no uid", planner.desired.name);
    let choices =
        uids.iter().map(|uid| format!("if they are this cluster's: cluster_uid: \"{uid}\"")).collect();
    planner.refuse(None, problem, choices);
}

/// The mark a VM carries for itself.
fn own_mark(guest: &Guest) -> Option<Mark> {
    let mark = guest.seen().and_then(|seen| seen.live.description().and_then(Mark::of_description));
    mark.filter(|mark| mark.vmid == guest.vmid && !guest.template)
}

fn copy(vmid: VmId, mark: &Mark, why: &str) -> String {
    format!("VM {vmid} carries the mark of {}, but {why}: left alone", mark.node)
}

fn may_be(vmid: VmId, node: &NodeName, why: &str) -> String {
    format!("VM {vmid} may be {node}: {why}. It is left alone")
}

/// What a destruction leaves behind because it is not proven ours.
pub(super) fn find_for_destroy(planner: &mut Planner<'_>) {
    let found: Vec<(VmId, Class)> =
        planner.identities.iter().map(|(vmid, class)| (vmid, class.clone())).collect();
    for (vmid, class) in &found {
        let (node, text) = match class {
            Class::Copy { mark, why } => (mark.node.clone(), copy(*vmid, mark, why)),
            Class::Lost { node, why, .. } => (node.clone(), may_be(*vmid, node, why)),
            Class::InFlight { lock } => {
                let text = format!(
                    "VM {vmid} is being made (lock: {lock}) and may be ours: look again when it is done"
                );
                planner.note(None, NoteKind::Warning, text);
                continue;
            }
            Class::Ours(_) | Class::Foreign => continue,
        };
        planner.note(Some(&node), NoteKind::Copy, text);
    }
}

fn has_several_marks(guest: &Guest) -> bool {
    let notes = guest.seen().and_then(|seen| seen.live.description());
    notes.is_some_and(|notes| !Mark::contradictory(notes).is_empty())
}

/// Never made anew beside what may be the node, and never touched either.
fn lost(planner: &mut Planner<'_>, vmid: VmId, node: &NodeName, why: &str) {
    if !planner.request.covers(node) {
        return;
    }
    // No description makes a second one of it.
    if !planner.names.contains_key(node.as_str()) {
        planner.note(Some(node), NoteKind::Copy, may_be(vmid, node, why));
        return;
    }
    let guest = planner.observed.guests.get(&vmid);
    let otherwise = match guest.and_then(own_mark) {
        Some(_) => format!("if it is not: remove the line talmox:v1 … from the notes of VM {vmid}"),
        None => format!("if it is not: give VM {vmid} another name, MAC address and IP address"),
    };
    let choices = if guest.is_some_and(has_several_marks) {
        vec![format!(
            "leave the line talmox:v1 … that is right in the notes of VM {vmid}, and take the others out"
        )]
    } else {
        vec![format!("if it is this node: talmox adopt {node} --vmid {vmid}"), otherwise]
    };
    let on = guest.map(|guest| guest.host.to_string()).unwrap_or_default();
    planner.refuse(Some(node), format!("VM {vmid} on {on} may be this node: {why}"), choices);
}

/// Which node wants which addresses.
struct Wanted {
    by_mac: BTreeMap<MacAddress, NodeName>,
    by_address: BTreeMap<IpAddr, NodeName>,
}

impl Wanted {
    fn of(planner: &Planner<'_>) -> Self {
        let mut wanted = Self { by_mac: BTreeMap::new(), by_address: BTreeMap::new() };
        for node in planner.desired.nodes.iter().filter(|node| planner.request.covers(&node.name)) {
            wanted.by_mac.extend(node.vm.nics.iter().map(|nic| (nic.mac, node.name.clone())));
            let own = planner.addresses.get(&node.name);
            let own = own.iter().flat_map(|pair| pair.iter()).map(|ip| (ip, node.name.clone()));
            wanted.by_address.extend(own);
        }
        wanted
    }

    /// What a VM holds that a node wants, and whose VM it is not.
    fn held_by(&self, guest: &Guest, owner: Option<&NodeName>) -> Option<(String, NodeName)> {
        let seen = guest.seen()?;
        let mac = |mac: MacAddress| Some((mac.to_string(), self.by_mac.get(&mac)?.clone()));
        let address = |ip: IpAddr| Some((ip.to_string(), self.by_address.get(&ip)?.clone()));
        let macs = macs(&seen.next).into_iter().filter_map(mac);
        let mut held = macs.chain(addresses(&seen.next).into_iter().filter_map(address));
        held.find(|(_, node)| Some(node) != owner)
    }
}

/// What a node that is yet to be made wants and another node of ours has, as after a change of its name: it starts when the other
/// is gone, if that goes in this plan. Two machines with one address would both be broken, and one of them may be a member of etcd.
pub(super) fn addresses_of_ours(planner: &mut Planner<'_>) {
    let wanted = Wanted::of(planner);
    let observed = planner.observed;
    let ours: Vec<Owned> = planner.identities.ours().cloned().collect();
    let mut waits = false;
    for owned in &ours {
        let holder = &owned.mark.node;
        let Some(guest) = observed.guests.get(&owned.mark.vmid) else { continue };
        let Some((held, node)) = wanted.held_by(guest, Some(holder)) else { continue };
        if sabotaged(Defect::AddressTaken) {
            continue;
        }
        let has_vm = planner.identities.of_node(&node).next().is_some();
        if planner.refused.contains(&node) || (has_vm && !planner.is_replaced(&node)) {
            continue;
        }
        let gone = last_of(planner, owned);
        if gone.is_empty() || has_vm {
            refuse_namesake(planner, owned, &held, &node);
            continue;
        }
        let is_start = |planned: &Planned| matches!(planned.step, Step::StartVm { .. });
        let starts = planner.plan.steps.iter_mut().filter(|planned| planned.node.as_ref() == Some(&node));
        for start in starts.filter(|planned| is_start(planned)) {
            start.needs.extend(gone.iter().cloned());
            waits = true;
        }
    }
    if waits {
        planner.list_in_order();
    }
}

/// The steps after which nothing is left of a VM; none if it stays.
fn last_of(planner: &Planner<'_>, owned: &Owned) -> Vec<StepId> {
    let own = || planner.plan.steps.iter().filter(|planned| planned.node.as_ref() == Some(&owned.mark.node));
    let is_removal = |planned: &&Planned| matches!(&planned.step, Step::RemoveVm { vm, .. } if vm.mark.vmid == owned.mark.vmid);
    let forgets = |planned: &&Planned| matches!(planned.step, Step::Upkeep(Upkeep::ForgetNode { .. }));
    let removed: Vec<StepId> = own().filter(is_removal).map(|planned| planned.id.clone()).collect();
    if removed.is_empty() {
        return removed;
    }
    removed.into_iter().chain(own().filter(forgets).map(|planned| planned.id.clone())).collect()
}

fn refuse_namesake(planner: &mut Planner<'_>, owned: &Owned, held: &str, node: &NodeName) {
    let (holder, vmid, host) = (&owned.mark.node, owned.mark.vmid, &owned.host);
    let problem = format!("VM {vmid} on {host} holds {held}, which is to be this node's: it is {holder}'s");
    let mut choices = Vec::new();
    if planner.names.contains_key(holder.as_str()) {
        choices.push(format!("{holder} first, with another address: talmox apply --replace {holder}"));
    } else {
        choices.push(format!("if {node} is to take the place of {holder}: talmox apply --remove {holder}"));
        choices.push(format!("if it is {holder} under another name: a name cannot change, so put it back"));
    }
    choices.push(format!("give {node} another address in the description"));
    planner.refuse(Some(node), problem, choices);
}

/// Two machines with one address or MAC address are both broken.
fn held_addresses(planner: &mut Planner<'_>) {
    let wanted = Wanted::of(planner);
    let observed = planner.observed;
    for guest in observed.guests.values().filter(|guest| !guest.template) {
        let own = match planner.identities.class(guest.vmid) {
            Class::Ours(_) => continue,
            // What it holds of the node it may be is told with that.
            Class::Lost { node, .. } => Some(node.clone()),
            Class::Copy { .. } | Class::InFlight { .. } | Class::Foreign => None,
        };
        if let Some((held, node)) = wanted.held_by(guest, own.as_ref()) {
            refuse_holder(planner, guest, &held, &node);
        }
    }
}

fn refuse_holder(planner: &mut Planner<'_>, guest: &Guest, held: &str, node: &NodeName) {
    let name = guest.name.as_deref().unwrap_or("without a name");
    let (vmid, host) = (guest.vmid, &guest.host);
    let problem = format!("VM {vmid} ({name}) on {host} holds {held}, which is this node's");
    let same_name = own_mark(guest)
        .filter(|mark| mark.cluster == planner.desired.name && mark.node == *node && mark.uid != planner.uid)
        .map(|mark| format!("if it is this cluster's: cluster_uid: \"{}\"", mark.uid));
    let mut choices: Vec<String> = same_name.into_iter().collect();
    let is_free = own_mark(guest).is_none() && guest.lock.is_none() && guest.kind == GuestKind::Vm;
    if is_free && planner.identities.of_node(node).next().is_none() {
        choices.push(format!("if it is this node: talmox adopt {node} --vmid {vmid}"));
    }
    choices.extend([
        format!("change or remove VM {vmid} in Proxmox"),
        format!("give {node} another address in the description"),
    ]);
    planner.refuse(Some(node), problem, choices);
}
