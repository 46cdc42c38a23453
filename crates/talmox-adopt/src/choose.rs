//! Which VM is meant, and what speaks for it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use talmox_plan::{Class, Guest, GuestKind, Identities, Observed, addresses, macs};
use talmox_types::desired::{Desired, Node, NodeAddress, Role};
use talmox_types::{FamilyPair, MacAddress, Mark, NodeName, VmId};

use crate::{Already, Refused};

/// Who shall be adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The VM of a node: the one that is named, or the only one that something speaks for.
    Node { node: NodeName, vmid: Option<VmId> },
    /// A VM, as the node it is.
    Vm(VmId),
    /// Every node without a VM of ours whose VM is plain to see.
    AllMatching,
    /// A VM, as a node that the description does not have yet.
    New { vmid: VmId, name: NodeName, role: Role, address: Option<FamilyPair<IpAddr>> },
}

/// What a VM and a node have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matched {
    /// Its SMBIOS values name the node: it lost its mark.
    Witness,
    Mac(MacAddress),
    Address(IpAddr),
    Name,
    /// The description gives the node this VMID.
    DeclaredId,
    /// Somebody named the VM.
    Asked,
}

impl fmt::Display for Matched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Witness => f.write_str("its SMBIOS values"),
            Self::Mac(mac) => write!(f, "MAC address {mac}"),
            Self::Address(address) => write!(f, "address {address}"),
            Self::Name => f.write_str("name"),
            Self::DeclaredId => f.write_str("vm_id"),
            Self::Asked => f.write_str("--vmid"),
        }
    }
}

/// A node and the VM that shall be it.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) node: NodeName,
    pub(crate) vmid: VmId,
    pub(crate) matched: Vec<Matched>,
}

/// Who was chosen, who was not and why.
#[derive(Debug, Default)]
pub(crate) struct Choices {
    pub(crate) chosen: Vec<Choice>,
    pub(crate) refused: Vec<Refused>,
    pub(crate) already: Vec<Already>,
    /// Nodes nothing was found for.
    pub(crate) unmatched: Vec<NodeName>,
}

/// What is there to choose from.
pub(crate) struct Field<'a> {
    pub(crate) desired: &'a Desired,
    pub(crate) observed: &'a Observed,
    pub(crate) identities: &'a Identities,
}

