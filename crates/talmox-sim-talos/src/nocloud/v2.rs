//! `network-config`, version 2: links by kind and name.

use std::collections::BTreeMap;

use talmox_machine::Value;

use super::model::{Bond, Kind, Links, PlatformAddress, PlatformLink, PlatformNetwork, Route};
use super::text;

pub(super) fn read(value: &Value, links: &Links) -> PlatformNetwork {
    let mut network = PlatformNetwork::default();
    let ethernets = named(value, "ethernets");
    let names: BTreeMap<&str, String> = ethernets
        .iter()
        .map(|(given, entry)| {
            let mac = entry.at(&["match"]).and_then(|one| text(Some(one), "macaddress"));
            (*given, links.name(mac.as_deref(), given))
        })
        .collect();
    let bonds = named(value, "bonds");
    let parts: Vec<&str> = bonds.values().flat_map(|bond| interfaces(bond)).collect();
    for (given, entry) in ethernets.iter().filter(|(given, _)| !parts.contains(*given)) {
        let name = names.get(given).cloned().unwrap_or_default();
        let mtu = number(entry.at(&["mtu"]));
        network.links.push(PlatformLink { name: name.clone(), mtu, kind: Kind::Physical, master: None });
        read_link(entry, &name, &mut network);
    }
    for (bond, entry) in &bonds {
        for (at, part) in interfaces(entry).into_iter().enumerate() {
            let name = names.get(part).cloned().unwrap_or_else(|| part.to_owned());
            let mtu = ethernets.get(part).map_or(0, |entry| number(entry.at(&["mtu"])));
            let master = Some(((*bond).to_owned(), at));
            network.links.push(PlatformLink { name, mtu, kind: Kind::Physical, master });
        }
    }
    for (name, entry) in bonds {
        let kind = Kind::Bond(bond(entry));
        network.links.push(PlatformLink {
            name: name.to_owned(),
            mtu: number(entry.at(&["mtu"])),
            kind,
            master: None,
        });
        read_link(entry, name, &mut network);
    }
    for (name, entry) in named(value, "vlans") {
        let parent = text(Some(entry), "link").unwrap_or_default();
        let parent = names.get(parent.as_str()).cloned().unwrap_or(parent);
        let number_of = u16::try_from(number(entry.at(&["id"]))).unwrap_or_default();
        network.links.push(PlatformLink {
            name: name.to_owned(),
            mtu: number(entry.at(&["mtu"])),
            kind: Kind::Vlan { parent, number: number_of },
            master: None,
        });
        read_link(entry, name, &mut network);
    }
    network
}

fn named<'a>(value: &'a Value, key: &str) -> BTreeMap<&'a str, &'a Value> {
    value.at(&[key]).and_then(Value::as_map).map(|map| map.iter().collect()).unwrap_or_default()
}

fn interfaces(bond: &Value) -> Vec<&str> {
    let list = bond.at(&["interfaces"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_text).collect()
}

fn number(value: Option<&Value>) -> u32 {
    value.and_then(Value::as_integer).and_then(|number| u32::try_from(number).ok()).unwrap_or_default()
}

fn bond(entry: &Value) -> Bond {
    let at = |key: &str| entry.at(&["parameters", key]);
    let words = |key: &str| text(entry.at(&["parameters"]), key).unwrap_or_default();
    Bond {
        mode: words("mode"),
        hash_policy: words("transmit-hash-policy"),
        lacp_rate: words("lacp-rate"),
        monitor: number(at("mii-monitor-interval")),
        up_delay: number(at("up-delay")),
        down_delay: number(at("down-delay")),
    }
}

fn read_link(entry: &Value, link: &str, network: &mut PlatformNetwork) {
    let flag = |key: &str| entry.at(&[key]).and_then(Value::as_bool).unwrap_or_default();
    if flag("dhcp4") {
        network.dhcp.push(link.to_owned());
    }
    if flag("dhcp6") {
        network.dhcp6.push(link.to_owned());
    }
    for address in entry.at(&["addresses"]).and_then(Value::as_list).unwrap_or_default() {
        if let Some(address) = address.as_text() {
            network.addresses.push(PlatformAddress { link: link.to_owned(), address: address.to_owned() });
        }
    }
    for key in ["gateway4", "gateway6"] {
        if let Some(gateway) = text(Some(entry), key).filter(|gateway| !gateway.is_empty()) {
            network.routes.push(Route::default(&gateway, link));
        }
    }
    for route in entry.at(&["routes"]).and_then(Value::as_list).unwrap_or_default() {
        read_route(route, link, network);
    }
    let resolvers = entry.at(&["nameservers", "addresses"]).and_then(Value::as_list).unwrap_or_default();
    network.resolvers.extend(resolvers.iter().filter_map(Value::as_text).map(str::to_owned));
}

fn read_route(route: &Value, link: &str, network: &mut PlatformNetwork) {
    let Some(gateway) = text(Some(route), "via") else { return };
    let everywhere = ["default", "0.0.0.0/0", "::/0"];
    let to = text(Some(route), "to").filter(|to| !everywhere.contains(&to.as_str()));
    let metric = route.at(&["metric"]).and_then(Value::as_integer);
    let metric = metric.and_then(|metric| u32::try_from(metric).ok());
    let family = Route::family(&gateway);
    network.routes.push(Route {
        destination: to,
        gateway: Some(gateway.clone()),
        link: link.to_owned(),
        priority: metric.unwrap_or_else(|| Route::default_priority(&gateway)),
        family,
    });
    if route.at(&["on-link"]).and_then(Value::as_bool) == Some(true) {
        let bits = if family == 6 { 128 } else { 32 };
        network.routes.push(Route {
            destination: Some(format!("{gateway}/{bits}")),
            gateway: None,
            link: link.to_owned(),
            priority: metric.unwrap_or(Route::PRIORITY),
            family,
        });
    }
}
