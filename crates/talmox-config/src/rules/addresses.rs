//! Node addresses: there, unique, inside the node network, nobody else's.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use talmox_types::{AddressRange, Cidr, FamilyPair};

use super::Subject;
use super::identity::{first_owner, missing};
use crate::problem::{Code, Problem};
use crate::source::Location;

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let mut seen: HashMap<IpAddr, (Location, String)> = HashMap::new();
    let network = subject.description.node_cidr();
    let reserved = subject.description.reserved_addresses();
    let used = used(subject, &reserved);
    let here = proxmox_is_here(subject);
    for node in &subject.description.nodes {
        let Some(address) = &node.address else {
            if !node.broken.contains(&"address") {
                problems.push(missing("a node", "address", node).hint(
                    "every address is known beforehand: add a line address: …, or describe the nodes as a pool",
                ));
            }
            continue;
        };
        let name = node.name.as_ref().map_or_else(|| "this node".to_owned(), |name| name.value.to_string());
        for ip in address.value.iter() {
            if let Some((first, owner)) = first_owner(&mut seen, ip, (address.location, name.clone())) {
                let next = network.and_then(|network| next_free(&used, network, ip));
                let problem = Problem::error(Code::DuplicateAddress, format!("address {ip} is used twice"))
                    .at(address.location, name.clone())
                    .related(first, format!("{owner} has it first"));
                problems.push(match (next, network) {
                    (Some(free), Some(network)) => {
                        problem.hint(format!("{free} is the next free address of node_cidr {network}"))
                    }
                    _ => problem,
                });
            }
            if let Some(network) = network {
                inside(ip, address.location, &network, &name, problems);
            }
            taken(&reserved, ip, address.location, &name, problems);
            usable(ip, here, address.location, problems);
        }
    }
    further_devices(subject, &mut seen, &reserved, problems);
}

/// Addresses of network devices beside the first; a list that several nodes share gives all of them the same ones.
fn further_devices(
    subject: &Subject<'_>,
    seen: &mut HashMap<IpAddr, (Location, String)>,
    reserved: &[Reserved],
    problems: &mut Vec<Problem>,
) {
    for member in &subject.members {
        let networks =
            member.pick(|s| s.vm_networks.as_ref()).map(|at| at.value.as_slice()).unwrap_or_default();
        let addresses =
            networks.iter().filter_map(|network| network.addresses.as_ref()).flat_map(|at| &at.value.0);
        for address in addresses {
            let (cidr, ip) = (address.value, address.value.address());
            let name = member.name.to_string();
            if cidr.is_reserved(ip) {
                problems.push(
                    Problem::error(
                        Code::AddressOutside,
                        format!("{cidr} is a network, not an address in one"),
                    )
                    .at(address.location, "the network's own address, or its broadcast address")
                    .hint(format!("like {}/{}", cidr.first_host(), cidr.prefix())),
                );
            }
            if let Some((first, owner)) = first_owner(seen, ip, (address.location, name.clone())) {
                let problem = Problem::error(Code::DuplicateAddress, format!("address {ip} is used twice"))
                    .at(address.location, name.clone());
                problems.push(if first == address.location {
                    problem.hint(format!(
                        "{owner} and {name} share this list; give each node its own vm_networks"
                    ))
                } else {
                    problem.related(first, format!("{owner} has it first"))
                });
            }
            taken(reserved, ip, address.location, &name, problems);
            usable(ip, proxmox_is_here(subject), address.location, problems);
        }
    }
}

/// Whether the Proxmox that is described is on this machine: then it is a simulated one, and so are its nodes.
fn proxmox_is_here(subject: &Subject<'_>) -> bool {
    let endpoints = subject.description.cluster.file.proxmox_endpoint.as_ref();
    endpoints.is_some_and(|endpoints| endpoints.value.0.iter().all(|url| url.value.is_loopback()))
}

