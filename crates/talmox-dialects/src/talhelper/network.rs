//! Name servers and network interfaces.
//!
//! talhelper describes links of a machine that is there; here the VM is made, so what carries the node's address becomes the
//! VM's first device and the rest becomes further devices. What is the same for all nodes belongs to the cluster.

use std::net::IpAddr;

use talmox_config::read::At;
use talmox_types::Cidr;
use talmox_yaml::Node;

use super::draft::{Draft, Place, Whom};
use super::file::TalconfigBlock;
use super::group::{Pick, effective, nearest, path_of, texts};
use super::nodes::addresses_of;
use crate::tree::{self, Tree};

/// Links that are made of others, or of nothing.
const SPECIAL: [&str; 6] = ["bond", "bridge", "wireguard", "dummy", "bridgePort", "ignore"];

/// What the cluster gets of its nodes' interfaces: what they all agree on.
#[derive(Default)]
struct Common {
    keys: Vec<(&'static str, Node)>,
}

impl Common {
    /// Keeps a value for the cluster; false if another one is there already.
    fn agree(&mut self, key: &'static str, value: &Node) -> bool {
        match self.keys.iter().find(|(known, _)| *known == key) {
            Some((_, known)) => tree::same(known, value),
            None => {
                self.keys.push((key, value.clone()));
                true
            }
        }
    }
}

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    name_servers(draft, config);
    let pick: Pick<Tree> = |group| group.interfaces.as_ref();
    let mut common = Common::default();
    let nodes = config.nodes.iter().flat_map(|nodes| nodes.value.iter());
    for ((index, node), interfaces) in nodes.enumerate().zip(effective(config, pick)) {
        let Some(interfaces) = interfaces else { continue };
        let own = addresses_of(node.value.ip_address.as_ref().map_or("", |at| at.value.0.as_str()));
        let path = format!("{}.networkInterfaces", path_of(index, &node.value));
        let place = Place { path, whom: vec![Whom::Node(index)] };
        devices(draft, &place, interfaces, &own, &mut common);
    }
    for (key, value) in common.keys {
        draft.cluster_key(key, value);
    }
}

/// Name servers are the cluster's.
fn name_servers(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    let pick: Pick<Vec<At<talmox_config::read::Text>>> = |group| group.nameservers.as_ref();
    let Some(first) = effective(config, pick).into_iter().flatten().next() else { return };
    let servers = draft.texts(&first.value);
    draft.cluster_key("dns_servers", tree::list(servers.iter().map(tree::text)));
    for given in nearest(config, "nameservers", pick) {
        if texts(&given.at.value) == texts(&first.value) {
            draft.honoured(given.place.path, "dns_servers");
        } else {
            draft.unsupported(given.place.path, "all nodes have the same name servers: dns_servers");
        }
    }
}

fn devices(draft: &mut Draft<'_>, place: &Place, interfaces: &At<Tree>, own: &[IpAddr], common: &mut Common) {
    let all = tree::items(&interfaces.value.0);
    let carries = |device: &Node| prefixes(device).iter().any(|(address, _)| own.contains(address));
    let main = all.iter().position(|device| {
        carries(device)
            || tree::get(device, "vlans").is_some_and(|vlans| tree::items(vlans).iter().any(carries))
    });
    let main = main.unwrap_or_default();
    let mut further = Vec::new();
    for (index, device) in all.iter().enumerate() {
        let path = format!("{}[{index}]", place.path);
        let special = SPECIAL.into_iter().find(|key| tree::get(device, key).is_some());
        if let Some(key) = special {
            draft.unsupported(
                format!("{path}.{key}"),
                "a VM has plain devices; where it is wanted all the same, a patch with Talos' own document says so",
            );
        }
        let place = Place { path, whom: place.whom.clone() };
        if index == main {
            first_device(draft, &place, device, own, common);
        } else if special.is_none() {
            further.push(further_device(draft, &place, device, further.len() + 1));
        }
    }
    if !further.is_empty() {
        draft.setting(place, "vm_networks", &tree::list(further));
    }
}

