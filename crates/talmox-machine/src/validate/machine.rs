//! `machine`.

use talmox_types::{Taint, is_label_key, is_label_value};

use super::{Checker, Mode, flag, has_key, is_filter, list, number, text};
use crate::document::Document;
use crate::value::{Map, Value};

/// What Talos decides about the kubelet itself.
pub(super) const PROTECTED_KUBELET_FIELDS: [&str; 13] = [
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupRoot",
    "kind",
    "kubeletCgroups",
    "port",
    "protectKernelDefaults",
    "resolvConf",
    "rotateCertificates",
    "seccompDefault",
    "staticPodPath",
    "systemCgroups",
];

pub(super) fn check(checker: &mut Checker<'_>) {
    let Some(document) = checker.legacy() else { return };
    if document.at(&["persist"]).and_then(Value::as_bool) == Some(false) {
        checker.error(document, "persist", "must not be false");
    }
    let Some(machine) = document.at(&["machine"]).and_then(Value::as_map) else {
        checker.error(document, "machine", "is missing");
        return;
    };
    if !["init", "controlplane", "worker"].contains(&text(machine, "type")) {
        checker.error(document, "machine.type", "is controlplane or worker");
    }
    authority(checker, document, machine);
    install(checker, document, machine);
    disks(checker, document, machine);
    if let Some(kubelet) = machine.get("kubelet").and_then(Value::as_map) {
        self::kubelet(checker, document, kubelet);
    }
    node_metadata(checker, document, machine, ["nodeLabels", "nodeAnnotations", "nodeTaints"], "machine.");
    features(checker, document, machine);
    logging(checker, document, machine);
}

fn authority(checker: &mut Checker<'_>, document: &Document, machine: &Map) {
    let authority = machine.get("ca");
    let accepted = !list(machine, "acceptedCAs").is_empty();
    let certificate = authority
        .and_then(|pair| pair.at(&["crt"]))
        .and_then(Value::as_text)
        .is_some_and(|crt| !crt.is_empty());
    let key = authority.is_some_and(has_key);
    match (checker.is_control_plane(), authority) {
        (true, None) => checker.error(document, "machine.ca", "a control plane needs it"),
        (true, Some(_)) if !key => checker.error(document, "machine.ca.key", "a control plane needs it"),
        (false, Some(_)) if key => {
            checker.error(document, "machine.ca.key", "only control planes may have it");
        }
        (false, _) if !certificate && !accepted => {
            checker.error(document, "machine.ca.crt", "is missing, and so is machine.acceptedCAs");
        }
        _ => {}
    }
}

fn install(checker: &mut Checker<'_>, document: &Document, machine: &Map) {
    let install = machine.get("install").and_then(Value::as_map);
    if checker.mode == Mode::Metal {
        match install {
            None if !checker.since(14) => checker.error(document, "machine.install", "is missing"),
            Some(install) if text(install, "disk").is_empty() && !install.contains("diskSelector") => {
                checker.error(document, "machine.install", "needs disk or diskSelector");
            }
            _ => {}
        }
    }
    let Some(install) = install else { return };
    let arguments = !list(install, "extraKernelArgs").is_empty();
    if checker.mode == Mode::Metal && arguments && flag(install, "grubUseUKICmdline") {
        let message = "excludes machine.install.grubUseUKICmdline; put kernel arguments into the schematic";
        checker.error(document, "machine.install.extraKernelArgs", message);
    }
    let images: Vec<&str> =
        list(install, "extensions").iter().filter_map(|one| one.at(&["image"])?.as_text()).collect();
    if let Some(index) = (1..images.len()).find(|index| images[..*index].contains(&images[*index])) {
        checker.error(document, format!("machine.install.extensions[{index}]"), "is there twice");
    }
    if !images.is_empty() {
        checker.warn(
            document,
            "machine.install.extensions",
            "is outdated; extensions belong into the schematic",
        );
    }
}

fn disks(checker: &mut Checker<'_>, document: &Document, machine: &Map) {
    for (index, disk) in list(machine, "disks").iter().enumerate() {
        let partitions = disk.at(&["partitions"]).and_then(Value::as_list).unwrap_or_default();
        let Some((_, others)) = partitions.split_last() else { continue };
        if others.iter().any(|partition| partition.at(&["size"]).is_none()) {
            let message = "a partition without a size takes the whole disk and so comes last";
            checker.error(document, format!("machine.disks[{index}]"), message);
        }
    }
}