impl Field<'_> {
    pub(crate) fn choose(&self, selection: &Selection) -> Choices {
        let mut choices = Choices::default();
        match selection {
            Selection::Node { node, vmid } => self.node(node, *vmid, &mut choices),
            Selection::New { vmid, name, .. } => self.node(name, Some(*vmid), &mut choices),
            Selection::Vm(vmid) => self.vm(*vmid, &mut choices),
            Selection::AllMatching => {
                for node in &self.desired.nodes {
                    self.matching(node, &mut choices);
                }
                one_node_each(&mut choices);
            }
        }
        choices
    }

    fn node(&self, name: &NodeName, vmid: Option<VmId>, choices: &mut Choices) {
        let Some(node) = self.desired.nodes.iter().find(|node| node.name == *name) else {
            let problem = "the description has no such node".to_owned();
            choices.refused.push(Refused::new(Some(name), vmid, problem, Vec::new()));
            return;
        };
        let Some(vmid) = vmid else {
            self.matching(node, choices);
            if choices.unmatched.pop().is_some() {
                let hint = format!("talmox adopt {name} --vmid N, if you know which it is");
                let problem = "no VM has its name, MAC address or address".to_owned();
                choices.refused.push(Refused::new(Some(name), None, problem, vec![hint]));
            }
            return;
        };
        if let Some(owned) = self.identities.of_node(name).next() {
            let own = owned.mark.vmid;
            if own == vmid {
                choices.already.push(Already { node: name.clone(), vmid });
            } else {
                let problem = format!("its VM is {own}; {vmid} cannot be it as well");
                choices.refused.push(Refused::new(Some(name), Some(vmid), problem, Vec::new()));
            }
            return;
        }
        let mut matched =
            self.observed.guests.get(&vmid).map(|guest| self.matches(node, guest)).unwrap_or_default();
        matched.push(Matched::Asked);
        choices.chosen.push(Choice { node: name.clone(), vmid, matched });
    }

    /// The node a VM is: the one it has most in common with, and its name is enough, for the VM was named.
    fn vm(&self, vmid: VmId, choices: &mut Choices) {
        let Some(guest) = self.observed.guests.get(&vmid) else {
            let problem = "there is no such VM, or the credentials may not see it".to_owned();
            choices.refused.push(Refused::new(None, Some(vmid), problem, Vec::new()));
            return;
        };
        if let Class::Ours(owned) = self.identities.class(vmid) {
            choices.already.push(Already { node: owned.mark.node.clone(), vmid });
            return;
        }
        let mut found: Vec<(&Node, Vec<Matched>)> = self
            .desired
            .nodes
            .iter()
            .map(|node| (node, self.matches(node, guest)))
            .filter(|(_, matched)| !matched.is_empty())
            .collect();
        if found.iter().any(|(node, matched)| is_proof(node, guest, matched)) {
            found.retain(|(node, matched)| is_proof(node, guest, matched));
        }
        match found.as_slice() {
            [(node, _)] => self.node(&node.name, Some(vmid), choices),
            [] => {
                let name = guest.name.as_deref().unwrap_or("without a name");
                let problem = format!("it ({name}) has no name, MAC address or address of a node");
                let hints = vec![
                    format!("talmox adopt NODE --vmid {vmid}, if it is one of the description"),
                    format!("talmox adopt --vmid {vmid} --as NAME --role worker, to add it"),
                ];
                choices.refused.push(Refused::new(None, Some(vmid), problem, hints));
            }
            several => {
                let names: Vec<String> = several.iter().map(|(node, _)| node.name.to_string()).collect();
                let problem = format!("it may be {}", names.join(" or "));
                let hints = names.iter().map(|name| format!("talmox adopt {name} --vmid {vmid}")).collect();
                choices.refused.push(Refused::new(None, Some(vmid), problem, hints));
            }
        }
    }

    /// The VM of a node, if exactly one is plain to see.
    fn matching(&self, node: &Node, choices: &mut Choices) {
        if let Some(owned) = self.identities.of_node(&node.name).next() {
            choices.already.push(Already { node: node.name.clone(), vmid: owned.mark.vmid });
            return;
        }
        let guests =
            self.observed.guests.values().filter(|guest| guest.kind == GuestKind::Vm && !guest.template);
        let found: Vec<(&Guest, Vec<Matched>)> = guests
            .map(|guest| (guest, self.matches(node, guest)))
            .filter(|(_, matched)| !matched.is_empty())
            .collect();
        let proven: Vec<&(&Guest, Vec<Matched>)> =
            found.iter().filter(|(guest, matched)| is_proof(node, guest, matched)).collect();
        match (proven.as_slice(), found.as_slice()) {
            ([(guest, matched)], _) => {
                let choice = Choice { node: node.name.clone(), vmid: guest.vmid, matched: matched.clone() };
                choices.chosen.push(choice);
            }
            ([], []) => choices.unmatched.push(node.name.clone()),
            ([], some) => {
                let tell = |(guest, matched): &(&Guest, Vec<Matched>)| doubtful(node, guest, matched);
                let problem = some.iter().map(tell).collect::<Vec<_>>().join("; ");
                let ids: Vec<VmId> = some.iter().map(|(guest, _)| guest.vmid).collect();
                choices.refused.push(asks_for_vmid(&node.name, problem, &ids));
            }
            (several, _) => {
                let tell = |(guest, matched): &&(&Guest, Vec<Matched>)| {
                    format!("{} matches by {}", named(guest), listed(matched))
                };
                let problem = format!(
                    "several VMs may be it: {}",
                    several.iter().map(tell).collect::<Vec<_>>().join("; ")
                );
                let ids: Vec<VmId> = several.iter().map(|(guest, _)| guest.vmid).collect();
                choices.refused.push(asks_for_vmid(&node.name, problem, &ids));
            }
        }
    }

    fn matches(&self, node: &Node, guest: &Guest) -> Vec<Matched> {
        let mut matched = Vec::new();
        // A mark alone, on a VM that runs, is a line of text that anybody can write who may change notes.
        let mark = guest.seen().and_then(|seen| seen.live.description().and_then(Mark::of_description));
        if let Class::Lost { node: lost, mark: Some(_), .. } = self.identities.class(guest.vmid)
            && *lost == node.name
            && mark.is_none()
        {
            matched.push(Matched::Witness);
        }
        if let Some(seen) = guest.seen() {
            let held = macs(&seen.next);
            let nics = node.vm.nics.iter().filter(|nic| held.contains(&nic.mac));
            matched.extend(nics.map(|nic| Matched::Mac(nic.mac)));
            let own = declared(node);
            let shared = addresses(&seen.next).into_iter().filter(|address| own.contains(address));
            matched.extend(shared.map(Matched::Address));
        }
        if guest.name.as_deref() == Some(node.name.as_str()) {
            matched.push(Matched::Name);
        }
        if node.vm.id == Some(guest.vmid) {
            matched.push(Matched::DeclaredId);
        }
        matched
    }
}