/// Addresses with their prefixes.
fn prefixes(device: &Node) -> Vec<(IpAddr, Cidr)> {
    let addresses = tree::get(device, "addresses").map(tree::items).unwrap_or_default();
    let parsed = addresses.iter().filter_map(|address| {
        let text = &address.as_scalar()?.text;
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        Some((address, network(address, length.parse().ok()?)?))
    });
    parsed.collect()
}

/// The network an address is in.
fn network(address: IpAddr, length: u8) -> Option<Cidr> {
    let text = match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(length.into())?).unwrap_or(0);
            format!("{}/{length}", std::net::Ipv4Addr::from(u32::from(address) & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(length.into())?).unwrap_or(0);
            format!("{}/{length}", std::net::Ipv6Addr::from(u128::from(address) & mask))
        }
    };
    Cidr::parse(&text).ok()
}

fn first_device(draft: &mut Draft<'_>, place: &Place, device: &Node, own: &[IpAddr], common: &mut Common) {
    for (key, value) in tree::entries(device) {
        let path = format!("{}.{key}", place.path);
        match key {
            "interface" => draft.translated(path, "the VM's first device"),
            "deviceSelector" => hardware_address(draft, &path, value, |draft, mac| {
                draft.setting(place, "mac_addr", &tree::text(mac));
            }),
            "addresses" => {
                let found = prefixes(device);
                addresses(draft, &path, &found, own, common);
            }
            "routes" => routes(draft, &path, value, common),
            "dhcp" if value.as_scalar().is_some_and(|scalar| scalar.text == "true") => {
                draft.setting(place, "node_network", &tree::text("dhcp"));
                draft.honoured(path, "node_network");
            }
            "dhcp" => draft.honoured(path, "node_network"),
            "mtu" => {
                draft.setting(place, "mtu", value);
                draft.honoured(path, "mtu");
            }
            "vip" => virtual_address(draft, &path, value, common),
            "vlans" => vlans(draft, &path, value, own, common),
            key if SPECIAL.contains(&key) => {}
            _ => draft.unsupported(path, "there is no key for it; a patch may say it"),
        }
    }
}

fn hardware_address(
    draft: &mut Draft<'_>,
    path: &str,
    selector: &Node,
    mut set: impl FnMut(&mut Draft<'_>, &str),
) {
    for (key, value) in tree::entries(selector) {
        let text = value.as_scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
        let known = ["hardwareAddr", "permanentAddr"].contains(&key);
        if known && talmox_types::MacAddress::parse(text).is_ok() {
            set(draft, text);
            draft.translated(format!("{path}.{key}"), "MAC address of the VM's device");
        } else {
            draft.unsupported(format!("{path}.{key}"), "a VM's device is known by its whole MAC address");
        }
    }
}

/// The node's own address gives the network of the nodes.
fn addresses(
    draft: &mut Draft<'_>,
    path: &str,
    found: &[(IpAddr, Cidr)],
    own: &[IpAddr],
    common: &mut Common,
) {
    let (mine, others): (Vec<_>, Vec<_>) = found.iter().partition(|(address, _)| own.contains(address));
    let networks: Vec<Node> = mine.iter().map(|(_, network)| tree::text(network.to_string())).collect();
    let value = match networks.as_slice() {
        [one] => one.clone(),
        several => tree::list(several.iter().cloned()),
    };
    if mine.is_empty() {
        draft.unsupported(path, "none of them is the node's ipAddress");
    } else if !common.agree("node_cidr", &value) {
        draft.unsupported(path, "nodes of one cluster share their network: node_cidr");
    } else if others.is_empty() {
        draft.translated(path, "address and node_cidr");
    } else {
        draft.unsupported(path, "the first device has the node's own addresses; the others take a patch");
    }
}

fn routes(draft: &mut Draft<'_>, path: &str, routes: &Node, common: &mut Common) {
    let mut further = Vec::new();
    let mut gateways = Vec::new();
    for (index, route) in tree::items(routes).iter().enumerate() {
        let path = format!("{path}[{index}]");
        let network = tree::get_text(route, "network").unwrap_or_default();
        let Some(gateway) = tree::get_text(route, "gateway") else {
            draft.unsupported(path, "a route has a gateway");
            continue;
        };
        if ["", "0.0.0.0/0", "::/0"].contains(&network) {
            gateways.push(tree::text(gateway));
            draft.translated(path, "node_gateway");
        } else {
            let mut entries = vec![("network", tree::text(network)), ("gateway", tree::text(gateway))];
            entries.extend(tree::get(route, "metric").map(|metric| ("metric", metric.clone())));
            further.push(tree::map(entries));
            draft.translated(path, "node_routes");
        }
    }
    let gateway = match gateways.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(tree::list(several.iter().cloned())),
    };
    let further = (!further.is_empty()).then(|| tree::list(further));
    for (key, value) in [("node_gateway", gateway), ("node_routes", further)] {
        if value.is_some_and(|value| !common.agree(key, &value)) {
            draft.unsupported(path, format!("nodes share {key}, and this one has another"));
        }
    }
}