fn kubelet(checker: &mut Checker<'_>, document: &Document, kubelet: &Map) {
    if let Some(config) = kubelet.get("extraConfig").and_then(Value::as_map) {
        protected(checker, document, config, "machine.kubelet.extraConfig");
    }
    let subnets =
        kubelet.get("nodeIP").and_then(|value| value.at(&["validSubnets"])).and_then(Value::as_list);
    filters(checker, document, subnets.unwrap_or_default(), "machine.kubelet.nodeIP.validSubnets");
}

pub(super) fn protected(checker: &mut Checker<'_>, document: &Document, config: &Map, path: &str) {
    for field in PROTECTED_KUBELET_FIELDS.into_iter().filter(|field| config.contains(field)) {
        checker.error(document, format!("{path}.{field}"), "Talos decides this itself");
    }
}

pub(super) fn filters(checker: &mut Checker<'_>, document: &Document, subnets: &[Value], path: &str) {
    for (index, _) in subnets.iter().enumerate().filter(|(_, subnet)| !is_filter(subnet)) {
        checker.error(document, format!("{path}[{index}]"), "is no address or subnet");
    }
}

/// Labels, annotations and taints, under the names they have in a document.
pub(super) fn node_metadata(
    checker: &mut Checker<'_>,
    document: &Document,
    map: &Map,
    [labels, annotations, taints]: [&str; 3],
    prefix: &str,
) {
    let entries = |key: &str| -> Vec<(String, String)> {
        let map = map.get(key).and_then(Value::as_map);
        let pairs = map.into_iter().flat_map(Map::iter);
        pairs.map(|(key, value)| (key.to_owned(), value.as_text().unwrap_or_default().to_owned())).collect()
    };
    for (key, value) in entries(labels) {
        if !is_label_key(&key) || !is_label_value(&value) {
            checker.error(document, format!("{prefix}{labels}.{key}"), "is no label Kubernetes takes");
        }
    }
    for (key, _) in entries(annotations) {
        if !is_label_key(&key.to_lowercase()) {
            checker.error(
                document,
                format!("{prefix}{annotations}.{key}"),
                "is no annotation Kubernetes takes",
            );
        }
    }
    for (key, value) in entries(taints) {
        let written = if value.contains(':') { format!("{key}={value}") } else { format!("{key}:{value}") };
        if Taint::parse(&written).is_err() {
            let message = "is no taint: `Effect` or `value:Effect`, where Effect is NoSchedule, PreferNoSchedule or NoExecute";
            checker.error(document, format!("{prefix}{taints}.{key}"), message);
        }
    }
}

fn features(checker: &mut Checker<'_>, document: &Document, machine: &Map) {
    let Some(features) = machine.get("features").and_then(Value::as_map) else { return };
    if let Some(dns) = features.get("hostDNS").and_then(Value::as_map)
        && flag(dns, "forwardKubeDNSToHost")
        && !flag(dns, "enabled")
    {
        checker.error(
            document,
            "machine.features.hostDNS.forwardKubeDNSToHost",
            "needs hostDNS to be enabled",
        );
    }
    if let Some(access) = features.get("kubernetesTalosAPIAccess").and_then(Value::as_map)
        && flag(access, "enabled")
        && !checker.is_control_plane()
    {
        checker.error(document, "machine.features.kubernetesTalosAPIAccess", "is for control planes only");
    }
    if !["", "v1", "v2"].contains(&text(features, "nodeAddressSortAlgorithm")) {
        checker.error(document, "machine.features.nodeAddressSortAlgorithm", "is v1 or v2");
    }
    let prism = features.get("kubePrism").and_then(Value::as_map);
    if prism.is_some_and(|prism| !(0..=65535).contains(&number(prism, "port"))) {
        checker.error(document, "machine.features.kubePrism.port", "is no port");
    }
}

fn logging(checker: &mut Checker<'_>, document: &Document, machine: &Map) {
    let destinations = machine.get("logging").and_then(|value| value.at(&["destinations"]));
    for (index, destination) in destinations.and_then(Value::as_list).unwrap_or_default().iter().enumerate() {
        let endpoint = destination.at(&["endpoint"]).and_then(Value::as_text).unwrap_or_default();
        let path = format!("machine.logging.destinations[{index}]");
        if !endpoint.starts_with("tcp://") && !endpoint.starts_with("udp://") {
            checker.error(document, format!("{path}.endpoint"), "begins with tcp:// or udp://");
        }
        if destination.at(&["format"]).and_then(Value::as_text) != Some("json_lines") {
            checker.error(document, format!("{path}.format"), "is json_lines");
        }
    }
}
