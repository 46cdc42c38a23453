//! Whether nothing starts with the address of a machine of ours that runs, stated again without the planner's code.

use std::net::IpAddr;

use talmox_types::desired::{Node, NodeAddress};
use talmox_types::{MacAddress, Mark, VmId};

use super::{Court, Rule};
use crate::identity::{addresses, macs};
use crate::{Guest, Planned, Power, Step};

/// What this plan makes starts when whoever has its address is gone.
pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        let Step::StartVm { vm } = &step.step else { continue };
        let before = court.before(step);
        let is_made = before.iter().any(|one| one.step.makes() == Some(&vm.mark));
        let Some(node) = court.node(&vm.mark.node).filter(|_| is_made) else { continue };
        let removes = |vmid: VmId| {
            let removal =
                |one: &&Planned| matches!(&one.step, Step::RemoveVm { vm, .. } if vm.vmid() == vmid);
            before.iter().copied().any(|one| removal(&one))
        };
        let guests = court.observed.guests.values().filter(|guest| guest.power != Power::Stopped);
        let mut holders = guests.filter(|guest| is_of_another(court, guest, node) && holds(guest, node));
        if let Some(holder) = holders.find(|guest| !removes(guest.vmid)) {
            let problem = format!("VM {} of another node runs with its address", holder.vmid);
            court.violate(Rule::AddressIsFree, step, problem);
        }
    }
}

/// Whether a VM carries the mark of another node of this cluster.
fn is_of_another(court: &Court<'_>, guest: &Guest, node: &Node) -> bool {
    let text = guest.seen().and_then(|seen| seen.live.description());
    let mark = text.and_then(|text| Mark::parse(text.trim_end().lines().last()?.trim()).ok());
    mark.is_some_and(|mark| {
        court.desired.uid.as_ref() == Some(&mark.uid) && mark.vmid == guest.vmid && mark.node != node.name
    })
}

fn holds(guest: &Guest, node: &Node) -> bool {
    let Some(seen) = guest.seen() else { return false };
    let declared = |ip: &IpAddr| match &node.address {
        NodeAddress::Declared(pair) => pair.iter().any(|own| own == *ip),
        NodeAddress::FromPool(_) => false,
    };
    let own = |mac: &MacAddress| node.vm.nics.iter().any(|nic| nic.mac == *mac);
    addresses(&seen.live).iter().any(declared) || macs(&seen.live).iter().any(own)
}
