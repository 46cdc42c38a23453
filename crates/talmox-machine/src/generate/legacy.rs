//! The document with `machine` and `cluster`.

use secrecy::ExposeSecret as _;

use super::{Input, Role, encoded};
use crate::document::Document;
use crate::schema::{API_VERSION, V1ALPHA1};
use crate::secrets::Encryption;
use crate::value::{Map, Value};

pub(super) const EXCLUDE_FROM_LOAD_BALANCERS: &str =
    "node.kubernetes.io/exclude-from-external-load-balancers";

pub(super) fn document(input: &Input<'_>, role: Role) -> Document {
    let (machine, cluster) = if input.is_multi_document() {
        (machine_base(input, role).with("features", quota()), cluster_base(input, role))
    } else {
        (machine(input, role), cluster(input, role))
    };
    let body = Map::new()
        .with("version", API_VERSION)
        .with("debug", input.options.debug)
        .with("persist", true)
        .with("machine", machine)
        .with("cluster", cluster);
    Document::new(&V1ALPHA1, body)
}

/// What every contract has in this document.
fn machine_base(input: &Input<'_>, role: Role) -> Map {
    let kind = match role {
        Role::ControlPlane => "controlplane",
        Role::Worker => "worker",
    };
    Map::new()
        .with("type", kind)
        .with("token", input.secrets.trustd_token.expose_secret())
        .with("ca", encoded(&input.secrets.os, role == Role::ControlPlane))
        .with("certSANs", input.options.additional_sans.clone())
}

fn cluster_base(input: &Input<'_>, role: Role) -> Map {
    let cluster = Map::new().with("token", input.secrets.bootstrap_token.expose_secret());
    match role {
        Role::ControlPlane => cluster.with("etcd", Map::new().with("ca", encoded(&input.secrets.etcd, true))),
        Role::Worker => cluster,
    }
}

fn quota() -> Map {
    Map::new().with("diskQuotaSupport", true)
}

fn machine(input: &Input<'_>, role: Role) -> Map {
    let kubelet = Map::new()
        .with("image", input.image("ghcr.io/siderolabs/kubelet"))
        .with("defaultRuntimeSeccompProfileEnabled", true)
        .with("disableManifestsDirectory", true);
    let mut machine = machine_base(input, role)
        .with("kubelet", kubelet)
        .with("install", install(input))
        .with("features", features(input));
    if let Some(network) = network(input) {
        machine.set("network", network);
    }
    if !input.options.sysctls.is_empty() {
        machine.set("sysctls", texts(&input.options.sysctls));
    }
    if let Some(registries) = registries(input) {
        machine.set("registries", registries);
    }
    if role == Role::ControlPlane {
        machine.set("nodeLabels", Map::new().with(EXCLUDE_FROM_LOAD_BALANCERS, ""));
    }
    machine
}

/// Present though empty up to 1.12.
fn network(input: &Input<'_>) -> Option<Map> {
    let kubespan = input.options.kubespan.map(|enabled| Map::new().with("enabled", enabled));
    (!input.since(13)).then(|| Map::new().with_some("kubespan", kubespan))
}

fn install(input: &Input<'_>) -> Map {
    let arguments = &input.options.extra_kernel_args;
    Map::new()
        .with_some("disk", input.options.install_disk.clone())
        .with_some("extraKernelArgs", (!arguments.is_empty()).then(|| arguments.clone()))
        .with_some("image", input.options.install_image.clone())
        .with("wipe", false)
        .with_some("grubUseUKICmdline", input.since(12).then_some(true))
}

fn features(input: &Input<'_>) -> Map {
    let mut features = quota();
    if !input.since(12) {
        for key in ["rbac", "stableHostname", "apidCheckExtKeyUsage"] {
            features.set(key, true);
        }
    }
    let prism = input.options.kubeprism_port.map(|port| Map::new().with("enabled", true).with("port", port));
    let dns = Map::new().with("enabled", true).with("forwardKubeDNSToHost", true);
    features.with_some("kubePrism", prism).with("hostDNS", dns)
}

/// Registries up to 1.11; later contracts have documents for them.
fn registries(input: &Input<'_>) -> Option<Map> {
    let options = &input.options;
    let mirror = |endpoints: &Vec<String>| Value::Map(Map::new().with("endpoints", endpoints.clone()));
    let mirrors: Map =
        options.registry_mirrors.iter().map(|(host, endpoints)| (host.clone(), mirror(endpoints))).collect();
    let hosts = options.registry_certificates.keys().chain(&options.insecure_registries);
    let config: Map = hosts.map(|host| (host.clone(), Value::Map(registry_tls(input, host)))).collect();
    let filled = |map: Map| (!map.is_empty()).then_some(map);
    let registries = Map::new().with_some("mirrors", filled(mirrors)).with_some("config", filled(config));
    if input.since(12) { None } else { filled(registries) }
}

