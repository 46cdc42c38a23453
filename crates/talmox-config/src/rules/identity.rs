//! Names, MAC addresses, VMIDs and the cluster's own identity.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use talmox_types::{MacAddress, NodeName};

use super::Subject;
use crate::derive::mac_address;
use crate::problem::{Code, Problem};
use crate::read::At;
use crate::source::Location;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    names(subject, problems);
    mac_addresses(subject, problems);
    vm_ids(subject, problems);
    cluster_uid(subject, problems);
}

/// First comes, first served: the earlier owner of something, or none if `owner` is now it.
pub(super) fn first_owner<K: Hash + Eq, O: Clone>(seen: &mut HashMap<K, O>, key: K, owner: O) -> Option<O> {
    match seen.entry(key) {
        Entry::Occupied(first) => Some(first.get().clone()),
        Entry::Vacant(free) => {
            free.insert(owner);
            None
        }
    }
}

fn names(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<String, (Location, String)> = HashMap::new();
    let mut report = |name: String, location: Location, owner: String, problems: &mut Vec<Problem>| {
        if let Some((first, first_owner)) = first_owner(&mut seen, name.clone(), (location, owner.clone())) {
            problems.push(
                Problem::error(Code::DuplicateName, format!("the name {name} is used twice"))
                    .at(location, owner)
                    .related(first, format!("{first_owner} has it first"))
                    .hint("names of VMs, hosts and Kubernetes nodes are one; each node needs its own"),
            );
        }
    };
    for node in &subject.description.nodes {
        match &node.name {
            Some(name) => report(name.value.to_string(), name.location, "this node".to_owned(), problems),
            None if node.broken.contains(&"name") => {}
            None => problems.push(missing("a node", "name", node)),
        }
    }
    for pool in &subject.description.pools {
        let Some(name) = &pool.name else {
            if !pool.broken.contains(&"name") {
                problems.push(missing("a node pool", "name", pool));
            }
            continue;
        };
        let count: u32 = pool.count.as_ref().map_or(0, |at| at.value.to());
        for number in 1..=count {
            let member = format!("{}-{number}", name.value);
            report(member, name.location, format!("node {number} of this pool"), problems);
        }
    }
}

/// A block without a key it cannot do without.
pub(super) fn missing<T>(what: &str, key: &str, block: &At<T>) -> Problem {
    Problem::error(Code::MissingKey, format!("{what} has no {key}"))
        .at(block.location, format!("{key} is missing"))
        .hint(format!("add a line {key}: …"))
}

/// One MAC address: where it stands, whose it is, and whether it was derived.
#[derive(Clone)]
struct Owner {
    location: Location,
    node: NodeName,
    derived: bool,
}

fn mac_addresses(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<MacAddress, Owner> = HashMap::new();
    for (mac, owner) in owners(subject) {
        let Some(first) = first_owner(&mut seen, mac, owner.clone()) else { continue };
        // Two nodes of one name, or two devices in one slot, derive one address; the name or slot is the mistake.
        if first.derived && owner.derived && first.node == owner.node {
            continue;
        }
        let line = format!("mac_addr: {}", MacAddress::in_proxmox_prefix([0, 0, 1]));
        problems.push(if first.derived || owner.derived {
            let whose = if owner.derived { &owner.node } else { &first.node };
            Problem::error(
                Code::DuplicateMac,
                format!("{} and {} would both have the MAC address {mac}", first.node, owner.node),
            )
            .at(owner.location, format!("{}{}", owner.node, if owner.derived { ", derived" } else { "" }))
            .related(
                first.location,
                format!("{}{}", first.node, if first.derived { ", derived" } else { "" }),
            )
            .hint(format!("give {whose} one of its own with a line such as {line}"))
        } else {
            Problem::error(Code::DuplicateMac, format!("the MAC address {mac} is used twice"))
                .at(owner.location, owner.node.to_string())
                .related(first.location, format!("{} has it first", first.node))
                .hint("leave mac_addr out to have one derived")
        });
    }
}

/// Every network device's address with its owner; slot 0 is always there.
fn owners<'d>(subject: &'d Subject<'d>) -> impl Iterator<Item = (MacAddress, Owner)> + 'd {
    let uid = subject.description.cluster.file.cluster_uid.as_ref().map(|at| &at.value);
    let cluster = subject.description.cluster_name();
    subject.members.iter().flat_map(move |member| {
        let own = member.node.map(|node| node.location).or(member.pool.map(|pool| pool.location));
        let networks =
            member.pick(|s| s.vm_networks.as_ref()).map(|at| at.value.as_slice()).unwrap_or_default();
        let slot_of =
            |at: &At<crate::file::NetworkBlock>| at.slot.as_ref().map_or(0, |slot| slot.value.to::<u8>());
        let declared = member.node.and_then(|node| node.mac_addr.as_ref());
        let first = networks.iter().find(|at| slot_of(at) == 0).and_then(|at| at.mac.as_ref());
        let others = networks.iter().filter(move |at| slot_of(at) != 0);
        let mut macs = vec![(0, declared.or(first))];
        macs.extend(others.map(|at| (slot_of(at), at.mac.as_ref())));
        let cluster = cluster.clone();
        macs.into_iter().filter_map(move |(slot, mac)| {
            let node = member.name.clone();
            if let Some(at) = mac {
                return Some((at.value, Owner { location: at.location, node, derived: false }));
            }
            let mac = mac_address(uid, &cluster, &member.name, slot);
            Some((mac, Owner { location: own?, node, derived: true }))
        })
    })
}

fn vm_ids(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<u32, (Location, NodeName)> = HashMap::new();
    for member in &subject.members {
        let Some(id) = member.node.and_then(|node| node.vm_id.as_ref()) else { continue };
        let owner = (id.location, member.name.clone());
        if let Some((first, name)) = first_owner(&mut seen, id.value.to(), owner) {
            problems.push(
                Problem::error(Code::DuplicateVmId, format!("VMID {} is used twice", id.value.to::<u32>()))
                    .at(id.location, member.name.to_string())
                    .related(first, format!("{name} has it first"))
                    .hint("leave vm_id out to have the next free one taken"),
            );
        }
    }
}

fn cluster_uid(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let (None, Some(top)) = (&file.cluster_uid, subject.description.top) else { return };
    if file.broken.contains(&"cluster_uid") {
        return;
    }
    let derived = owners(subject).any(|(_, owner)| owner.derived);
    let message = "there is no cluster_uid, so this cluster cannot be told from another of its name";
    let problem = if derived {
        Problem::warning(Code::NoClusterUid, format!("{message}; MAC addresses are derived from the name"))
    } else {
        Problem::note(Code::NoClusterUid, message)
    };
    problems.push(
        problem
            .at(top, "a line cluster_uid: is missing")
            .hint("talmox init writes one; sixteen hexadecimal digits of your own do as well, kept for ever"),
    );
}
