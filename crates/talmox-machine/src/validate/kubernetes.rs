//! Kubernetes documents.

use std::net::IpAddr;

use super::{Checker, cluster, list, machine, number, text};
use crate::document::Document;
use crate::value::{Map, Value};

/// Arguments of the API server that documents of their own stand for.
const API_SERVER_ARGUMENTS: [&str; 6] = [
    "anonymous-auth",
    "oidc-",
    "authentication-config",
    "authorization-config",
    "authorization-mode",
    "authorization-webhook-",
];

pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        match document.kind() {
            "KubeClusterConfig" if !cluster::is_endpoint(text(&document.body, "endpoint")) => {
                checker.error(document, "endpoint", "is https:// and a host");
            }
            "KubeNodeConfig" => node(checker, document),
            "KubeletConfig" => kubelet(checker, document),
            "KubeNetworkConfig" => network(checker, document),
            "KubeAPIServerConfig" => api_server(checker, document),
            "KubeControllerManagerConfig" | "KubeSchedulerConfig" => image(checker, document),
            _ => {}
        }
    }
}

fn image(checker: &mut Checker<'_>, document: &Document) {
    if text(&document.body, "image").is_empty() {
        checker.error(document, "image", "is missing");
    }
}

fn node(checker: &mut Checker<'_>, document: &Document) {
    let subnets = document.at(&["nodeIP", "validSubnets"]).and_then(Value::as_list).unwrap_or_default();
    machine::filters(checker, document, subnets, "nodeIP.validSubnets");
    machine::node_metadata(checker, document, &document.body, ["labels", "annotations", "taints"], "");
}

fn kubelet(checker: &mut Checker<'_>, document: &Document) {
    image(checker, document);
    if let Some(config) = document.at(&["config"]).and_then(Value::as_map) {
        machine::protected(checker, document, config, "config");
    }
}

fn api_server(checker: &mut Checker<'_>, document: &Document) {
    image(checker, document);
    let arguments = document.at(&["extraArgs"]).and_then(Value::as_map);
    for name in arguments.into_iter().flat_map(Map::keys) {
        if API_SERVER_ARGUMENTS.iter().any(|refused| name.starts_with(refused)) {
            checker.error(document, format!("extraArgs.{name}"), "has a document of its own");
        }
    }
}

/// The number of addresses a subnet may be split into by the controller manager, as a power of two.
const LARGEST_SPLIT: i128 = 16;

fn network(checker: &mut Checker<'_>, document: &Document) {
    let pods = subnets(checker, document, "podSubnets");
    let services = subnets(checker, document, "serviceSubnets");
    if list(&document.body, "podSubnets").len() != list(&document.body, "serviceSubnets").len() {
        checker.error(document, "serviceSubnets", "are as many as podSubnets");
    }
    for (address, bits) in pods {
        let (key, default) =
            if address.is_ipv4() { ("nodeCIDRMaskSizeIPv4", 24) } else { ("nodeCIDRMaskSizeIPv6", 64) };
        let mask = if document.body.contains(key) { number(&document.body, key) } else { default };
        if mask < bits || mask > bits + LARGEST_SPLIT {
            checker.error(document, key, "does not fit the pod subnet: as long, or up to 16 longer");
        }
    }
    for (address, bits) in services {
        let hosts = if address.is_ipv4() { 32 } else { 128 } - bits;
        if hosts > 20 {
            checker.error(document, "serviceSubnets", "has more than 20 bits for hosts");
        }
    }
}

/// The subnets of a list: one or two, one per family, without bits for hosts set.
fn subnets(checker: &mut Checker<'_>, document: &Document, key: &str) -> Vec<(IpAddr, i128)> {
    let parsed: Vec<(IpAddr, i128)> = list(&document.body, key)
        .iter()
        .filter_map(|value| {
            let (address, bits) = value.as_text()?.split_once('/')?;
            Some((address.parse().ok()?, bits.parse().ok()?))
        })
        .collect();
    let families: Vec<bool> = parsed.iter().map(|(address, _)| address.is_ipv4()).collect();
    if !(1..=2).contains(&parsed.len()) || families.len() == 2 && families[0] == families[1] {
        checker.error(document, key, "is one subnet, or one of each family");
    }
    for (index, (address, bits)) in parsed.iter().enumerate() {
        let total: i128 = if address.is_ipv4() { 32 } else { 128 };
        if total - bits < 4 {
            checker.error(document, format!("{key}[{index}]"), "has less than 4 bits for hosts");
        }
        if has_host_bits(*address, *bits) {
            checker.error(document, format!("{key}[{index}]"), "has bits for hosts set");
        }
    }
    parsed
}

fn has_host_bits(address: IpAddr, bits: i128) -> bool {
    let (value, total) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let hosts = u32::try_from(total - bits).unwrap_or_default();
    let mask = 1_u128.checked_shl(hosts).map_or(u128::MAX, |shifted| shifted - 1);
    value & mask != 0
}
