//! Addresses and ids that others have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use talmox_plan::{Class, Guest, Identities, addresses, identify};
use talmox_types::desired::{Desired, NodeAddress};
use talmox_types::{NodeName, VmId};

use crate::preflight::facts::Facts;
use crate::preflight::report::Check;

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let identities = identify(desired, &facts.seen);
    let mut checks = held(desired, facts, &identities);
    checks.extend(ids(desired, facts, &identities));
    checks
}

/// Whose an address shall be, in words.
fn declared(desired: &Desired) -> BTreeMap<IpAddr, String> {
    let mut all: BTreeMap<IpAddr, String> = BTreeMap::new();
    for node in &desired.nodes {
        if let NodeAddress::Declared(pair) = &node.address {
            all.extend(pair.iter().map(|ip| (ip, format!("{}'s", node.name))));
        }
    }
    let vip = desired.network.vip.iter().flat_map(talmox_types::FamilyPair::iter);
    all.extend(vip.map(|ip| (ip, "the virtual address of the API".to_owned())));
    all
}

fn held(desired: &Desired, facts: &Facts, identities: &Identities) -> Vec<Check> {
    let wanted = declared(desired);
    let is_own = |guest: &Guest| matches!(identities.class(guest.vmid), Class::Ours(_));
    let others = facts.seen.guests.values().filter(|guest| !guest.template && !is_own(guest));
    let mut checks = Vec::new();
    for guest in others {
        let Some(seen) = guest.seen() else { continue };
        for ip in addresses(&seen.next) {
            let Some(whose) = wanted.get(&ip) else { continue };
            let name = guest.name.as_deref().unwrap_or("without a name");
            let message = format!("{ip} is {whose}, and VM {} ({name}) on {} has it", guest.vmid, guest.host);
            checks.push(Check::problem("address", message, "give one of them another address"));
        }
    }
    if checks.is_empty() {
        let unread = facts.seen.guests.values().filter(|guest| guest.seen().is_none()).count();
        let rest = if unread == 0 { String::new() } else { format!("; {unread} guests do not tell theirs") };
        checks.push(Check::ok(
            "address",
            format!("no other VM has one of the {} addresses{rest}", wanted.len()),
        ));
    }
    checks
}

fn ids(desired: &Desired, facts: &Facts, identities: &Identities) -> Vec<Check> {
    let range = desired.proxmox.vmid_range;
    let mut checks = Vec::new();
    let is_of = |id: VmId, node: &NodeName| identities.of_node(node).any(|owned| owned.mark.vmid == id);
    for node in &desired.nodes {
        let Some(id) = node.vm.id else { continue };
        let holder = facts.guest(id).filter(|_| !is_of(id, &node.name));
        if let Some(guest) = holder {
            let name = guest.name.as_deref().unwrap_or("without a name");
            let message = format!("the id {id} of {} belongs to {name} on {}", node.name, guest.host);
            checks.push(Check::problem("vmid", message, "give the node another vm_id, or none"));
        }
    }
    let missing = desired.nodes.iter().filter(|node| identities.of_node(&node.name).next().is_none());
    let wanted = missing.filter(|node| node.vm.id.is_none()).count();
    let taken = facts.seen.guests.keys().filter(|id| range.contains(**id)).count();
    let free = (range.count() as usize).saturating_sub(taken);
    let (from, to) = (range.start, range.end);
    if free < wanted {
        let message = format!("{wanted} VMs need ids, and {free} from {from} to {to} are free");
        checks.push(Check::problem("vmid", message, "widen proxmox_vmid_range"));
    } else {
        checks
            .push(Check::ok("vmid", format!("{free} ids from {from} to {to} are free, {wanted} are needed")));
    }
    checks
}
