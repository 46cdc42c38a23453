//! `cluster`.

use std::collections::BTreeSet;

use super::{Checker, flag, has_key, list, machine::filters, text};
use crate::document::Document;
use crate::scalar::Url;
use crate::value::{Map, Value};

pub(super) fn check(checker: &mut Checker<'_>) {
    let Some(document) = checker.legacy() else { return };
    let Some(cluster) = document.at(&["cluster"]).and_then(Value::as_map) else {
        checker.error(document, "cluster", "is missing");
        return;
    };
    endpoint(checker, document, cluster);
    network(checker, document, cluster);
    etcd(checker, document, cluster);
    if !checker.is_control_plane() && cluster.get("ca").is_some_and(has_key) {
        checker.error(document, "cluster.ca.key", "only control planes may have it");
    }
    manifests(checker, document, cluster);
    let endpoint = cluster.get("controlPlane").and_then(|value| value.at(&["endpoint"]));
    if cluster.contains("serviceAccount") && endpoint.is_none() {
        checker.error(document, "cluster.serviceAccount", "needs cluster.controlPlane.endpoint beside it");
    }
    for component in ["apiServer", "controllerManager", "scheduler"] {
        if let Some(resources) = cluster.get(component).and_then(|value| value.at(&["resources"])) {
            super::kubernetes::resources(
                checker,
                document,
                resources,
                &format!("cluster.{component}.resources"),
            );
        }
    }
    discovery(checker, document, cluster);
    let provider = cluster.get("externalCloudProvider").and_then(Value::as_map);
    if provider.is_some_and(|provider| !flag(provider, "enabled") && !list(provider, "manifests").is_empty())
    {
        checker.error(
            document,
            "cluster.externalCloudProvider.manifests",
            "is of no use while it is not enabled",
        );
    }
}

fn endpoint(checker: &mut Checker<'_>, document: &Document, cluster: &Map) {
    let control_plane = cluster.get("controlPlane").and_then(Value::as_map);
    let endpoint = control_plane.map(|control_plane| text(control_plane, "endpoint"));
    match endpoint {
        None if !checker.since(14) => checker.error(document, "cluster.controlPlane.endpoint", "is missing"),
        Some("") => checker.error(document, "cluster.controlPlane.endpoint", "is missing"),
        Some(endpoint) if !is_endpoint(endpoint) => {
            checker.error(document, "cluster.controlPlane.endpoint", "is https:// and a host");
        }
        _ => {}
    }
}

fn is_endpoint(text: &str) -> bool {
    let url = Url::parse(text);
    let port_holds = url.port().is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    url.scheme == "https" && !url.host_name().is_empty() && port_holds
}

fn network(checker: &mut Checker<'_>, document: &Document, cluster: &Map) {
    let Some(network) = cluster.get("network").and_then(Value::as_map) else { return };
    let domain = text(network, "dnsDomain");
    if !domain.is_empty() && !is_dns_domain(domain) {
        checker.error(document, "cluster.network.dnsDomain", "is no DNS name");
    }
    // Workers do not set the network up, and Talos does not look there.
    let Some(cni) = network.get("cni").and_then(Value::as_map).filter(|_| checker.is_control_plane()) else {
        return;
    };
    let name = text(cni, "name");
    let urls = !list(cni, "urls").is_empty();
    match name {
        "custom" if !urls => checker.warn(document, "cluster.network.cni.urls", "is empty"),
        "flannel" | "none" if urls => {
            checker.error(document, "cluster.network.cni.urls", "is for `custom` only");
        }
        "custom" | "flannel" | "none" => {}
        _ => checker.error(document, "cluster.network.cni.name", "is flannel, custom or none"),
    }
    if name != "flannel" && cni.contains("flannel") {
        checker.error(document, "cluster.network.cni.flannel", "is for `flannel` only");
    }
}

fn is_dns_domain(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn etcd(checker: &mut Checker<'_>, document: &Document, cluster: &Map) {
    let etcd = cluster.get("etcd").and_then(Value::as_map);
    match (etcd, checker.is_control_plane()) {
        (Some(_), false) => checker.error(document, "cluster.etcd", "is for control planes only"),
        (None, true) => checker.error(document, "cluster.etcd.ca", "a control plane needs it"),
        (Some(etcd), true) => {
            if !etcd.contains("ca") {
                checker.error(document, "cluster.etcd.ca", "a control plane needs it");
            }
            if etcd.contains("subnet") && !list(etcd, "advertisedSubnets").is_empty() {
                checker.error(document, "cluster.etcd.subnet", "excludes cluster.etcd.advertisedSubnets");
            }
            filters(
                checker,
                document,
                etcd.get("subnet").map(std::slice::from_ref).unwrap_or_default(),
                "cluster.etcd.subnet",
            );
            for key in ["advertisedSubnets", "listenSubnets"] {
                filters(checker, document, list(etcd, key), &format!("cluster.etcd.{key}"));
            }
        }
        (None, false) => {}
    }
}

fn manifests(checker: &mut Checker<'_>, document: &Document, cluster: &Map) {
    let mut names = BTreeSet::new();
    for (index, manifest) in list(cluster, "inlineManifests").iter().enumerate() {
        let name = manifest.at(&["name"]).and_then(Value::as_text).unwrap_or_default();
        let path = format!("cluster.inlineManifests[{index}].name");
        if name.trim().is_empty() {
            checker.error(document, path, "is missing");
        } else if !names.insert(name) {
            checker.error(document, path, "is there twice");
        }
    }
}

fn discovery(checker: &mut Checker<'_>, document: &Document, cluster: &Map) {
    let Some(discovery) = cluster.get("discovery").and_then(Value::as_map) else { return };
    let service =
        discovery.get("registries").and_then(|value| value.at(&["service"])).and_then(Value::as_map);
    if !flag(discovery, "enabled") || service.is_some_and(|service| flag(service, "disabled")) {
        return;
    }
    let endpoint = service.map(|service| text(service, "endpoint")).unwrap_or_default();
    if !["", "/"].contains(&Url::parse(endpoint).path.as_str()) {
        checker.error(document, "cluster.discovery.registries.service.endpoint", "has no path");
    }
    for key in ["id", "secret"] {
        if text(cluster, key).is_empty() {
            checker.error(document, format!("cluster.{key}"), "is missing, and discovery needs it");
        }
    }
}
