//! `network-config`, version 1: a list of things to configure.

use std::collections::BTreeMap;

use talmox_machine::Value;

use super::model::{Bond, Kind, Links, PlatformAddress, PlatformLink, PlatformNetwork, Route};
use super::text;

pub(super) fn read(value: &Value, links: &Links) -> PlatformNetwork {
    let entries = value.at(&["config"]).and_then(Value::as_list).unwrap_or_default();
    let mut network = PlatformNetwork::default();
    let masters = masters(entries);
    for entry in entries {
        read_entry(entry, links, &masters, &mut network);
    }
    network
}

/// Which bond a link is a part of, and where in it.
fn masters(entries: &[Value]) -> BTreeMap<String, (String, usize)> {
    let mut found = BTreeMap::new();
    for entry in entries.iter().filter(|entry| text(Some(entry), "type").as_deref() == Some("bond")) {
        let name = text(Some(entry), "name").unwrap_or_default();
        let parts = entry.at(&["bond_interfaces"]).and_then(Value::as_list).unwrap_or_default();
        for (at, part) in parts.iter().filter_map(Value::as_text).enumerate() {
            found.insert(part.to_owned(), (name.clone(), at));
        }
    }
    found
}

fn number(value: Option<&Value>) -> u32 {
    value.and_then(Value::as_integer).and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn read_entry(
    entry: &Value,
    links: &Links,
    masters: &BTreeMap<String, (String, usize)>,
    network: &mut PlatformNetwork,
) {
    let given = text(Some(entry), "name").unwrap_or_default();
    let mtu = number(entry.at(&["mtu"]));
    let (name, kind, master) = match text(Some(entry), "type").as_deref() {
        Some("physical") => {
            let name = links.name(text(Some(entry), "mac_address").as_deref(), &given);
            (name, Kind::Physical, masters.get(&given).cloned())
        }
        Some("bond") => (given, Kind::Bond(bond(entry)), None),
        Some("vlan") => {
            let parent = text(Some(entry), "vlan_link").unwrap_or_default();
            let number = u16::try_from(number(entry.at(&["vlan_id"]))).unwrap_or_default();
            (given, Kind::Vlan { parent, number }, None)
        }
        Some("nameserver") => {
            let list = entry.at(&["address"]).and_then(Value::as_list).unwrap_or_default();
            network.resolvers.extend(list.iter().filter_map(Value::as_text).map(str::to_owned));
            return;
        }
        _ => return,
    };
    for subnet in entry.at(&["subnets"]).and_then(Value::as_list).unwrap_or_default() {
        read_subnet(subnet, &name, network);
    }
    network.links.push(PlatformLink { name, mtu, kind, master });
}

fn bond(entry: &Value) -> Bond {
    let at = |key: &str| entry.at(&["params", key]);
    let words = |key: &str| text(entry.at(&["params"]), key).unwrap_or_default();
    Bond {
        mode: words("bond-mode"),
        hash_policy: words("bond-xmit-hash-policy"),
        lacp_rate: words("bond-lacp-rate"),
        monitor: number(at("bond-miimon")),
        up_delay: number(at("up-delay")),
        down_delay: number(at("down-delay")),
    }
}

fn read_subnet(subnet: &Value, link: &str, network: &mut PlatformNetwork) {
    match text(Some(subnet), "type").as_deref() {
        Some("dhcp" | "dhcp4") => network.dhcp.push(link.to_owned()),
        Some("ipv6_dhcpv6-stateful") => network.dhcp6.push(link.to_owned()),
        Some("static" | "static6") => {
            if let Some(address) = address(subnet) {
                network.addresses.push(PlatformAddress { link: link.to_owned(), address });
            }
            if let Some(gateway) = text(Some(subnet), "gateway").filter(|gateway| !gateway.is_empty()) {
                network.routes.push(Route::default(&gateway, link));
            }
        }
        _ => {}
    }
}

/// With the length of its network, or with a mask beside it.
fn address(subnet: &Value) -> Option<String> {
    let address = text(Some(subnet), "address")?;
    if address.contains('/') {
        return Some(address);
    }
    let bits = match text(Some(subnet), "netmask").and_then(|mask| mask.parse::<std::net::Ipv4Addr>().ok()) {
        Some(mask) => mask.to_bits().leading_ones(),
        None if address.contains(':') => 128,
        None => 32,
    };
    Some(format!("{address}/{bits}"))
}
