//! Kubernetes documents.

use std::net::IpAddr;

use secrecy::SecretString;
use talmox_types::{Version, support};

use super::{Checker, list, machine, number, text};
use crate::document::Document;
use crate::pki::{Certificate, PrivateKey};
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
    legacy_images(checker);
    for document in checker.config.documents() {
        match document.kind() {
            "KubeClusterConfig" if text(&document.body, "endpoint").is_empty() => {
                checker.error(document, "endpoint", "is missing");
            }
            "KubeAPIServerCAConfig" | "KubeAggregatorCAConfig" => authority(checker, document),
            "KubeServiceAccountConfig" => {
                let key = document.at(&["issuer", "privateKey"]).and_then(Value::as_text).unwrap_or_default();
                private_key(checker, document, key, "issuer.privateKey");
            }
            "KubeNodeConfig" => node(checker, document),
            "KubeletConfig" => kubelet(checker, document),
            "KubeNetworkConfig" => network(checker, document),
            "KubeAPIServerConfig" => api_server(checker, document),
            "KubeControllerManagerConfig" | "KubeSchedulerConfig" => image(checker, document),
            "KubeProxyConfig" if document.body.contains("image") => image(checker, document),
            _ => {}
        }
        if let Some(asked) = document.at(&["resources"]).filter(|_| document.kind().starts_with("Kube")) {
            resources(checker, document, asked, "resources");
        }
    }
}

fn private_key(checker: &mut Checker<'_>, document: &Document, pem: &str, path: &str) {
    if PrivateKey::parse(SecretString::from(pem)).is_err() {
        checker.error(document, path, "is no private key in PEM");
    }
}

/// Certificates are plain PEM here, and a control plane signs with the key.
fn authority(checker: &mut Checker<'_>, document: &Document) {
    if let Some(pair) = document.at(&["issuingCA"]).and_then(Value::as_map) {
        if Certificate::parse(text(pair, "cert")).is_err() {
            checker.error(document, "issuingCA.cert", "is no certificate in PEM");
        }
        private_key(checker, document, text(pair, "key"), "issuingCA.key");
    }
    for (index, one) in list(&document.body, "acceptedCAs").iter().enumerate() {
        if one.as_text().is_none_or(|pem| Certificate::parse(pem).is_err()) {
            checker.error(document, format!("acceptedCAs[{index}]"), "is no certificate in PEM");
        }
    }
}

fn image(checker: &mut Checker<'_>, document: &Document) {
    if document.at(&["enabled"]).and_then(Value::as_bool) == Some(false) {
        return;
    }
    let image = text(&document.body, "image");
    if image.is_empty() {
        checker.error(document, "image", "is missing");
    } else {
        version(checker, document, image, "image");
    }
}

/// Pods of the control plane ask for processors and memory.
pub(super) fn resources(checker: &mut Checker<'_>, document: &Document, resources: &Value, path: &str) {
    for part in ["requests", "limits"] {
        let asked = resources.at(&[part]).and_then(Value::as_map);
        for name in asked.into_iter().flat_map(Map::keys).filter(|name| !["cpu", "memory"].contains(name)) {
            checker.error(document, format!("{path}.{part}.{name}"), "is neither cpu nor memory");
        }
    }
}

/// Each line of Talos runs some versions of Kubernetes, which it reads from the tags of images.
pub(super) fn version(checker: &mut Checker<'_>, document: &Document, image: &str, path: &str) {
    let tag = image.rsplit_once(":v").map(|(_, tag)| tag.split('@').next().unwrap_or_default());
    let Some(version) = tag.and_then(|tag| Version::parse(tag).ok()) else {
        checker.error(document, path, "has no tag with the version of Kubernetes");
        return;
    };
    let line = support::LINES.iter().find(|line| line.talos == checker.talos);
    if line.is_some_and(|line| !line.supports(&version)) {
        let message = format!("Talos {} does not run Kubernetes {version}", checker.talos);
        checker.error(document, path, message);
    }
}

/// Images in the document with `machine` and `cluster`.
fn legacy_images(checker: &mut Checker<'_>) {
    let Some(document) = checker.legacy() else { return };
    let mut paths: Vec<&[&str]> = vec![&["machine", "kubelet", "image"]];
    if checker.is_control_plane() {
        paths.extend([
            &["cluster", "apiServer", "image"][..],
            &["cluster", "controllerManager", "image"],
            &["cluster", "scheduler", "image"],
        ]);
    }
    for path in paths {
        if let Some(image) = document.at(path).and_then(Value::as_text) {
            version(checker, document, image, &path.join("."));
        }
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
