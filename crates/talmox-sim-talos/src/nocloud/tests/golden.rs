//! What Talos itself makes of network configurations, beside what is made of them here.

use std::path::PathBuf;

use talmox_machine::{Map, Source, Value, read_values};

use super::super::model::{Bond, Kind, Links, PlatformLink, PlatformNetwork, Route};
use super::super::{Seed, read_network};

/// The folder of recorded data; none, with a word about it, where it is not at hand.
pub(crate) fn shared_data() -> Option<PathBuf> {
    let folder = std::env::var_os("TALMOX_SHARED_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no ../shared/data");
    println!("skipped: no ../shared/data");
    None
}

#[expect(clippy::disallowed_methods, reason = "recorded data is no description")]
fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn value(text: &str) -> Value {
    read_values(Source { name: "golden", text }).unwrap().remove(0)
}

/// The machine the recordings were made for.
fn links() -> Links {
    let known = [
        ("eth0", "68:05:ca:b8:f1:f7"),
        ("eth1", "68:05:ca:b8:f1:f8"),
        ("eth2", "68:05:ca:b8:f1:f9"),
        ("eno1np0", "3c:ec:ef:e0:45:28"),
        ("eno2np1", "3c:ec:ef:e0:45:29"),
    ];
    Links(known.map(|(name, mac)| (name.to_owned(), mac.to_owned())).to_vec())
}

fn list(items: impl Iterator<Item = Map>) -> Value {
    Value::List(items.map(Value::Map).collect())
}

fn number(number: u32) -> Value {
    Value::Integer(number.into())
}

fn family(six: bool) -> &'static str {
    if six { "inet6" } else { "inet4" }
}

/// The network as the recordings write it.
fn rendered(network: &PlatformNetwork) -> Value {
    let addresses = network.addresses.iter().map(|one| {
        Map::new()
            .with("address", one.address.as_str())
            .with("linkName", one.link.as_str())
            .with("family", family(one.address.contains(':')))
            .with("scope", "global")
            .with("flags", "permanent")
            .with("layer", "platform")
    });
    let full = network.hostname.clone().unwrap_or_default();
    let (name, domain) = full.split_once('.').unwrap_or((&full, ""));
    let hostname = Map::new().with("hostname", name).with("domainname", domain).with("layer", "platform");
    let operators = network.dhcp.iter().map(|link| {
        Map::new()
            .with("operator", "dhcp4")
            .with("linkName", link.as_str())
            .with("requireUp", true)
            .with("dhcp4", Map::new().with("routeMetric", number(1024)))
            .with("layer", "platform")
    });
    let metadata = Map::new()
        .with("platform", "nocloud")
        .with("hostname", full.as_str())
        .with("instanceId", network.instance.clone().unwrap_or_default())
        .with("internalDNS", full.as_str());
    Value::Map(
        Map::new()
            .with("addresses", list(addresses))
            .with("links", list(network.links.iter().map(link)))
            .with("routes", list(network.routes.iter().map(route)))
            .with("hostnames", list([hostname].into_iter()))
            .with("resolvers", resolvers(&network.resolvers))
            .with("timeServers", Value::List(Vec::new()))
            .with("operators", list(operators))
            .with("externalIPs", Value::List(Vec::new()))
            .with("metadata", metadata),
    )
}

fn resolvers(servers: &[String]) -> Value {
    if servers.is_empty() {
        return Value::List(Vec::new());
    }
    let named = servers.iter().map(|address| {
        Map::new().with("addr", address.as_str()).with("protocol", "Do53").with("tlsServerName", "")
    });
    let plain = servers.iter().map(|address| Value::text(address.as_str())).collect();
    let one = Map::new()
        .with("dnsServers", Value::List(plain))
        .with("nameServers", list(named))
        .with("layer", "platform");
    list([one].into_iter())
}

