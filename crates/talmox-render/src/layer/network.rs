//! Name, links, name servers and time.

use std::net::IpAddr;

use talmox_machine::Map;
use talmox_types::Cidr;
use talmox_types::desired::{NetworkMode, Nic, Route};

use super::{Layer, interfaces, is_control_plane, links, maps, since, texts};
use crate::inputs::Inputs;
use crate::render::RenderError;

/// The release whose layout has documents for the network.
const DOCUMENTS: u16 = 12;

pub(super) fn add(layer: &mut Layer, inputs: &Inputs<'_>) -> Result<(), RenderError> {
    let name = inputs.node.name.as_str();
    let network = &inputs.desired.network;
    let links: Vec<Link<'_>> = inputs.node.vm.nics.iter().map(|nic| Link::of(inputs, nic)).collect();
    if since(inputs, DOCUMENTS) {
        layer.document("HostnameConfig", Map::new().with("auto", "off").with("hostname", name));
        if !network.dns_servers.is_empty() {
            let servers =
                network.dns_servers.iter().map(|server| Map::new().with("address", server.to_string()));
            layer.document("ResolverConfig", Map::new().with("nameservers", maps(servers)));
        }
        if !network.ntp_servers.is_empty() {
            let servers = Map::new().with("servers", network.ntp_servers.clone());
            layer.document("TimeSyncConfig", Map::new().with("ntp", servers));
        }
        links::add(layer, &links);
        return Ok(());
    }
    layer.set(&["machine", "network", "hostname"], name);
    if !network.dns_servers.is_empty() {
        layer.set(&["machine", "network", "nameservers"], texts(&network.dns_servers));
    }
    if !network.ntp_servers.is_empty() {
        layer.set(&["machine", "time", "servers"], network.ntp_servers.clone());
    }
    interfaces::add(layer, inputs, &links)
}

/// A network device and what is on it.
pub(super) struct Link<'a> {
    pub nic: &'a Nic,
    pub carries: Carries,
    /// A VLAN inside the guest that all of it is on.
    pub vlan: Option<u16>,
    pub virtual_addresses: Vec<IpAddr>,
}

pub(super) enum Carries {
    Static {
        addresses: Vec<Cidr>,
        gateways: Vec<IpAddr>,
        routes: Vec<Route>,
    },
    Dhcp {
        ipv4: bool,
        ipv6: bool,
        routes: Vec<Route>,
    },
    /// Nothing is said of it; Talos tries DHCP.
    Nothing,
}

impl<'a> Link<'a> {
    /// The first device carries the node's address, others what they are given.
    fn of(inputs: &Inputs<'a>, nic: &'a Nic) -> Self {
        if nic.slot == 0 { Self::first(inputs, nic) } else { Self::further(inputs, nic) }
    }

    fn first(inputs: &Inputs<'a>, nic: &'a Nic) -> Self {
        let network = &inputs.desired.network;
        let address = inputs.whereabouts.address;
        let routes = routes_by(inputs, |gateway| network.node_cidr.iter().any(|one| one.contains(gateway)));
        let carries = match inputs.node.vm.network_mode {
            NetworkMode::Static => Carries::Static {
                addresses: address
                    .iter()
                    .filter_map(|address| {
                        let length = network.node_cidr.of_family(&address)?.prefix();
                        Cidr::new(address, length)
                    })
                    .collect(),
                gateways: address.iter().filter_map(|address| network.gateway.of_family(&address)).collect(),
                routes,
            },
            NetworkMode::Dhcp => {
                Carries::Dhcp { ipv4: address.ipv4().is_some(), ipv6: address.ipv6().is_some(), routes }
            }
        };
        let shared = network.vip.filter(|_| is_control_plane(inputs));
        let virtual_addresses = shared.iter().flat_map(talmox_types::FamilyPair::iter).collect();
        Self { nic, carries, vlan: network.guest_vlan, virtual_addresses }
    }

    fn further(inputs: &Inputs<'a>, nic: &'a Nic) -> Self {
        let routes = routes_by(inputs, |gateway| nic.addresses.iter().any(|one| one.contains(gateway)));
        let carries = if nic.addresses.is_empty() {
            Carries::Nothing
        } else {
            Carries::Static { addresses: nic.addresses.clone(), gateways: Vec::new(), routes }
        };
        Self { nic, carries, vlan: None, virtual_addresses: Vec::new() }
    }

    /// Whether there is anything to say about it.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.carries, Carries::Nothing) && self.nic.mtu.is_none()
    }
}

/// Routes whose gateway a link reaches.
fn routes_by(inputs: &Inputs<'_>, reaches: impl Fn(IpAddr) -> bool) -> Vec<Route> {
    inputs.desired.network.routes.iter().filter(|route| reaches(route.gateway)).cloned().collect()
}
