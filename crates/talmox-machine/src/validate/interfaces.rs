//! `machine.network`.

use std::collections::BTreeMap;

use base64::Engine as _;

use super::{Checker, flag, is_address_or_prefix, list, machine::filters, number, text};
use crate::document::Document;
use crate::scalar::{address, prefix};
use crate::value::{Map, Value};

const SMALLEST_KUBESPAN_MTU: i128 = 1280;

pub(super) fn check(checker: &mut Checker<'_>) {
    let Some(document) = checker.legacy() else { return };
    let Some(network) = document.at(&["machine", "network"]).and_then(Value::as_map) else { return };
    let interfaces: Vec<&Map> = list(network, "interfaces").iter().filter_map(Value::as_map).collect();
    let masters = masters(checker, document, &interfaces);
    for (index, interface) in interfaces.iter().enumerate().filter(|(_, one)| !flag(one, "ignore")) {
        let path = format!("machine.network.interfaces[{index}]");
        identity(checker, document, interface, &path);
        addressing(checker, document, interface, &path, masters.contains_key(text(interface, "interface")));
        routes(checker, document, interface, &path);
        virtual_address(checker, document, interface, &path);
        if let Some(bond) = interface.get("bond").and_then(Value::as_map) {
            self::bond(checker, document, bond, &format!("{path}.bond"));
        }
        if let Some(wireguard) = interface.get("wireguard").and_then(Value::as_map) {
            keys(checker, document, wireguard, &format!("{path}.wireguard."));
        }
        for (number, vlan) in list(interface, "vlans").iter().filter_map(Value::as_map).enumerate() {
            let path = format!("{path}.vlans[{number}]");
            addressing(checker, document, vlan, &path, false);
            virtual_address(checker, document, vlan, &path);
        }
    }
    kubespan(checker, document, network);
}

/// Which link is part of which other.
fn masters(checker: &mut Checker<'_>, document: &Document, interfaces: &[&Map]) -> BTreeMap<String, String> {
    let mut masters = BTreeMap::new();
    for (index, interface) in interfaces.iter().enumerate() {
        let path = format!("machine.network.interfaces[{index}]");
        let part = |key: &str| interface.get(key).and_then(Value::as_map);
        if part("bond").is_some() && part("bridge").is_some() {
            checker.error(document, path.as_str(), "is a bond or a bridge, not both");
        }
        if part("bond")
            .is_some_and(|b| !list(b, "interfaces").is_empty() && !list(b, "deviceSelectors").is_empty())
        {
            checker.error(document, format!("{path}.bond"), "has interfaces or deviceSelectors, not both");
        }
        let members = ["bond", "bridge"].into_iter().filter_map(part).flat_map(|one| list(one, "interfaces"));
        for member in members.filter_map(Value::as_text) {
            let mine = text(interface, "interface").to_owned();
            let other = masters.insert(member.to_owned(), mine.clone());
            if other.is_some_and(|other| other != mine) {
                checker.error(document, path.as_str(), format!("{member} is part of two links"));
            }
        }
    }
    masters
}

fn identity(checker: &mut Checker<'_>, document: &Document, interface: &Map, path: &str) {
    let named = !text(interface, "interface").is_empty();
    let selector = interface.get("deviceSelector").and_then(Value::as_map);
    if named == selector.is_some() {
        checker.error(document, path, "needs either interface or deviceSelector");
    }
    if selector.is_some_and(Map::is_empty) {
        checker.error(document, format!("{path}.deviceSelector"), "is empty");
    }
}

fn addressing(checker: &mut Checker<'_>, document: &Document, link: &Map, path: &str, is_part: bool) {
    let addresses = list(link, "addresses");
    let cidr = text(link, "cidr");
    for (index, one) in addresses.iter().enumerate() {
        if !one.as_text().is_some_and(is_address_or_prefix) {
            checker.error(document, format!("{path}.addresses[{index}]"), "is no address");
        }
    }
    if !cidr.is_empty() {
        checker.warn(document, format!("{path}.cidr"), "is outdated; use addresses");
        if !addresses.is_empty() {
            checker.error(document, format!("{path}.cidr"), "excludes addresses");
        }
        if !is_address_or_prefix(cidr) {
            checker.error(document, format!("{path}.cidr"), "is no address");
        }
    }
    let has_own = flag(link, "dhcp") || !cidr.is_empty() || !addresses.is_empty() || link.contains("vip");
    if is_part && has_own {
        checker.error(document, path, "is part of a bond or bridge and so has no addresses of its own");
    }
}

fn virtual_address(checker: &mut Checker<'_>, document: &Document, link: &Map, path: &str) {
    let Some(vip) = link.get("vip").and_then(Value::as_map) else { return };
    if !checker.is_control_plane() {
        checker.error(document, format!("{path}.vip"), "is for control planes only");
    }
    if address(text(vip, "ip")).is_none() {
        checker.error(document, format!("{path}.vip.ip"), "is no address");
    }
}

