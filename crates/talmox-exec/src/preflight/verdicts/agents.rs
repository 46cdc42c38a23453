//! Guest agents of running nodes. Nothing ever waits for one, but without them Proxmox shows no addresses and stops VMs
//! the hard way.

use std::net::IpAddr;

use talmox_plan::identify;
use talmox_pve::client::AgentInterface;
use talmox_types::VmId;
use talmox_types::desired::{Desired, Node, NodeAddress};

use super::listed;
use crate::preflight::facts::{Facts, Told};
use crate::preflight::report::Check;

const NAME: &str = "agent";
const EXTENSION: &str = "siderolabs/qemu-guest-agent";

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let mut checks: Vec<Check> = extension(desired).into_iter().collect();
    let identities = identify(desired, &facts.seen);
    let mut fine = Vec::new();
    for node in desired.nodes.iter().filter(|node| node.vm.agent) {
        let Some(vmid) = identities.of_node(&node.name).map(|owned| owned.mark.vmid).next() else { continue };
        let Some(told) = facts.agents.get(&vmid) else { continue };
        match judge(desired, facts, node, vmid, told) {
            Some(check) => checks.push(check),
            None => fine.push(&node.name),
        }
    }
    if !fine.is_empty() {
        checks.push(Check::ok(NAME, format!("{} answer with the address they were given", listed(fine))));
    }
    checks
}

/// The agent is a system extension: an image without it has none.
fn extension(desired: &Desired) -> Option<Check> {
    let wanted = desired.nodes.iter().any(|node| node.vm.agent && node.schematic_id.is_none());
    if !wanted || has_extension(desired) {
        return None;
    }
    let message = format!("nodes have the agent switched on, and the schematic has no {EXTENSION}");
    let remedy = format!("schematic.extensions: [{EXTENSION}], or qemu_agent: false");
    Some(Check::warning(NAME, message, remedy))
}

fn has_extension(desired: &Desired) -> bool {
    desired.talos.schematic.extensions.iter().any(|extension| extension == EXTENSION)
}

fn judge(
    desired: &Desired,
    facts: &Facts,
    node: &Node,
    vmid: VmId,
    told: &Told<Vec<AgentInterface>>,
) -> Option<Check> {
    let name = &node.name;
    let option = facts.guest(vmid).and_then(|guest| guest.seen()).map(|seen| seen.live.agent());
    let is_on = matches!(option, Some(Ok(Some(agent))) if agent.enabled);
    if !is_on {
        let message = format!("{name} ({vmid}) runs without the agent option");
        return Some(Check::warning(
            NAME,
            message,
            "talmox apply --allow-reboot sets it; it works from the next start on",
        ));
    }
    let interfaces = match told {
        Ok(interfaces) => interfaces,
        Err(words) if words.contains("Permission check failed") => {
            return Some(Check::not_checked(NAME, format!("{name} ({vmid}): {words}"), None));
        }
        Err(words) => return Some(silent(desired, node, vmid, words)),
    };
    address(node, vmid, interfaces)
}

fn silent(desired: &Desired, node: &Node, vmid: VmId, words: &str) -> Check {
    let name = &node.name;
    let ip = first_address(node).map_or_else(|| "ADDRESS".to_owned(), |ip| ip.to_string());
    let remedy = if has_extension(desired) || node.schematic_id.is_some() {
        format!(
            "talosctl get extensions -n {ip} must list qemu-guest-agent; a node that boots needs a moment"
        )
    } else {
        format!("its image has no {EXTENSION}: add it to the schematic")
    };
    Check::warning(NAME, format!("the agent of {name} ({vmid}) does not answer: {}", words.trim()), remedy)
}

fn first_address(node: &Node) -> Option<IpAddr> {
    match &node.address {
        NodeAddress::Declared(pair) => pair.iter().next(),
        NodeAddress::FromPool(_) => None,
    }
}

fn address(node: &Node, vmid: VmId, interfaces: &[AgentInterface]) -> Option<Check> {
    let wanted = first_address(node)?;
    let reported =
        || interfaces.iter().flat_map(|interface| &interface.addresses).map(|ip| ip.address.as_str());
    if reported().any(|ip| ip.parse() == Ok(wanted)) {
        return None;
    }
    let outside = |ip: &&str| ip.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback());
    let others: Vec<&str> = reported().filter(outside).collect();
    let name = &node.name;
    Some(if others.is_empty() {
        let message = format!("the agent of {name} ({vmid}) reports no address yet");
        Check::warning(NAME, message, "the network comes up after the agent does: look again in a minute")
    } else {
        let message = format!("{name} ({vmid}) should have {wanted} and reports {}", listed(others));
        Check::warning(
            NAME,
            message,
            "compare its ipconfig0 and machine configuration; with DHCP, the reservation of its MAC",
        )
    })
}
