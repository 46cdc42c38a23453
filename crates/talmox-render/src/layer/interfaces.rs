//! Links as `machine.network.interfaces`, up to contract 1.11.

use talmox_machine::{Map, Value};
use talmox_types::Cidr;
use talmox_types::desired::Route;

use super::network::{Carries, Link};
use super::{Layer, maps, number, texts};
use crate::inputs::Inputs;
use crate::render::RenderError;

/// The priority Talos gives routes it learns by DHCP, where nothing else is said.
const DHCP_METRIC: u16 = 1024;

pub(super) fn add(layer: &mut Layer, inputs: &Inputs<'_>, links: &[Link<'_>]) -> Result<(), RenderError> {
    let mut interfaces = Vec::new();
    for link in links.iter().filter(|link| !link.is_idle()) {
        interfaces.push(interface(inputs, link)?);
    }
    layer.set(&["machine", "network", "interfaces"], maps(interfaces));
    Ok(())
}

fn interface(inputs: &Inputs<'_>, link: &Link<'_>) -> Result<Map, RenderError> {
    // By MAC, as in documents; a VLAN on top has the same one, so only the device itself may match.
    let selector =
        Map::new().with("hardwareAddr", link.nic.mac.to_string().to_ascii_lowercase()).with("physical", true);
    let mtu = link.nic.mtu.map(number);
    let own = Map::new().with("deviceSelector", selector).with_some("mtu", mtu.clone());
    let shared = virtual_address(inputs, link)?;
    let Some(id) = link.vlan else {
        return Ok(with_contents(own, &link.carries).with_some("vip", shared));
    };
    let vlan = Map::new().with("vlanId", id).with_some("mtu", mtu);
    let vlan = with_contents(vlan, &link.carries).with_some("vip", shared);
    Ok(own.with("dhcp", false).with("vlans", maps([vlan])))
}

/// This layout has room for one.
fn virtual_address(inputs: &Inputs<'_>, link: &Link<'_>) -> Result<Option<Map>, RenderError> {
    match link.virtual_addresses.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(Map::new().with("ip", one.to_string()))),
        _ => Err(RenderError::TwoVirtualAddresses(inputs.desired.talos.contract)),
    }
}

fn with_contents(interface: Map, carries: &Carries) -> Map {
    match carries {
        Carries::Static { addresses, gateways, routes } => {
            let default = gateways.iter().map(|gateway| {
                let network = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
                Map::new().with("network", network).with("gateway", gateway.to_string())
            });
            let routes = maps(default.chain(routes.iter().map(route)));
            let interface = interface.with("addresses", texts(addresses.iter().map(Cidr::to_string)));
            with_routes(interface, routes).with("dhcp", false)
        }
        Carries::Dhcp { ipv4, ipv6, routes } => {
            let options = Map::new().with("routeMetric", DHCP_METRIC).with("ipv4", *ipv4).with("ipv6", *ipv6);
            let interface = with_routes(interface, maps(routes.iter().map(route))).with("dhcp", true);
            // DHCP means IPv4 unless somebody says otherwise.
            if *ipv6 { interface.with("dhcpOptions", options) } else { interface }
        }
        Carries::Nothing => interface,
    }
}

fn with_routes(interface: Map, routes: Value) -> Map {
    let some = routes.as_list().is_some_and(|list| !list.is_empty());
    interface.with_some("routes", some.then_some(routes))
}

fn route(route: &Route) -> Map {
    Map::new()
        .with("network", route.network.network().to_string())
        .with("gateway", route.gateway.to_string())
        .with_some("metric", route.metric.map(number))
}
