//! Which address each node has. Known before anything is made: nothing ever waits for a guest agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use talmox_types::desired::{Desired, Node, NodeAddress};
use talmox_types::{AddressRange, FamilyPair, NodeName};

use crate::identity::{addresses, static_addresses};
use crate::{Identities, Observed};

/// The address of every node that can have one: declared, read back from its VM, or the next free one of its pool.
pub(crate) fn assign(
    desired: &Desired,
    observed: &Observed,
    identities: &Identities,
) -> BTreeMap<NodeName, FamilyPair<IpAddr>> {
    let mut given: BTreeMap<NodeName, FamilyPair<IpAddr>> = BTreeMap::new();
    for node in &desired.nodes {
        let known = match &node.address {
            NodeAddress::Declared(address) => Some(*address),
            NodeAddress::FromPool(ranges) => read_back(node, ranges, observed, identities),
        };
        given.extend(known.map(|address| (node.name.clone(), address)));
    }
    let network = &desired.network;
    let own = [Some(network.gateway), network.vip].into_iter().flatten().chain(given.values().copied());
    let mut taken: BTreeSet<IpAddr> = own.flat_map(|pair| pair.iter()).collect();
    let seen = observed.guests.values().filter_map(|guest| guest.seen());
    taken.extend(seen.flat_map(|seen| addresses(&seen.next)));
    let mut untried = BTreeMap::new();
    for node in &desired.nodes {
        let NodeAddress::FromPool(ranges) = &node.address else { continue };
        if given.contains_key(&node.name) {
            continue;
        }
        if let Some(address) = next_free(ranges, &taken, &mut untried) {
            taken.extend(address.iter());
            given.insert(node.name.clone(), address);
        }
    }
    given
}

fn read_back(
    node: &Node,
    ranges: &[AddressRange],
    observed: &Observed,
    identities: &Identities,
) -> Option<FamilyPair<IpAddr>> {
    let owned = identities.of_node(&node.name).next()?;
    let seen = observed.guests.get(&owned.mark.vmid)?.seen()?;
    let configs = seen.next.ip_configs().ok()?;
    let first = configs.iter().find(|(slot, _)| slot.index() == 0)?.1;
    let in_pool = |ip: &IpAddr| ranges.iter().any(|range| range.contains(*ip));
    pair(&static_addresses(first).into_iter().filter(in_pool).collect::<Vec<_>>())
}

/// What is left of each range. Addresses are only ever taken, so none that was passed over has to be tried again.
type Untried = BTreeMap<AddressRange, Box<dyn Iterator<Item = IpAddr>>>;

fn next_free(
    ranges: &[AddressRange],
    taken: &BTreeSet<IpAddr>,
    untried: &mut Untried,
) -> Option<FamilyPair<IpAddr>> {
    let mut free = |v4: bool| {
        let mut of_family = ranges.iter().filter(|range| range.first().is_ipv4() == v4);
        of_family.find_map(|range| {
            let left = untried.entry(*range).or_insert_with(|| Box::new(range.iter()));
            left.find(|ip| !taken.contains(ip))
        })
    };
    pair(&free(true).into_iter().chain(free(false)).collect::<Vec<_>>())
}

fn pair(addresses: &[IpAddr]) -> Option<FamilyPair<IpAddr>> {
    match addresses {
        [] => None,
        [one] => Some(FamilyPair::one(*one)),
        [one, two, ..] => FamilyPair::two(*one, *two),
    }
}
