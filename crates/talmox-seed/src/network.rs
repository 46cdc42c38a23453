//! The network of the first boot, in version 2 of the format.
//!
//! It says what the machine config says (`talmox-render`), so that a node which has to fetch something before it has one,
//! or whose config is on its way, is reached at the same address. Devices are found by their MAC addresses.

use std::net::IpAddr;

use talmox_types::desired::{Desired, NetworkMode, Nic, Node, Route};
use talmox_types::{Cidr, FamilyPair};

/// The network of one node, which has this address.
pub fn network_config(desired: &Desired, node: &Node, address: FamilyPair<IpAddr>) -> String {
    let mut text = String::from("version: 2\n");
    let mut vlans = String::new();
    // Talos' nocloud images count devices in the order of their slots.
    let ethernets: String = node
        .vm
        .nics
        .iter()
        .enumerate()
        .map(|(index, nic)| {
            let name = format!("eth{index}");
            let contents = if nic.slot == 0 { first(desired, node, address) } else { further(desired, nic) };
            match desired.network.guest_vlan.filter(|_| nic.slot == 0) {
                None => device(&name, nic, &contents),
                Some(id) => {
                    vlans = format!(
                        "vlans:\n  \"{name}.{id}\":\n    id: {id}\n    link: {name}\n{}{contents}",
                        mtu(nic)
                    );
                    device(&name, nic, "")
                }
            }
        })
        .collect();
    if !ethernets.is_empty() {
        text.push_str("ethernets:\n");
        text.push_str(&ethernets);
    }
    text.push_str(&vlans);
    text
}

fn device(name: &str, nic: &Nic, contents: &str) -> String {
    let mac = nic.mac.to_string().to_ascii_lowercase();
    format!("  {name}:\n    match:\n      macaddress: \"{mac}\"\n{}{contents}", mtu(nic))
}

fn mtu(nic: &Nic) -> String {
    nic.mtu.map(|mtu| format!("    mtu: {mtu}\n")).unwrap_or_default()
}

/// The device that carries the node's address.
fn first(desired: &Desired, node: &Node, address: FamilyPair<IpAddr>) -> String {
    let network = &desired.network;
    let reached = |gateway: IpAddr| network.node_cidr.iter().any(|one| one.contains(gateway));
    let mut text = match node.vm.network_mode {
        NetworkMode::Static => {
            let with_length =
                |address: IpAddr| Cidr::new(address, network.node_cidr.of_family(&address)?.prefix());
            let mut text = list("addresses", address.iter().filter_map(with_length));
            for gateway in address.iter().filter_map(|address| network.gateway.of_family(&address)) {
                let key = if gateway.is_ipv4() { "gateway4" } else { "gateway6" };
                text.push_str(&format!("    {key}: \"{gateway}\"\n"));
            }
            text
        }
        NetworkMode::Dhcp => {
            let asked = [("dhcp4", address.ipv4().is_some()), ("dhcp6", address.ipv6().is_some())];
            asked
                .into_iter()
                .filter(|(_, asked)| *asked)
                .map(|(key, _)| format!("    {key}: true\n"))
                .collect()
        }
    };
    if !network.dns_servers.is_empty() {
        let servers = network.dns_servers.iter().map(|server| format!("        - \"{server}\"\n"));
        text.push_str(&format!("    nameservers:\n      addresses:\n{}", servers.collect::<String>()));
    }
    text.push_str(&routes(network.routes.iter().filter(|route| reached(route.gateway))));
    text
}

/// A device beside the first: static addresses, or nothing.
fn further(desired: &Desired, nic: &Nic) -> String {
    if nic.addresses.is_empty() {
        return String::new();
    }
    let reached = |gateway: IpAddr| nic.addresses.iter().any(|one| one.contains(gateway));
    let routes = routes(desired.network.routes.iter().filter(|route| reached(route.gateway)));
    list("addresses", nic.addresses.iter().copied()) + &routes
}

fn list(key: &str, cidrs: impl Iterator<Item = Cidr>) -> String {
    let items: String = cidrs.map(|cidr| format!("      - \"{cidr}\"\n")).collect();
    if items.is_empty() { items } else { format!("    {key}:\n{items}") }
}

fn routes<'a>(routes: impl Iterator<Item = &'a Route>) -> String {
    let items: String = routes
        .map(|route| {
            let metric = route.metric.map(|metric| format!("        metric: {metric}\n")).unwrap_or_default();
            format!(
                "      - to: \"{}\"\n        via: \"{}\"\n{metric}",
                route.network.network(),
                route.gateway
            )
        })
        .collect();
    if items.is_empty() { items } else { format!("    routes:\n{items}") }
}
