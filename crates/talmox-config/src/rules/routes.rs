//! Routes, and the subnets that kubelet and etcd choose their address from.

use talmox_types::Cidr;

use super::Subject;
use crate::problem::{Code, Problem};
use crate::read::{At, OneOrMore};

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    routes(subject, problems);
    let file = &subject.description.cluster.file;
    for subnets in [&file.node_ip_subnets, &file.etcd_subnets].into_iter().flatten() {
        reachable(subject, subnets, problems);
    }
}

/// Networks a node is in: the node network, and those of further network devices.
fn networks(subject: &Subject<'_>) -> Vec<Cidr> {
    let further = subject
        .members
        .iter()
        .filter_map(|member| member.pick(|s| s.vm_networks.as_ref()))
        .flat_map(|at| &at.value)
        .filter_map(|network| network.addresses.as_ref())
        .flat_map(|at| &at.value.0)
        .map(|address| address.value.network());
    subject.description.node_cidr().iter().flat_map(talmox_types::FamilyPair::iter).chain(further).collect()
}

fn routes(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let Some(routes) = &subject.description.cluster.file.node_routes else { return };
    let networks = networks(subject);
    for (index, route) in routes.value.iter().enumerate() {
        let (Some(network), Some(gateway)) = (&route.network, &route.gateway) else { continue };
        let problem = if network.value.is_ipv4() != gateway.value.is_ipv4() {
            Problem::error(Code::AddressFamily, "a route and its gateway have different IP families")
                .at(gateway.location, "the gateway")
                .related(network.location, "the network")
        } else if networks.iter().any(|known| known.network() == network.value.network()) {
            Problem::error(Code::NetworkOverlap, format!("the nodes are in {} already", network.value))
                .at(network.location, "needs no route")
        } else if !networks.iter().any(|known| known.contains(gateway.value)) {
            Problem::error(
                Code::AddressOutside,
                format!("no node reaches the gateway {} directly", gateway.value),
            )
            .at(gateway.location, "in none of the nodes' networks")
        } else if let Some(first) = routes.value[..index].iter().find_map(|other| {
            other.network.as_ref().filter(|other| other.value.network() == network.value.network())
        }) {
            Problem::error(Code::DuplicateSlot, format!("there are two routes to {}", network.value))
                .at(network.location, "again")
                .related(first.location, "first here")
        } else {
            continue;
        };
        problems.push(problem);
    }
}

/// A subnet no node has an address in would leave kubelet or etcd waiting for ever.
fn reachable(subject: &Subject<'_>, subnets: &At<OneOrMore<Cidr>>, problems: &mut Vec<Problem>) {
    let networks = networks(subject);
    for subnet in &subnets.value.0 {
        if !networks.iter().any(|known| known.overlaps(&subnet.value)) {
            problems.push(
                Problem::error(Code::AddressOutside, format!("no node has an address in {}", subnet.value))
                    .at(subnet.location, format!("of {}", subnets.key))
                    .hint("a part of node_cidr, or of the network of another device"),
            );
        }
    }
}