fn virtual_address(draft: &mut Draft<'_>, path: &str, vip: &Node, common: &mut Common) {
    for (key, value) in tree::entries(vip) {
        let path = format!("{path}.{key}");
        match (key, value.as_scalar()) {
            ("ip", Some(address)) if common.agree("cluster_api_addr", &tree::text(&address.text)) => {
                draft.translated(path, "cluster_api_addr");
            }
            ("ip", _) => {
                draft.unsupported(path, "control planes share one virtual address: cluster_api_addr");
            }
            _ => draft.unsupported(path, "an address of a cloud, where Proxmox is none"),
        }
    }
}

/// One VLAN that carries the node's address is the VLAN inside the guest.
fn vlans(draft: &mut Draft<'_>, path: &str, vlans: &Node, own: &[IpAddr], common: &mut Common) {
    for (index, vlan) in tree::items(vlans).iter().enumerate() {
        let path = format!("{path}[{index}]");
        let found = prefixes(vlan);
        let carries = found.iter().any(|(address, _)| own.contains(address));
        let id = tree::get(vlan, "vlanId").filter(|_| carries);
        if !id.is_some_and(|id| common.agree("guest_vlan", id)) {
            draft.unsupported(path, "a VLAN beside the node's own takes a device of its own, or a patch");
            continue;
        }
        draft.translated(format!("{path}.vlanId"), "guest_vlan");
        addresses(draft, &format!("{path}.addresses"), &found, own, common);
        for (key, value) in tree::entries(vlan) {
            let path = format!("{path}.{key}");
            match key {
                "vlanId" | "addresses" => {}
                "routes" => routes(draft, &path, value, common),
                "vip" => virtual_address(draft, &path, value, common),
                _ => draft.unsupported(path, "there is no key for it; a patch may say it"),
            }
        }
    }
}

/// A device beside the first.
fn further_device(draft: &mut Draft<'_>, place: &Place, device: &Node, slot: usize) -> Node {
    let mut entries = vec![("slot".to_owned(), tree::plain(&slot))];
    for (key, value) in tree::entries(device) {
        let path = format!("{}.{key}", place.path);
        match key {
            "interface" => draft.translated(path, format!("vm_networks, slot {slot}")),
            "deviceSelector" => {
                hardware_address(draft, &path, value, |_, mac| {
                    entries.push(("mac".to_owned(), tree::text(mac)));
                });
            }
            "addresses" | "mtu" => {
                entries.push((key.to_owned(), value.clone()));
                draft.translated(path, format!("vm_networks, slot {slot}"));
            }
            key if SPECIAL.contains(&key) => {}
            _ => draft
                .unsupported(path, "devices beside the first have static addresses only; a patch may say it"),
        }
    }
    tree::map(entries)
}
