//! VMs that are not what we manage and stand in the way: copies, lost ones, and holders of our addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_types::{MacAddress, Mark, NodeName, VmId};

use super::Planner;
use crate::identity::{addresses, macs};
use crate::{Class, Guest, GuestKind, NoteKind};

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

/// What a destruction leaves behind because it is not proven ours.
pub(super) fn find_for_destroy(planner: &mut Planner<'_>) {
    let found: Vec<(VmId, Class)> =
        planner.identities.iter().map(|(vmid, class)| (vmid, class.clone())).collect();
    for (vmid, class) in &found {
        let (node, text) = match class {
            Class::Copy { mark, why } => (mark.node.clone(), copy(*vmid, mark, why)),
            Class::Lost { node, why, .. } => {
                (node.clone(), format!("VM {vmid} may be {node}: {why}. It is left alone"))
            }
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

/// Never made anew beside what may be the node, and never touched either.
fn lost(planner: &mut Planner<'_>, vmid: VmId, node: &NodeName, why: &str) {
    if !planner.request.covers(node) {
        return;
    }
    let choices = vec![
        format!("if it is this node: talmox adopt {node} --vmid {vmid}"),
        format!("if it is not: give VM {vmid} another name, MAC address and IP address"),
    ];
    let on = planner.observed.guests.get(&vmid).map(|guest| guest.host.to_string()).unwrap_or_default();
    planner.refuse(Some(node), format!("VM {vmid} on {on} may be this node: {why}"), choices);
}

/// Two machines with one address or MAC address are both broken.
fn held_addresses(planner: &mut Planner<'_>) {
    let mut by_mac: BTreeMap<MacAddress, NodeName> = BTreeMap::new();
    let mut by_address: BTreeMap<IpAddr, NodeName> = BTreeMap::new();
    for node in planner.desired.nodes.iter().filter(|node| planner.request.covers(&node.name)) {
        by_mac.extend(node.vm.nics.iter().map(|nic| (nic.mac, node.name.clone())));
        let own = planner.addresses.get(&node.name);
        by_address.extend(own.iter().flat_map(|pair| pair.iter()).map(|ip| (ip, node.name.clone())));
    }
    let observed = planner.observed;
    for guest in observed.guests.values().filter(|guest| !guest.template) {
        if matches!(planner.identities.class(guest.vmid), Class::Ours(_) | Class::Lost { .. }) {
            continue;
        }
        let Some(seen) = guest.seen() else { continue };
        let mac = macs(&seen.next).into_iter().find_map(|mac| Some((mac.to_string(), by_mac.get(&mac)?)));
        let address =
            addresses(&seen.next).into_iter().find_map(|ip| Some((ip.to_string(), by_address.get(&ip)?)));
        if let Some((held, node)) = mac.or(address) {
            let node = node.clone();
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
