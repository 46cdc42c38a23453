//! The networks: proper ones, apart from each other, of fitting families and sizes.

use talmox_types::{Cidr, FamilyPair};

use super::Subject;
use crate::problem::{Code, Problem};
use crate::read::At;
use crate::source::Location;

/// Kubernetes allows at most 20 host bits for services.
const MAX_SERVICE_BITS: u8 = 20;

/// Talos wants at least four.
const MIN_SERVICE_BITS: u8 = 4;

/// Pods need room for every node's share (a /24, or a /64 in IPv6).
const NODE_SHARE: (u8, u8) = (24, 64);

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let description = subject.description;
    let file = &description.cluster.file;
    for (key, network) in [
        ("node_cidr", &file.node_cidr),
        ("cluster_pod_cidr", &file.cluster_pod_cidr),
        ("cluster_svc_cidr", &file.cluster_svc_cidr),
    ] {
        if let Some(network) = network {
            proper(key, network, problems);
        }
    }
    overlaps(subject, problems);
    families(subject, problems);
    sizes(subject, problems);
    gateway_and_vip(subject, problems);
}

fn proper(key: &str, network: &At<FamilyPair<Cidr>>, problems: &mut Vec<Problem>) {
    for cidr in network.value.iter().filter(Cidr::has_host_bits) {
        problems.push(
            Problem::warning(Code::NetworkSize, format!("{key} {cidr} names a host; its network is meant"))
                .at(network.location, format!("read as {}", cidr.network()))
                .hint(format!("write {}", cidr.network())),
        );
    }
}

/// A network with its name and the place to point at: its own, or the top of the file for a default.
struct Named {
    name: &'static str,
    cidr: Cidr,
    location: Option<Location>,
}

fn named(subject: &Subject<'_>) -> Vec<Named> {
    let description = subject.description;
    let file = &description.cluster.file;
    let list = |name, pair: Option<FamilyPair<Cidr>>, location: Option<Location>| {
        pair.into_iter().flat_map(|pair| pair.iter()).map(move |cidr| Named { name, cidr, location })
    };
    list("node_cidr", description.node_cidr(), file.node_cidr.as_ref().map(|at| at.location))
        .chain(list(
            "cluster_pod_cidr",
            Some(description.pod_cidr()),
            file.cluster_pod_cidr.as_ref().map(|at| at.location),
        ))
        .chain(list(
            "cluster_svc_cidr",
            Some(description.service_cidr()),
            file.cluster_svc_cidr.as_ref().map(|at| at.location),
        ))
        .collect()
}

fn overlaps(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let networks = named(subject);
    for (index, first) in networks.iter().enumerate() {
        for second in &networks[index + 1..] {
            if first.name == second.name || !first.cidr.overlaps(&second.cidr) {
                continue;
            }
            let Some(here) = second.location.or(first.location).or(subject.description.top) else { continue };
            let message =
                format!("{} {} and {} {} overlap", first.name, first.cidr, second.name, second.cidr);
            let default = |named: &Named| if named.location.is_none() { " (the default)" } else { "" };
            let mut problem = Problem::error(Code::NetworkOverlap, message).at(
                here,
                format!("{}{} overlaps {}{}", second.name, default(second), first.name, default(first)),
            );
            if let (Some(place), Some(_)) = (first.location, second.location) {
                problem = problem.related(place, first.name);
            }
            problems.push(problem.hint("pods, services and nodes need networks of their own"));
        }
    }
}

fn families(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let description = subject.description;
    let file = &description.cluster.file;
    let (pods, services) = (description.pod_cidr(), description.service_cidr());
    let written = [&file.cluster_svc_cidr, &file.cluster_pod_cidr, &file.node_cidr];
    let place = written.into_iter().flatten().map(|at| at.location).next().or(description.top);
    let Some(place) = place else { return };
    let of = |pair: &FamilyPair<Cidr>| (pair.ipv4().is_some(), pair.ipv6().is_some());
    if of(&pods) != of(&services) {
        problems.push(
            Problem::error(Code::AddressFamily, "pods and services must have the same IP families")
                .at(place, "IPv4 and IPv6 differ between the two")
                .hint("give cluster_pod_cidr and cluster_svc_cidr one network each, or a pair each"),
        );
    }
    let Some(nodes) = description.node_cidr() else { return };
    for (family, pods_have, nodes_have) in
        [("IPv4", of(&pods).0, of(&nodes).0), ("IPv6", of(&pods).1, of(&nodes).1)]
    {
        if pods_have && !nodes_have {
            problems.push(
                Problem::error(Code::AddressFamily, format!("pods have {family}, nodes have none"))
                    .at(place, format!("pods {pods}, nodes {nodes}"))
                    .hint("networks of pods and services have the families of node_cidr"),
            );
        }
    }
    node_families(subject, &nodes, problems);
}