/// Addresses no machine can have, whatever the network. Simulated nodes can be on loopback, where programs reach them.
fn usable(ip: IpAddr, simulated: bool, location: Location, problems: &mut Vec<Problem>) {
    let what = match ip {
        _ if ip.is_multicast() => "a multicast address",
        _ if ip.is_loopback() && !simulated => "a loopback address",
        _ if ip.is_unspecified() => "no address at all",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        IpAddr::V4(_) | IpAddr::V6(_) => return,
    };
    problems.push(
        Problem::error(Code::AddressOutside, format!("{ip} is {what}"))
            .at(location, "not the address of a node"),
    );
}

/// An address somebody else has: whose, which, and where that is written.
type Reserved = (&'static str, IpAddr, Option<Location>);

/// Every address the description gives away.
fn used(subject: &Subject<'_>, reserved: &[Reserved]) -> HashSet<IpAddr> {
    let nodes = subject.description.nodes.iter().filter_map(|node| node.address.as_ref());
    nodes
        .flat_map(|address| address.value.iter())
        .chain(reserved.iter().map(|(_, address, _)| *address))
        .collect()
}

/// The first address of the network, after the given one, that nobody in the description has.
fn next_free(used: &HashSet<IpAddr>, network: FamilyPair<Cidr>, like: IpAddr) -> Option<IpAddr> {
    let hosts = network.of_family(&like)?.hosts();
    let after = AddressRange::between(like.max(hosts.first()), hosts.last())?;
    after.iter().take(used.len() + 2).find(|ip| !used.contains(ip))
}

fn inside(
    ip: IpAddr,
    location: Location,
    network: &FamilyPair<Cidr>,
    name: &str,
    problems: &mut Vec<Problem>,
) {
    let Some(cidr) = network.of_family(&ip) else {
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        problems.push(
            Problem::error(Code::AddressFamily, format!("{ip} is {family}, node_cidr {network} is not"))
                .at(location, format!("{name} has an {family} address"))
                .hint("make node_cidr a pair such as [10.0.7.0/24, fd00:7::/64]"),
        );
        return;
    };
    if !cidr.contains(ip) {
        problems.push(
            Problem::error(Code::AddressOutside, format!("{ip} is outside node_cidr {cidr}"))
                .at(location, format!("{name} is not in that network"))
                .hint(format!("addresses from {} to {}", cidr.hosts().first(), cidr.hosts().last())),
        );
    } else if cidr.is_reserved(ip) {
        problems.push(
            Problem::error(Code::AddressOutside, format!("{ip} cannot be the address of a host"))
                .at(location, "the network's own address, or its broadcast address")
                .hint(format!("addresses from {} to {}", cidr.hosts().first(), cidr.hosts().last())),
        );
    }
}

fn taken(reserved: &[Reserved], ip: IpAddr, location: Location, name: &str, problems: &mut Vec<Problem>) {
    for (owner, address, place) in reserved {
        if *address != ip {
            continue;
        }
        let problem = Problem::error(Code::AddressTaken, format!("{ip} is the {owner}"))
            .at(location, format!("{name} cannot have it too"));
        problems.push(match place {
            Some(place) => problem.related(*place, format!("the {owner}")),
            None => problem.hint("without node_gateway the gateway is the first address of node_cidr"),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::{Files, read_files};

    /// Whether a node may have an address beside a Proxmox there.
    fn accepts(endpoint: &str, address: &str) -> bool {
        let text = format!(
            "proxmox_endpoint: {endpoint}\nnodes:\n  - {{name: cp-1, address: {address}, controller: true}}\n"
        );
        read_files(Files::from_texts(&text, None)).desired.is_some()
    }

    #[test]
    fn only_a_simulated_proxmox_has_nodes_on_loopback() {
        assert!(accepts("https://127.0.0.1:8006", "127.30.40.11"));
        assert!(accepts("['https://127.0.0.1:8006', 'https://[::1]:8007']", "127.30.40.11"));
        assert!(!accepts("https://pve.lan:8006", "127.30.40.11"));
        assert!(!accepts("['https://127.0.0.1:8006', 'https://10.0.7.2:8006']", "127.30.40.11"));
        assert!(!accepts("https://127.0.0.1:8006", "224.0.0.9"));
    }
}
