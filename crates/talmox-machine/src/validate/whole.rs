//! What documents mean together.

use super::{Checker, Mode, flag};
use crate::value::Value;

const CONTROL_PLANE_LABEL: &str = "node-role.kubernetes.io/control-plane";

pub(super) fn check(checker: &mut Checker<'_>) {
    host_dns(checker);
    discovery(checker);
    if checker.is_control_plane() {
        control_plane(checker);
    } else {
        for document in checker.config.documents().iter().filter(|document| document.kind.control_plane) {
            checker.error(document, "", "is for control planes only");
        }
    }
    cluster_identity(checker);
}

fn host_dns(checker: &mut Checker<'_>) {
    let documents = checker.config.document("ResolverConfig").and_then(|document| document.at(&["hostDNS"]));
    let dns =
        documents.or_else(|| checker.config.at(&["machine", "features", "hostDNS"])).and_then(Value::as_map);
    let enabled = dns.is_some_and(|dns| flag(dns, "enabled"));
    let forwards = dns.is_some_and(|dns| flag(dns, "forwardKubeDNSToHost"));
    if checker.mode == Mode::Container && !(enabled && forwards) {
        checker.error_overall("in a container hostDNS and its forwardKubeDNSToHost have to be enabled");
    }
    let Some(document) = checker.config.document("ResolverConfig") else { return };
    let servers = document.at(&["nameservers"]).and_then(Value::as_list).unwrap_or_default();
    if servers.iter().any(|server| server.at(&["protocol"]).is_some()) && !enabled {
        checker.error(document, "nameservers", "DoT and DoH need hostDNS to be enabled");
    }
}

fn discovery(checker: &mut Checker<'_>) {
    let services = !checker.of_kind("DiscoveryServiceConfig").is_empty();
    let legacy = checker.config.at(&["cluster", "discovery"]).and_then(Value::as_map);
    let legacy = legacy.is_some_and(|discovery| flag(discovery, "enabled"));
    let identity = checker.config.document("DiscoveryIdentityConfig");
    let known = |key, legacy: &str| {
        identity.and_then(|document| document.at(&[key])).is_some()
            || checker.config.at(&["cluster", legacy]).is_some()
    };
    let complete = known("clusterID", "id") && known("clusterSecret", "secret");
    if services && !complete {
        checker
            .error_overall("discovery needs the id and the secret of the cluster (DiscoveryIdentityConfig)");
    }
    let document = checker.config.document("KubeSpanConfig");
    let section = checker.config.at(&["machine", "network", "kubespan"]).and_then(Value::as_map);
    let kubespan = document.map(|document| &document.body).or(section);
    if services || legacy || !kubespan.is_some_and(|kubespan| flag(kubespan, "enabled")) {
        return;
    }
    match document {
        // Talos before 1.14 looks at the section only.
        Some(document) if !checker.since(14) => {
            checker.warn(document, "enabled", "KubeSpan finds nobody without discovery");
        }
        Some(_) | None => checker.error_overall("KubeSpan needs discovery"),
    }
}

fn control_plane(checker: &mut Checker<'_>) {
    let cluster = |key: &str| checker.config.at(&["cluster", key]).is_some();
    let runs_kubernetes = checker.config.document("KubeAPIServerCAConfig").is_some() || cluster("ca");
    let encrypted = checker.config.document("KubeEtcdEncryptionConfig").is_some()
        || cluster("secretboxEncryptionSecret")
        || cluster("aescbcEncryptionSecret");
    if checker.since(14) && runs_kubernetes && !encrypted {
        checker.error_overall(
            "a control plane needs to know what secrets are encrypted with (KubeEtcdEncryptionConfig)",
        );
    }
    if let Some(document) = checker.config.document("KubeNodeConfig")
        && document.at(&["labels", CONTROL_PLANE_LABEL]).is_none()
        && !flag(&document.body, "skipNodeRegistration")
    {
        checker.warn(document, "labels", format!("the label {CONTROL_PLANE_LABEL} is missing"));
    }
}

fn cluster_identity(checker: &mut Checker<'_>) {
    let runs_kubernetes = checker.config.document("KubeAPIServerCAConfig").is_some();
    let known = checker.config.document("KubeClusterConfig").is_some()
        || checker.config.at(&["cluster", "controlPlane", "endpoint"]).is_some();
    if runs_kubernetes && !known {
        checker.error_overall("the name and endpoint of the cluster are missing (KubeClusterConfig)");
    }
}
