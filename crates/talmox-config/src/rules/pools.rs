//! Node pools: complete, inside the node network, with room for their nodes.

use std::collections::HashSet;
use std::net::IpAddr;

use super::Subject;
use super::identity::missing;
use crate::file::PoolBlock;
use crate::problem::{Code, Problem};
use crate::read::At;

/// Counting the free addresses of a range stops here: no pool is larger.
const ENOUGH: usize = 1000;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    // Pools may share a range; what an earlier one needs, a later one cannot have.
    let mut taken: HashSet<IpAddr> = subject
        .description
        .nodes
        .iter()
        .filter_map(|node| node.address.as_ref())
        .flat_map(|address| address.value.iter())
        .chain(subject.description.reserved_addresses().into_iter().map(|(_, address, _)| address))
        .collect();
    for pool in &subject.description.pools {
        if pool.count.is_none() && !pool.broken.contains(&"count") {
            problems.push(missing("a node pool", "count", pool));
        }
        if pool.addresses.is_none() && !pool.broken.contains(&"addresses") {
            problems.push(
                missing("a node pool", "addresses", pool)
                    .hint("add a line addresses: [10.0.7.32/28], or a range like 10.0.7.20-10.0.7.29"),
            );
        }
        outside(subject, pool, problems);
        room(pool, &mut taken, problems);
    }
}

fn outside(subject: &Subject<'_>, pool: &At<PoolBlock>, problems: &mut Vec<Problem>) {
    let (Some(network), Some(addresses)) = (subject.description.node_cidr(), &pool.addresses) else { return };
    for range in &addresses.value.0 {
        let inside = network
            .of_family(&range.value.first())
            .is_some_and(|cidr| cidr.contains(range.value.first()) && cidr.contains(range.value.last()));
        if !inside {
            problems.push(
                Problem::error(
                    Code::AddressOutside,
                    format!("{} is not inside node_cidr {network}", range.value),
                )
                .at(range.location, "reaches outside"),
            );
        }
    }
}

fn room(pool: &At<PoolBlock>, taken: &mut HashSet<IpAddr>, problems: &mut Vec<Problem>) {
    let (Some(count), Some(addresses)) = (&pool.count, &pool.addresses) else { return };
    let needed: usize = count.value.to();
    let ranges = addresses.value.0.iter();
    // Of two families each node takes one address of each; the family with less room decides.
    let families: Vec<bool> = [true, false]
        .into_iter()
        .filter(|v4| addresses.value.0.iter().any(|range| range.value.first().is_ipv4() == *v4))
        .collect();
    for v4 in families {
        let free: Vec<IpAddr> = ranges
            .clone()
            .filter(|range| range.value.first().is_ipv4() == v4)
            .flat_map(|range| range.value.iter())
            .filter(|ip| !taken.contains(ip))
            .take(needed.min(ENOUGH))
            .collect();
        if free.len() < needed {
            let name = pool.name.as_ref().map_or_else(|| "the pool".to_owned(), |at| at.value.to_string());
            problems.push(
                Problem::error(
                    Code::PoolTooSmall,
                    format!("{name} has {} free addresses for {needed} nodes", free.len()),
                )
                .at(addresses.location, format!("{} too few", needed - free.len()))
                .related(count.location, format!("{needed} nodes"))
                .hint("addresses of nodes, gateway and virtual address are not free"),
            );
        }
        taken.extend(free);
    }
}