/// Every node has an address of each family the node network has.
fn node_families(subject: &Subject<'_>, network: &FamilyPair<Cidr>, problems: &mut Vec<Problem>) {
    let Some(written) = &subject.description.cluster.file.node_cidr else {
        return one_family(subject, problems);
    };
    for node in &subject.description.nodes {
        let Some(address) = &node.address else { continue };
        let lacking = network.iter().find(|cidr| address.value.of_family(cidr).is_none());
        if let Some(cidr) = lacking {
            problems.push(
                Problem::error(Code::AddressFamily, format!("there is no address of {cidr} here"))
                    .at(address.location, "one family is missing")
                    .related(written.location, "nodes have an address of each")
                    .hint("write a pair, such as [10.0.7.11, fd00:7::11]"),
            );
        }
    }
}

/// Without `node_cidr` the first node decides; the others must be like it.
fn one_family(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let mut addresses = subject.description.nodes.iter().filter_map(|node| node.address.as_ref());
    let Some(first) = addresses.next() else { return };
    let of = |at: &At<FamilyPair<std::net::IpAddr>>| (at.value.ipv4().is_some(), at.value.ipv6().is_some());
    for other in addresses.filter(|other| of(other) != of(first)) {
        problems.push(
            Problem::error(Code::AddressFamily, "nodes have addresses of different IP families")
                .at(other.location, other.value.to_string())
                .related(first.location, first.value.to_string())
                .hint("all IPv4, all IPv6, or all a pair"),
        );
    }
}

fn sizes(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let bits = |cidr: &Cidr| if cidr.is_ipv4() { 32 - cidr.prefix() } else { 128 - cidr.prefix() };
    if let Some(services) = &file.cluster_svc_cidr {
        for cidr in services.value.iter().filter(|cidr| bits(cidr) > MAX_SERVICE_BITS) {
            let shortest = if cidr.is_ipv4() { 12 } else { 108 };
            problems.push(
                Problem::error(
                    Code::NetworkSize,
                    format!("cluster_svc_cidr {cidr} is too large for Kubernetes"),
                )
                .at(services.location, "too large")
                .hint(format!("a prefix length of at least /{shortest}")),
            );
        }
    }
    if let Some(services) = &file.cluster_svc_cidr {
        for cidr in services.value.iter().filter(|cidr| bits(cidr) < MIN_SERVICE_BITS) {
            problems.push(
                Problem::error(
                    Code::NetworkSize,
                    format!("cluster_svc_cidr {cidr} has room for too few services"),
                )
                .at(services.location, "too small")
                .hint(format!("a prefix length of at most /{}", if cidr.is_ipv4() { 28 } else { 124 })),
            );
        }
    }
    let nodes = subject.members.len() as u64;
    if let Some(pods) = &file.cluster_pod_cidr {
        for cidr in pods.value.iter() {
            let share = if cidr.is_ipv4() { NODE_SHARE.0 } else { NODE_SHARE.1 };
            let room = 1_u64.checked_shl(u32::from(share.saturating_sub(cidr.prefix()))).unwrap_or(u64::MAX);
            if cidr.prefix() > share || room < nodes {
                problems.push(
                    Problem::error(
                        Code::NetworkSize,
                        format!("cluster_pod_cidr {cidr} has no room for {nodes} nodes"),
                    )
                    .at(pods.location, "too small")
                    .hint(format!("every node takes a /{share} of it")),
                );
            }
        }
    }
}

fn gateway_and_vip(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let Some(network) = subject.description.node_cidr() else { return };
    for (what, pair) in [("gateway", &file.node_gateway), ("virtual address", &file.cluster_api_addr)] {
        let Some(pair) = pair else { continue };
        for ip in pair.value.iter() {
            let inside = network.of_family(&ip).filter(|cidr| cidr.contains(ip));
            let problem = match inside {
                None => Problem::error(
                    Code::AddressOutside,
                    format!("the {what} {ip} is outside node_cidr {network}"),
                )
                .at(pair.location, "nodes cannot reach it directly"),
                Some(cidr) if cidr.is_reserved(ip) => Problem::error(
                    Code::AddressOutside,
                    format!("the {what} {ip} cannot be the address of a host"),
                )
                .at(pair.location, "the network's own address, or its broadcast address"),
                Some(_) => continue,
            };
            problems.push(problem.hint(format!("the {what} is an address of the node network")));
        }
    }
    let (Some(gateway), Some(vip)) = (subject.description.gateway(), &file.cluster_api_addr) else { return };
    if let Some(ip) = vip.value.iter().find(|ip| gateway.iter().any(|other| other == *ip)) {
        let problem = Problem::error(Code::AddressTaken, format!("{ip} is both gateway and virtual address"))
            .at(vip.location, "the virtual address");
        problems.push(match &file.node_gateway {
            Some(written) => problem.related(written.location, "the gateway"),
            None => problem.hint("without node_gateway the gateway is the first address of node_cidr"),
        });
    }
}
