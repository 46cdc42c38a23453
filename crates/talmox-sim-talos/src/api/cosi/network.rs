//! Resources about links, addresses and names.

use std::net::IpAddr;

use talmox_machine::Map;
use talmox_proto::common::NetIpPrefix;
use talmox_proto::definitions::{HostnameStatus, NetworkStatus, NodeAddress};

use super::View;
use super::resource::{Resource, texts};
use crate::machine::network::Address;

/// Lists of a node's addresses; with Kubernetes, each of them also without and with only its addresses.
const ADDRESS_LISTS: [&str; 3] = ["accumulative", "current", "routed"];

impl View<'_> {
    pub(super) fn network_resources(&self, kind: &str) -> Vec<Resource> {
        match kind {
            "LinkStatuses.net.talos.dev" => self.links(),
            "AddressStatuses.net.talos.dev" => self.addresses(),
            "NodeAddresses.net.talos.dev" => self.node_addresses(),
            "HostnameStatuses.net.talos.dev" => self.hostname(),
            "NetworkStatuses.net.talos.dev" => vec![self.network_status()],
            "ResolverStatuses.net.talos.dev" => vec![self.resolvers()],
            "RouteStatuses.net.talos.dev" => self.routes(),
            _ => Vec::new(),
        }
    }

    fn network_resource(&self, kind: &'static str, id: impl Into<String>, owner: &'static str) -> Resource {
        Resource::new(("network", kind), id, owner, self.run.started)
    }

    fn macs(&self) -> Vec<String> {
        let hardware = self.nodes.machines.get(&self.machine).map(|machine| &machine.hardware);
        hardware.into_iter().flat_map(|hardware| &hardware.nics).map(|nic| nic.mac.clone()).collect()
    }

    fn links(&self) -> Vec<Resource> {
        let owner = "network.LinkStatusController";
        let link = |name: String, mac: &str, kind: &str| {
            let map = Map::new()
                .with("type", kind)
                .with("hardwareAddr", mac)
                .with("operationalState", "up")
                .with("linkState", true);
            self.network_resource("LinkStatuses.net.talos.dev", name, owner).yaml(map)
        };
        let macs = self.macs();
        let cards = macs.iter().enumerate().map(|(at, mac)| link(format!("eth{at}"), mac, "ether"));
        cards.chain([link("lo".to_owned(), "", "loopback")]).collect()
    }

    fn addresses(&self) -> Vec<Resource> {
        let own = self.run.network.addresses.iter().map(|one| (one.link.clone(), one.ip, one.bits));
        let macs = self.macs();
        let local =
            macs.iter().enumerate().filter_map(|(at, mac)| Some((format!("eth{at}"), link_local(mac)?, 64)));
        let loopback =
            [("lo".to_owned(), IpAddr::from([127, 0, 0, 1]), 8), ("lo".to_owned(), LOOPBACK6, 128)];
        own.chain(local)
            .chain(loopback)
            .map(|(link, ip, bits)| {
                let address = format!("{ip}/{bits}");
                let id = format!("{link}/{address}");
                let map = Map::new()
                    .with("address", address)
                    .with("linkName", link)
                    .with("family", if ip.is_ipv4() { "inet4" } else { "inet6" })
                    .with("flags", "permanent");
                self.network_resource("AddressStatuses.net.talos.dev", id, "network.AddressStatusController")
                    .yaml(map)
            })
            .collect()
    }

    fn node_addresses(&self) -> Vec<Resource> {
        let all = &self.run.network.addresses;
        let main: Vec<&Address> = all.iter().take(1).collect();
        let every: Vec<&Address> = all.iter().collect();
        let mut found = vec![self.node_address("default", &main)];
        for name in ADDRESS_LISTS {
            found.push(self.node_address(name, &every));
            if self.run.active.is_some() {
                found.push(self.node_address(&format!("{name}-no-k8s"), &every));
                found.push(self.node_address(&format!("{name}-only-k8s"), &[]));
            }
        }
        found
    }

    fn node_address(&self, id: &str, addresses: &[&Address]) -> Resource {
        let prefix = |one: &&Address| NetIpPrefix { ip: octets(one.ip), prefix_length: i32::from(one.bits) };
        let proto = NodeAddress { addresses: addresses.iter().map(prefix).collect(), sort_algorithm: 0 };
        let shown = texts(addresses.iter().map(|one| format!("{}/{}", one.ip, one.bits)));
        self.network_resource("NodeAddresses.net.talos.dev", id, "network.NodeAddressController")
            .proto(&proto)
            .yaml(Map::new().with("addresses", shown).with("sortAlgorithm", "v1"))
    }

    /// From 1.14 on a node without a configuration that nobody gave a name has none yet.
    fn hostname(&self) -> Vec<Resource> {
        let network = &self.run.network;
        let unnamed = self.run.minor() >= 14 && self.run.active.is_none() && self.run.partial.is_none();
        if unnamed && self.run.is_container() {
            return Vec::new();
        }
        let proto = HostnameStatus { hostname: network.hostname.clone(), domainname: network.domain.clone() };
        let map =
            Map::new().with("hostname", proto.hostname.clone()).with("domainname", proto.domainname.clone());
        let resource = self.network_resource(
            "HostnameStatuses.net.talos.dev",
            "hostname",
            "network.HostnameSpecController",
        );
        vec![resource.proto(&proto).yaml(map)]
    }

    fn network_status(&self) -> Resource {
        let up = self.run.network.is_ready();
        let proto = NetworkStatus {
            address_ready: up,
            connectivity_ready: up,
            hostname_ready: true,
            etc_files_ready: true,
        };
        let map = Map::new()
            .with("addressReady", up)
            .with("connectivityReady", up)
            .with("hostnameReady", true)
            .with("etcFilesReady", true);
        self.network_resource("NetworkStatuses.net.talos.dev", "status", "network.StatusController")
            .proto(&proto)
            .yaml(map)
    }

    fn resolvers(&self) -> Resource {
        let map =
            Map::new().with("dnsServers", texts(self.gateway())).with("searchDomains", texts::<String>([]));
        self.network_resource("ResolverStatuses.net.talos.dev", "resolvers", "network.ResolverSpecController")
            .yaml(map)
    }

    /// The first address of the node's network.
    fn gateway(&self) -> Option<IpAddr> {
        match self.run.network.addresses.first()?.ip {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Some(IpAddr::from([a, b, c, 1]))
            }
            IpAddr::V6(_) => None,
        }
    }

    fn routes(&self) -> Vec<Resource> {
        let mut ids: Vec<String> =
            ["0/8/0", "1/32/0"].iter().map(|end| format!("local/inet4//127.0.0.{end}")).collect();
        ids.push("local/inet4//127.255.255.255/32/0".to_owned());
        ids.push("local/lo/inet6//::1/128/0".to_owned());
        // The node's own DNS server has an address of its own.
        if self.run.active.is_some() {
            ids.push("local/inet4//169.254.116.108/32/0".to_owned());
        }
        ids.extend(self.gateway().map(|gateway| format!("inet4/{gateway}//0")));
        for Address { ip, bits, .. } in &self.run.network.addresses {
            let IpAddr::V4(ip) = ip else { continue };
            let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
            let network = std::net::Ipv4Addr::from(u32::from(*ip) & mask);
            let broadcast = std::net::Ipv4Addr::from(u32::from(*ip) | !mask);
            ids.push(format!("inet4//{network}/{bits}/0"));
            ids.push(format!("local/inet4//{ip}/32/0"));
            ids.push(format!("local/inet4//{broadcast}/32/0"));
        }
        for (at, mac) in self.macs().iter().enumerate() {
            ids.push(format!("eth{at}/inet6//fe80::/64/256"));
            ids.push(format!("local/eth{at}/inet6//ff00::/8/256"));
            ids.extend(link_local(mac).map(|ip| format!("local/eth{at}/inet6//{ip}/128/0")));
        }
        let owner = "network.RouteStatusController";
        ids.into_iter()
            .map(|id| self.network_resource("RouteStatuses.net.talos.dev", id, owner).yaml(Map::new()))
            .collect()
    }
}

const LOOPBACK6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

pub(super) fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// The address a card makes of its hardware address.
fn link_local(mac: &str) -> Option<IpAddr> {
    let bytes =
        mac.split(':').map(|part| u8::from_str_radix(part, 16)).collect::<Result<Vec<u8>, _>>().ok()?;
    let (vendor, card) = bytes.split_at_checked(3).filter(|(_, card)| card.len() == 3)?;
    let mut host = [vendor, &[0xff, 0xfe], card].concat();
    host[0] ^= 2;
    let mut address = [0; 16];
    address[..2].copy_from_slice(&[0xfe, 0x80]);
    address[8..].copy_from_slice(&host);
    Some(IpAddr::from(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_have_an_address_of_their_own() {
        assert_eq!(
            link_local("52:54:00:00:00:20").map(|ip| ip.to_string()).as_deref(),
            Some("fe80::5054:ff:fe00:20")
        );
    }
}