fn registry_tls(input: &Input<'_>, host: &str) -> Map {
    use base64::Engine as _;
    let encode = |pem: &String| base64::engine::general_purpose::STANDARD.encode(pem);
    let tls = Map::new()
        .with_some("ca", input.options.registry_certificates.get(host).map(encode))
        .with_some("insecureSkipVerify", input.options.insecure_registries.contains(host).then_some(true));
    Map::new().with("tls", tls)
}

pub(super) fn texts(map: &std::collections::BTreeMap<String, String>) -> Map {
    map.iter().map(|(key, value)| (key.clone(), Value::text(value))).collect()
}

fn cluster(input: &Input<'_>, role: Role) -> Map {
    let secrets = input.secrets;
    let mut control_plane = Map::new().with("endpoint", input.endpoint.as_str());
    if role == Role::ControlPlane {
        control_plane = control_plane.with_some("localAPIServerPort", input.options.local_api_server_port);
    }
    let registries = Map::new().with("kubernetes", Map::new().with("disabled", true));
    let discovery = Map::new().with("enabled", input.options.discovery).with("registries", registries);
    let cluster = cluster_base(input, role)
        .with("id", secrets.cluster_id.as_str())
        .with("secret", secrets.cluster_secret.expose_secret())
        .with("controlPlane", control_plane)
        .with("clusterName", input.cluster_name.as_str())
        .with("network", cluster_network(input))
        .with("ca", encoded(&secrets.kubernetes, role == Role::ControlPlane))
        .with("discovery", discovery);
    match role {
        Role::ControlPlane => control_plane_only(input, cluster),
        Role::Worker => cluster,
    }
}

fn cluster_network(input: &Input<'_>) -> Map {
    let options = &input.options;
    let cni = (!options.cni_urls.is_empty())
        .then(|| Map::new().with("name", "custom").with("urls", options.cni_urls.clone()));
    Map::new()
        .with_some("cni", cni)
        .with("dnsDomain", options.dns_domain.as_str())
        .with("podSubnets", options.pod_subnets.clone())
        .with("serviceSubnets", options.service_subnets.clone())
}

fn control_plane_only(input: &Input<'_>, cluster: Map) -> Map {
    use base64::Engine as _;
    let secrets = input.secrets;
    let (name, secret) = match &secrets.encryption {
        Encryption::Secretbox(secret) => ("secretboxEncryptionSecret", secret),
        // talosctl forgets this one from contract 1.3 on, and with it how to read what is in etcd.
        Encryption::AesCbc(secret) => ("aescbcEncryptionSecret", secret),
    };
    let service_account =
        base64::engine::general_purpose::STANDARD.encode(secrets.service_account.pem().expose_secret());
    let image = |name: &str| Map::new().with("image", input.image(&format!("registry.k8s.io/{name}")));
    cluster
        .with(name, secret.expose_secret())
        .with("aggregatorCA", encoded(&secrets.aggregator, true))
        .with("serviceAccount", Map::new().with("key", service_account))
        .with("apiServer", api_server(input))
        .with("controllerManager", image("kube-controller-manager"))
        .with("proxy", image("kube-proxy"))
        .with("scheduler", image("kube-scheduler"))
        .with_some(
            "allowSchedulingOnControlPlanes",
            input.options.allow_scheduling_on_control_planes.then_some(true),
        )
}

fn api_server(input: &Input<'_>) -> Map {
    let old = !input.since(12);
    let mut names = if old { vec![input.endpoint_host()] } else { Vec::new() };
    names.extend(input.options.additional_sans.iter().cloned());
    let plugin = Map::new().with("name", "PodSecurity").with("configuration", pod_security());
    Map::new()
        .with("image", input.image("registry.k8s.io/kube-apiserver"))
        .with_some("certSANs", (!names.is_empty()).then_some(names))
        .with_some("disablePodSecurityPolicy", old.then_some(true))
        .with("admissionControl", vec![Value::Map(plugin)])
        .with("auditPolicy", audit_policy())
}

/// What pods may do unless their namespace says otherwise.
pub(super) fn pod_security() -> Map {
    let mut defaults = Map::new();
    for (mode, level) in [("audit", "restricted"), ("enforce", "baseline"), ("warn", "restricted")] {
        defaults.set(mode, level);
        defaults.set(format!("{mode}-version"), "latest");
    }
    let exemptions = Map::new()
        .with("namespaces", vec!["kube-system"])
        .with("runtimeClasses", Value::List(Vec::new()))
        .with("usernames", Value::List(Vec::new()));
    Map::new()
        .with("apiVersion", "pod-security.admission.config.k8s.io/v1alpha1")
        .with("kind", "PodSecurityConfiguration")
        .with("defaults", defaults)
        .with("exemptions", exemptions)
}

/// Who did what and when, without what they sent.
pub(super) fn audit_policy() -> Map {
    Map::new()
        .with("apiVersion", "audit.k8s.io/v1")
        .with("kind", "Policy")
        .with("rules", vec![Value::Map(Map::new().with("level", "Metadata"))])
}