fn routes(checker: &mut Checker<'_>, document: &Document, interface: &Map, path: &str) {
    for (index, route) in list(interface, "routes").iter().filter_map(Value::as_map).enumerate() {
        let path = format!("{path}.routes[{index}]");
        let (network, gateway, source) =
            (text(route, "network"), text(route, "gateway"), text(route, "source"));
        if network.is_empty() && gateway.is_empty() {
            checker.error(document, path.as_str(), "needs network or gateway");
        }
        if !network.is_empty() && prefix(network).is_none() {
            checker.error(document, format!("{path}.network"), "is no subnet");
        }
        for (key, value) in [("gateway", gateway), ("source", source)] {
            if !value.is_empty() && address(value).is_none() {
                checker.error(document, format!("{path}.{key}"), "is no address");
            }
        }
    }
}

/// Which settings of a bond belong to which modes.
const BOND_SETTINGS: [(&str, &[&str], i128); 5] = [
    ("adActorSysPrio", &["802.3ad"], 0),
    ("adUserPortKey", &["802.3ad"], 0),
    ("packetsPerSlave", &["balance-rr", ""], 1),
    ("tlbDynamicLb", &["balance-tlb", "balance-alb"], 0),
    ("arpInterval", &["balance-rr", "active-backup", "balance-xor", "broadcast", ""], 0),
];

fn bond(checker: &mut Checker<'_>, document: &Document, bond: &Map, path: &str) {
    const MODES: [&str; 8] = [
        "",
        "balance-rr",
        "active-backup",
        "balance-xor",
        "broadcast",
        "802.3ad",
        "balance-tlb",
        "balance-alb",
    ];
    let mode = text(bond, "mode");
    if !MODES.contains(&mode) {
        checker.error(document, format!("{path}.mode"), "is no mode of a bond");
    }
    let monitor = number(bond, "miimon");
    for key in ["updelay", "downdelay"] {
        let delay = number(bond, key);
        let multiple = if monitor == 0 { delay == 0 } else { delay % monitor == 0 };
        if !multiple {
            checker.error(document, format!("{path}.{key}"), "is a multiple of miimon");
        }
    }
    for (key, modes, most) in BOND_SETTINGS {
        if number(bond, key) > most && !modes.contains(&mode) {
            checker.error(document, format!("{path}.{key}"), format!("is not for the mode {mode}"));
        }
    }
    if !text(bond, "lacpRate").is_empty() && mode != "802.3ad" {
        checker.error(document, format!("{path}.lacpRate"), "is for the mode 802.3ad only");
    }
    if !text(bond, "primary").is_empty() && !["active-backup", "balance-tlb", "balance-alb"].contains(&mode) {
        checker.error(document, format!("{path}.primary"), format!("is not for the mode {mode}"));
    }
    for key in ["arpIPTarget", "adActorSystem"] {
        if bond.contains(key) {
            checker.error(document, format!("{path}.{key}"), "Talos does not support it");
        }
    }
}

/// The message never shows a key.
pub(super) fn keys(checker: &mut Checker<'_>, document: &Document, wireguard: &Map, prefix: &str) {
    if !is_wireguard_key(text(wireguard, "privateKey")) {
        checker.error(document, format!("{prefix}privateKey"), "is 32 bytes in base64");
    }
    for (index, peer) in list(wireguard, "peers").iter().filter_map(Value::as_map).enumerate() {
        if !is_wireguard_key(text(peer, "publicKey")) {
            checker.error(document, format!("{prefix}peers[{index}].publicKey"), "is 32 bytes in base64");
        }
    }
}

pub(super) fn is_wireguard_key(text: &str) -> bool {
    base64::engine::general_purpose::STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == 32)
}

fn kubespan(checker: &mut Checker<'_>, document: &Document, network: &Map) {
    let Some(kubespan) = network.get("kubespan").and_then(Value::as_map) else { return };
    if !flag(kubespan, "enabled") {
        return;
    }
    kubespan_settings(checker, document, kubespan, "machine.network.kubespan.");
}

/// The settings of KubeSpan, in either layout.
pub(super) fn kubespan_settings(
    checker: &mut Checker<'_>,
    document: &Document,
    kubespan: &Map,
    prefix: &str,
) {
    if kubespan.contains("mtu") && number(kubespan, "mtu") < SMALLEST_KUBESPAN_MTU {
        checker.error(document, format!("{prefix}mtu"), format!("is at least {SMALLEST_KUBESPAN_MTU}"));
    }
    let endpoints =
        kubespan.get("filters").and_then(|value| value.at(&["endpoints"])).and_then(Value::as_list);
    filters(checker, document, endpoints.unwrap_or_default(), &format!("{prefix}filters.endpoints"));
}
