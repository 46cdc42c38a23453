//! New documents exclude the old sections they take the place of: any presence of those is refused.

use super::Checker;
use crate::value::Value;

/// A kind of document, and the old sections it excludes.
const EXCLUSIONS: [(&str, &[&[&str]]); 24] = [
    ("KubeletConfig", &[&["machine", "kubelet"]]),
    ("KubeCredentialProviderConfig", &[&["machine", "kubelet"]]),
    (
        "KubeNodeConfig",
        &[
            &["machine", "nodeLabels"],
            &["machine", "nodeAnnotations"],
            &["machine", "nodeTaints"],
            &["machine", "kubelet", "skipNodeRegistration"],
            &["machine", "kubelet", "registerWithFQDN"],
            &["machine", "kubelet", "nodeIP"],
            &["cluster", "allowSchedulingOnControlPlanes"],
            &["cluster", "allowSchedulingOnMasters"],
        ],
    ),
    ("KubeNetworkConfig", &[&["cluster", "network"]]),
    ("KubeFlannelCNIConfig", &[&["cluster", "network"]]),
    ("KubeClusterConfig", &[&["cluster", "clusterName"], &["cluster", "controlPlane", "endpoint"]]),
    ("KubeAPIServerConfig", &[&["cluster", "apiServer"], &["cluster", "controlPlane", "localAPIServerPort"]]),
    (
        "KubeControllerManagerConfig",
        &[&["cluster", "controllerManager"], &["machine", "controlPlane", "controllerManager"]],
    ),
    ("KubeSchedulerConfig", &[&["cluster", "scheduler"], &["machine", "controlPlane", "scheduler"]]),
    ("KubeProxyConfig", &[&["cluster", "proxy"]]),
    ("KubeCoreDNSConfig", &[&["cluster", "coreDNS"]]),
    ("KubeAPIServerCAConfig", &[&["cluster", "ca"]]),
    ("KubeAggregatorCAConfig", &[&["cluster", "aggregatorCA"]]),
    ("KubeServiceAccountConfig", &[&["cluster", "serviceAccount"]]),
    ("KubeAuditPolicyConfig", &[&["cluster", "apiServer", "auditPolicy"]]),
    ("KubeAdmissionControlConfig", &[&["cluster", "apiServer", "admissionControl"]]),
    (
        "KubeEtcdEncryptionConfig",
        &[&["cluster", "secretboxEncryptionSecret"], &["cluster", "aescbcEncryptionSecret"]],
    ),
    ("KubePrismConfig", &[&["machine", "features", "kubePrism"]]),
    ("KubeTalosAPIAccessConfig", &[&["machine", "features", "kubernetesTalosAPIAccess"]]),
    ("DiscoveryServiceConfig", &[&["cluster", "discovery"]]),
    ("DiscoveryIdentityConfig", &[&["cluster", "id"], &["cluster", "secret"]]),
    ("UnattendedInstallConfig", &[&["machine", "install"]]),
    ("KubeSpanConfig", &[&["machine", "network", "kubespan"]]),
    ("CRIBaseRuntimeSpecConfig", &[&["machine", "baseRuntimeSpecOverrides"]]),
];

pub(super) fn check(checker: &mut Checker<'_>) {
    let Some(legacy) = checker.legacy() else { return };
    for (kind, sections) in EXCLUSIONS {
        let Some(document) = checker.config.document(kind) else { continue };
        for section in sections.iter().filter(|section| legacy.at(section).is_some()) {
            excluded(checker, document.kind(), section);
        }
    }
    hostname(checker);
    resolver(checker);
    time(checker);
    encryption(checker);
}

fn excluded(checker: &mut Checker<'_>, kind: &str, section: &[&str]) {
    let Some(legacy) = checker.legacy() else { return };
    let before = crate::schema::kind(kind).map_or(0, |kind| kind.since).saturating_sub(1);
    let message = format!("excludes the document {kind}; say it there, or use the contract 1.{before}");
    checker.error_against(legacy, section.join("."), message, kind);
}

fn hostname(checker: &mut Checker<'_>) {
    if checker.config.document("HostnameConfig").is_none() {
        return;
    }
    for section in [["machine", "network", "hostname"], ["machine", "features", "stableHostname"]] {
        let value = checker.config.at(&section);
        let said = value.is_some_and(|value| value.as_bool() != Some(false) && value.as_text() != Some(""));
        let Some(legacy) = checker.legacy().filter(|_| said) else { continue };
        let message = "excludes the document HostnameConfig; set auto: \"off\" and hostname there";
        checker.error_against(legacy, section.join("."), message, "HostnameConfig");
    }
}

fn resolver(checker: &mut Checker<'_>) {
    let Some(document) = checker.config.document("ResolverConfig") else { return };
    let dns = document.at(&["hostDNS"]).is_some();
    let mut sections: Vec<&[&str]> =
        vec![&["machine", "network", "nameservers"], &["machine", "network", "searchDomains"]];
    if checker.config.at(&["machine", "network", "disableSearchDomain"]).and_then(Value::as_bool)
        == Some(true)
    {
        sections.push(&["machine", "network", "disableSearchDomain"]);
    }
    if dns {
        sections.push(&["machine", "features", "hostDNS"]);
    }
    for section in sections {
        if checker.config.at(section).is_some() {
            excluded(checker, "ResolverConfig", section);
        }
    }
}

fn time(checker: &mut Checker<'_>) {
    let Some(time) = checker
        .config
        .at(&["machine", "time"])
        .filter(|_| checker.config.document("TimeSyncConfig").is_some())
    else {
        return;
    };
    for key in ["disabled", "servers", "bootTimeout"] {
        if time.at(&[key]).is_some_and(|value| value.as_bool() != Some(false)) {
            excluded(checker, "TimeSyncConfig", &["machine", "time", key]);
        }
    }
}

fn encryption(checker: &mut Checker<'_>) {
    for document in checker.of_kind("VolumeConfig") {
        let part = match document.name() {
            Some("STATE") => "state",
            Some("EPHEMERAL") => "ephemeral",
            _ => continue,
        };
        let section = ["machine", "systemDiskEncryption", part];
        if document.at(&["encryption"]).is_some() && checker.config.at(&section).is_some() {
            excluded(checker, "VolumeConfig", &section);
        }
    }
}