fn link(link: &PlatformLink) -> Map {
    let (logical, kind, of) = match &link.kind {
        Kind::Physical => (false, "", "netrom"),
        Kind::Bond(_) => (true, "bond", "ether"),
        Kind::Vlan { .. } => (true, "vlan", "ether"),
    };
    let map = Map::new()
        .with("name", link.name.as_str())
        .with("logical", logical)
        .with("up", true)
        .with("mtu", number(link.mtu))
        .with("kind", kind)
        .with("type", of);
    let map = match &link.kind {
        Kind::Physical => {
            map.with_some("masterName", link.master.as_ref().map(|(master, _)| master.as_str())).with_some(
                "slaveIndex",
                link.master.as_ref().filter(|(_, at)| *at > 0).map(|(_, at)| Value::Integer(*at as i128)),
            )
        }
        Kind::Bond(one) => map.with("bondMaster", bond(one)),
        Kind::Vlan { parent, number: id } => map
            .with("parentName", parent.as_str())
            .with("vlan", Map::new().with("vlanID", number(u32::from(*id))).with("vlanProtocol", "802.1q")),
    };
    map.with("layer", "platform")
}

/// What a bond has besides what it was told.
fn bond(bond: &Bond) -> Map {
    let delay = |length: u32| (length > 0).then(|| number(length));
    Map::new()
        .with("mode", bond.mode.as_str())
        .with("xmitHashPolicy", bond.hash_policy.as_str())
        .with("lacpRate", bond.lacp_rate.as_str())
        .with("arpValidate", "none")
        .with("arpAllTargets", "any")
        .with("primaryReselect", "always")
        .with("failOverMac", "none")
        .with("miimon", number(bond.monitor))
        .with_some("updelay", delay(bond.up_delay))
        .with_some("downdelay", delay(bond.down_delay))
        .with("resendIgmp", number(1))
        .with("lpInterval", number(1))
        .with("packetsPerSlave", number(1))
        .with("numPeerNotif", number(1))
        .with("tlbLogicalLb", number(1))
        .with("useCarrier", true)
        .with("adActorSysPrio", number(65_535))
        .with("adLacpActive", "on")
}

fn route(route: &Route) -> Map {
    let scope = if route.gateway.is_some() { "global" } else { "link" };
    Map::new()
        .with("family", family(route.family == 6))
        .with("dst", route.destination.clone().unwrap_or_default())
        .with("src", "")
        .with("gateway", route.gateway.clone().unwrap_or_default())
        .with("outLinkName", route.link.as_str())
        .with("table", "main")
        .with("priority", number(route.priority))
        .with("scope", scope)
        .with("type", "unicast")
        .with("flags", "")
        .with("protocol", "static")
        .with("layer", "platform")
}

#[test]
fn network_configurations_mean_what_they_mean_to_talos() {
    let Some(folder) = shared_data() else { return };
    let folder = folder.join("talos-golden");
    let vectors = value(&read(&folder.join("vectors.yaml")));
    let vectors = vectors.at(&["nocloud"]).and_then(Value::as_list).unwrap();
    assert!(!vectors.is_empty());
    for vector in vectors {
        let file = |key: &str| read(&folder.join(vector.at(&[key]).and_then(Value::as_text).unwrap()));
        let seed = Seed {
            network_config: Some(file("in").into_bytes()),
            meta_data: Some(b"hostname: talos.fqdn\ninstance-id: 0\n".to_vec()),
            ..Seed::default()
        };
        let made = rendered(&seed.network_with(&links()).unwrap());
        let expected = value(&file("expected"));
        let (made, expected) = (talmox_machine::print(&made), talmox_machine::print(&expected));
        assert_eq!(made, expected, "{:?}", vector.at(&["in"]).and_then(Value::as_text));
    }
}

#[test]
fn meta_data_names_a_node() {
    let Some(folder) = shared_data() else { return };
    let meta = read(&folder.join("talos-golden/nocloud/metadata-nocloud.yaml"));
    let seed = Seed {
        meta_data: Some(meta.into_bytes()),
        network_config: Some(b"version: 1\n".to_vec()),
        ..Seed::default()
    };
    let network = seed.network_with(&links()).unwrap();
    assert_eq!(network.hostname.as_deref(), Some("talos-worker-3"));
    assert_eq!(network.instance.as_deref(), Some("80d6927ecb30c1707b12f38ed1211535930ff16e"));
}

#[test]
fn other_versions_are_refused() {
    assert!(read_network(b"version: 3\n", &links()).is_err());
    assert!(read_network(b": [", &links()).is_err());
}
