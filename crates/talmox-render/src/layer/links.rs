//! Links as documents, from contract 1.12 on.
//!
//! A device is found by its MAC address and gets the name it has in Proxmox, `netN`. The MAC is in the description or follows
//! from it, is the same on every boot, and nothing else has it: a VLAN on top has no permanent address. Names Talos
//! gives would depend on the image (`eth0` on nocloud, `ens18` on metal) and on what else sits on the PCI bus.

use talmox_machine::Map;
use talmox_types::Cidr;
use talmox_types::desired::Route;

use super::network::{Carries, Link};
use super::{Layer, maps, number, quoted};

pub(super) fn add(layer: &mut Layer, links: &[Link<'_>]) {
    for link in links.iter().filter(|link| !link.is_idle()) {
        add_link(layer, link);
    }
}

fn add_link(layer: &mut Layer, link: &Link<'_>) {
    let name = format!("net{}", link.nic.slot);
    let mac = link.nic.mac.to_string().to_ascii_lowercase();
    let selector = Map::new().with("match", format!("mac(link.permanent_addr) == {}", quoted(&mac)));
    layer.document("LinkAliasConfig", Map::new().with("name", name.as_str()).with("selector", selector));
    let mtu = link.nic.mtu.map(number);
    let own = Map::new().with("name", name.as_str()).with_some("mtu", mtu.clone());
    let carrier = match link.vlan {
        None => {
            layer.document("LinkConfig", with_contents(own, &link.carries));
            name
        }
        Some(id) => {
            // Named here, so that Talos asks no DHCP server outside of the VLAN.
            layer.document("LinkConfig", own.with("up", true));
            let vlan_name = format!("{name}.{id}");
            let vlan = Map::new()
                .with("name", vlan_name.as_str())
                .with("vlanID", id)
                .with("parent", name)
                .with_some("mtu", mtu);
            layer.document("VLANConfig", with_contents(vlan, &link.carries));
            vlan_name
        }
    };
    if let Carries::Dhcp { ipv4, ipv6, .. } = &link.carries {
        for (kind, wanted) in [("DHCPv4Config", ipv4), ("DHCPv6Config", ipv6)] {
            if *wanted {
                layer.document(kind, Map::new().with("name", carrier.as_str()));
            }
        }
    }
    for address in &link.virtual_addresses {
        let body = Map::new().with("name", address.to_string()).with("link", carrier.as_str());
        layer.document("Layer2VIPConfig", body);
    }
}

fn with_contents(link: Map, carries: &Carries) -> Map {
    let filled = |list: Vec<Map>| (!list.is_empty()).then(|| maps(list));
    match carries {
        Carries::Static { addresses, gateways, routes } => {
            let default = gateways.iter().map(|gateway| Map::new().with("gateway", gateway.to_string()));
            let routes = default.chain(routes.iter().map(route)).collect();
            link.with_some("addresses", filled(addresses.iter().map(address).collect()))
                .with_some("routes", filled(routes))
        }
        Carries::Dhcp { routes, .. } => link.with_some("routes", filled(routes.iter().map(route).collect())),
        Carries::Nothing => link,
    }
}

fn address(cidr: &Cidr) -> Map {
    Map::new().with("address", cidr.to_string())
}

fn route(route: &Route) -> Map {
    Map::new()
        .with("destination", route.network.network().to_string())
        .with("gateway", route.gateway.to_string())
        .with_some("metric", route.metric.map(number))
}

#[cfg(test)]
mod tests {
    use talmox_machine::Value;

    use super::*;

    #[test]
    fn destinations_are_networks_without_host_bits() {
        let given = Route {
            network: Cidr::parse("10.9.1.1/16").unwrap(),
            gateway: "10.0.7.254".parse().unwrap(),
            metric: Some(50),
        };
        let said = Value::Map(route(&given));
        assert_eq!(said.at(&["destination"]).and_then(Value::as_text), Some("10.9.0.0/16"));
        assert_eq!(said.at(&["metric"]).and_then(Value::as_integer), Some(50));
    }
}