fn declared(node: &Node) -> Vec<IpAddr> {
    match &node.address {
        NodeAddress::Declared(pair) => pair.iter().collect(),
        NodeAddress::FromPool(_) => Vec::new(),
    }
}

/// Whether it can be no other. A name alone proves nothing; with the declared id it does, unless something speaks
/// against it.
fn is_proof(node: &Node, guest: &Guest, matched: &[Matched]) -> bool {
    let strong = |one: &Matched| matches!(one, Matched::Witness | Matched::Mac(_) | Matched::Address(_));
    matched.iter().any(strong)
        || (matched.contains(&Matched::Name)
            && matched.contains(&Matched::DeclaredId)
            && against(node, guest).is_empty())
}

/// What speaks against a VM's being a node.
fn against(node: &Node, guest: &Guest) -> Vec<String> {
    let Some(seen) = guest.seen() else { return Vec::new() };
    let mut told = Vec::new();
    let held = macs(&seen.next);
    if let Some(nic) = node.vm.nics.first().filter(|nic| !nic.mac_derived && !held.contains(&nic.mac)) {
        let held: Vec<String> = held.iter().map(ToString::to_string).collect();
        told.push(format!("its MAC address is {}, described is {}", or_none(&held), nic.mac));
    }
    let (own, held) = (declared(node), addresses(&seen.next));
    if !own.is_empty() && !held.is_empty() && !held.iter().any(|address| own.contains(address)) {
        let texts = |list: &[IpAddr]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        told.push(format!(
            "its address is {}, described is {}",
            or_none(&texts(&held)),
            or_none(&texts(&own))
        ));
    }
    told
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

fn doubtful(node: &Node, guest: &Guest, matched: &[Matched]) -> String {
    let against = against(node, guest);
    let reason = if against.is_empty() { "which proves nothing".to_owned() } else { against.join(" and ") };
    format!("{} matches by {} only: {reason}", named(guest), listed(matched))
}

fn named(guest: &Guest) -> String {
    format!("VM {} ({}) on {}", guest.vmid, guest.name.as_deref().unwrap_or("without a name"), guest.host)
}

fn listed(matched: &[Matched]) -> String {
    matched.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

fn asks_for_vmid(node: &NodeName, problem: String, ids: &[VmId]) -> Refused {
    let hints = ids.iter().map(|vmid| format!("if it is: talmox adopt {node} --vmid {vmid}")).collect();
    Refused::new(Some(node), None, problem, hints)
}

/// One VM cannot be two nodes.
fn one_node_each(choices: &mut Choices) {
    let mut by_vm: BTreeMap<VmId, Vec<NodeName>> = BTreeMap::new();
    for choice in &choices.chosen {
        by_vm.entry(choice.vmid).or_default().push(choice.node.clone());
    }
    for (vmid, nodes) in by_vm.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
        choices.chosen.retain(|choice| choice.vmid != vmid);
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        let hints = nodes.iter().map(|node| format!("talmox adopt {node} --vmid {vmid}")).collect();
        let problem = format!("it may be {}", names.join(" or "));
        choices.refused.push(Refused::new(None, Some(vmid), problem, hints));
    }
}
