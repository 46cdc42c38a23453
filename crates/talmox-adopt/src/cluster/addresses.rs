//! The addresses a machine is described with: the one it was asked at, and the one of the other family beside it.

use std::net::IpAddr;

use talmox_machine::{Config, Value};
use talmox_types::Cidr;

use super::LiveNode;

/// Addresses of one machine, with the length of the prefix where that is known; the first is the one that counts.
pub(super) type Addresses = Vec<(IpAddr, Option<u8>)>;

/// Those of a machine, in the order its configuration has them: rendered, they come in the same.
pub(super) fn of(node: &LiveNode) -> Addresses {
    let own = (node.address, node.prefix);
    let drive = node.vm.as_ref().map(|vm| vm.addresses.clone()).unwrap_or_default();
    let mut lists = links(&node.config).chain([drive]);
    let beside = lists.find(|list| list.iter().any(|(address, _)| *address == node.address));
    let beside = beside.unwrap_or_default();
    let place = |wanted: IpAddr| beside.iter().position(|(address, _)| *address == wanted);
    let other = beside.iter().find(|(address, _)| address.is_ipv4() != node.address.is_ipv4());
    match other {
        Some(other) if place(other.0) < place(own.0) => vec![(other.0, Some(other.1)), own],
        Some(other) => vec![own, (other.0, Some(other.1))],
        None => vec![own],
    }
}

/// Static addresses of each link, in either layout.
fn links(config: &Config) -> impl Iterator<Item = Vec<(IpAddr, u8)>> + '_ {
    let entries = |list: Option<&Value>| list.and_then(Value::as_list).unwrap_or_default().to_vec();
    let network = |text: &Value| {
        let cidr = Cidr::parse(text.as_text()?).ok()?;
        Some((cidr.address(), cidr.prefix()))
    };
    let documents = config.of_kind("LinkConfig").map(move |link| {
        let addresses = entries(link.at(&["addresses"]));
        addresses.iter().filter_map(|entry| network(entry.at(&["address"])?)).collect::<Vec<_>>()
    });
    let interfaces = entries(config.at(&["machine", "network", "interfaces"]));
    let legacy = interfaces.into_iter().map(move |interface| {
        entries(interface.at(&["addresses"])).iter().filter_map(network).collect::<Vec<_>>()
    });
    documents.chain(legacy)
}
