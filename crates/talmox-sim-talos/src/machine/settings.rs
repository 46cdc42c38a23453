//! What a machine configuration says, as far as a node acts on it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use talmox_machine::{Config, Document, Value};

use super::components::Components;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    ControlPlane,
    Worker,
}

/// An authority with its key, in PEM. The key is a secret, so there is no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signer {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Which network plugin Talos brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cni {
    Flannel,
    /// Somebody else's manifests, fetched by Talos.
    Custom,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Link {
    pub(crate) name: String,
    /// Chosen by its hardware address instead of its name.
    pub(crate) mac: Option<String>,
    pub(crate) addresses: Vec<String>,
    pub(crate) dhcp: Option<bool>,
}

/// What a disk may be looked for by.
const SELECTORS: &[&str] =
    &["size", "name", "model", "serial", "modalias", "uuid", "wwid", "type", "busPath"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Install {
    pub(crate) disk: Option<String>,
    /// `diskSelector`, which goes before a path.
    #[serde(default)]
    pub(crate) selector: BTreeMap<String, String>,
    /// What a disk must be, as an expression.
    #[serde(default)]
    pub(crate) expression: Option<String>,
    pub(crate) image: Option<String>,
}

/// It holds secrets, so there is no `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "so many switches are in a configuration")]
pub(crate) struct Settings {
    pub(crate) role: Role,
    pub(crate) cluster_name: String,
    /// `https://10.0.0.1:6443`.
    pub(crate) endpoint: String,
    pub(crate) cluster_id: String,
    pub(crate) token: String,
    /// Talos' authority, in PEM; and what else is accepted.
    pub(crate) authority: String,
    pub(crate) accepted: Vec<String>,
    /// The same with its key: control planes have it.
    pub(crate) signer: Option<Signer>,
    pub(crate) kubernetes: Option<Signer>,
    /// Whose certificates Kubernetes takes besides, in PEM.
    pub(crate) kubernetes_accepted: Vec<String>,
    /// Kubernetes' authority as workers have it, without its key.
    pub(crate) kubernetes_authority: String,
    pub(crate) etcd_authority: Option<String>,
    pub(crate) certificate_names: Vec<String>,
    pub(crate) hostname: Option<String>,
    pub(crate) links: Vec<Link>,
    pub(crate) shared_addresses: Vec<IpAddr>,
    pub(crate) cni: Cni,
    pub(crate) proxy: bool,
    pub(crate) core_dns: bool,
    pub(crate) proxy_image: String,
    /// Of the kubelet: `v1.36.3`.
    pub(crate) kubernetes_version: String,
    pub(crate) components: Components,
    #[serde(default = "etcd_image")]
    pub(crate) etcd_image: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) taints: Vec<(String, String)>,
    pub(crate) scheduling_on_control_planes: bool,
    pub(crate) install: Option<Install>,
    pub(crate) discovery: bool,
    /// Nodes find each other by a service outside.
    pub(crate) discovery_service: bool,
    pub(crate) pod_subnets: Vec<String>,
    /// What the kubelet says the node is to a cloud.
    pub(crate) provider_id: Option<String>,
    /// Whether the kubelet waits for a cloud controller.
    pub(crate) external_cloud_provider: bool,
}

/// The image of etcd where the configuration names none. Its version hangs on Talos'.
fn etcd_image() -> String {
    "registry.k8s.io/etcd:v3.6.16".to_owned()
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_text).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_text).map(str::to_owned).collect()
}

fn pairs(value: Option<&Value>) -> Vec<(String, String)> {
    let map = value.and_then(Value::as_map);
    map.into_iter()
        .flat_map(talmox_machine::Map::iter)
        .map(|(key, value)| (key.to_owned(), value.as_text().unwrap_or_default().to_owned()))
        .collect()
}

fn decoded(value: Option<&Value>) -> Option<String> {
    let bytes = STANDARD.decode(text(value)?).ok()?;
    String::from_utf8(bytes).ok()
}

/// Certificate and key, in base64 as the document with `machine` and `cluster` has them.
fn signer(value: Option<&Value>) -> Option<Signer> {
    let value = value?;
    Some(Signer { certificate: decoded(value.at(&["crt"]))?, key: decoded(value.at(&["key"]))? })
}

impl Settings {
    /// None without a document with `machine` and `cluster`.
    pub(crate) fn read(config: &Config) -> Option<Self> {
        let first = config.document("")?;
        let at = |path: &[&str]| first.at(path);
        let document = |kind: &str, key: &str| config.document(kind).and_then(|one| one.at(&[key]));
        let role = match at(&["machine", "type"]).and_then(Value::as_text) {
            Some("controlplane" | "init") => Role::ControlPlane,
            _ => Role::Worker,
        };
        let cluster_name = text(at(&["cluster", "clusterName"]))
            .or_else(|| text(document("KubeClusterConfig", "clusterName")));
        let endpoint = text(at(&["cluster", "controlPlane", "endpoint"]))
            .or_else(|| text(document("KubeClusterConfig", "endpoint")));
        let id =
            text(at(&["cluster", "id"])).or_else(|| text(document("DiscoveryIdentityConfig", "clusterID")));
        let machine_authority = at(&["machine", "ca"]);
        let accepted = at(&["machine", "acceptedCAs"]).and_then(Value::as_list).unwrap_or_default();
        Some(Self {
            role,
            cluster_name: cluster_name.unwrap_or_default(),
            endpoint: endpoint.unwrap_or_default(),
            cluster_id: id.unwrap_or_default(),
            token: text(at(&["machine", "token"])).unwrap_or_default(),
            authority: machine_authority.and_then(|one| decoded(one.at(&["crt"]))).unwrap_or_default(),
            accepted: accepted.iter().filter_map(|one| decoded(one.at(&["crt"]))).collect(),
            signer: signer(machine_authority).filter(|signer| !signer.key.is_empty()),
            kubernetes: kubernetes_signer(config, first),
            kubernetes_accepted: kubernetes_accepted(config, first),
            kubernetes_authority: decoded(at(&["cluster", "ca", "crt"])).unwrap_or_default(),
            etcd_authority: decoded(at(&["cluster", "etcd", "ca", "crt"])),
            certificate_names: texts(at(&["machine", "certSANs"])),
            hostname: text(document("HostnameConfig", "hostname"))
                .or_else(|| text(at(&["machine", "network", "hostname"]))),
            links: links(config, first),
            shared_addresses: shared_addresses(config, first),
            cni: cni(config, first, role),
            proxy: at(&["cluster", "proxy", "disabled"]).and_then(Value::as_bool) != Some(true)
                && document("KubeProxyConfig", "enabled").and_then(Value::as_bool) != Some(false),
            core_dns: at(&["cluster", "coreDNS", "disabled"]).and_then(Value::as_bool) != Some(true)
                && document("KubeCoreDNSConfig", "enabled").and_then(Value::as_bool) != Some(false),
            proxy_image: text(at(&["cluster", "proxy", "image"]))
                .or_else(|| text(document("KubeProxyConfig", "image")))
                .unwrap_or_else(|| {
                    format!("registry.k8s.io/kube-proxy:{}", kubernetes_version(config, first))
                }),
            kubernetes_version: kubernetes_version(config, first),
            components: Components::read(config, first),
            etcd_image: text(at(&["cluster", "etcd", "image"])).unwrap_or_else(etcd_image),
            labels: [pairs(at(&["machine", "nodeLabels"])), pairs(document("KubeNodeConfig", "labels"))]
                .concat(),
            taints: [pairs(at(&["machine", "nodeTaints"])), pairs(document("KubeNodeConfig", "taints"))]
                .concat(),
            scheduling_on_control_planes: scheduling(config, first),
            install: install(config, first),
            discovery: discovery(config, first),
            discovery_service: discovery_service(config, first),
            pod_subnets: pod_subnets(config, first),
            provider_id: provider_id(config, first),
            external_cloud_provider: at(&["cluster", "externalCloudProvider", "enabled"])
                .and_then(Value::as_bool)
                .unwrap_or_default(),
        })
    }

    /// The host of the endpoint, and its port.
    pub(crate) fn endpoint_parts(&self) -> (String, u16) {
        let rest = self.endpoint.split_once("://").map_or(self.endpoint.as_str(), |(_, rest)| rest);
        let rest = rest.split('/').next().unwrap_or_default();
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        (host.to_owned(), port.and_then(|port| port.parse().ok()).unwrap_or(443))
    }
}

fn kubernetes_signer(config: &Config, first: &Document) -> Option<Signer> {
    let document = config.document("KubeAPIServerCAConfig");
    let part = |key| document.and_then(|one| text(one.at(&["issuingCA", key])));
    match (part("cert"), part("key")) {
        (Some(certificate), Some(key)) => Some(Signer { certificate, key }),
        _ => signer(first.at(&["cluster", "ca"])).filter(|signer| !signer.key.is_empty()),
    }
}

/// Authorities that sign no more, or not yet.
fn kubernetes_accepted(config: &Config, first: &Document) -> Vec<String> {
    let section = first.at(&["cluster", "acceptedCAs"]).and_then(Value::as_list).unwrap_or_default();
    let documents = config
        .document("KubeAPIServerCAConfig")
        .and_then(|one| one.at(&["acceptedCAs"]))
        .and_then(Value::as_list)
        .unwrap_or_default();
    let old = section.iter().filter_map(|one| decoded(one.at(&["crt"])));
    old.chain(documents.iter().filter_map(|one| text(Some(one)))).collect()
}

fn links(config: &Config, first: &Document) -> Vec<Link> {
    let interfaces = first.at(&["machine", "network", "interfaces"]).and_then(Value::as_list);
    let legacy = interfaces.unwrap_or_default().iter().map(|one| {
        let mac = |key| text(one.at(&["deviceSelector", key]));
        let mut addresses = texts(one.at(&["addresses"]));
        addresses.extend(text(one.at(&["cidr"])));
        Link {
            name: text(one.at(&["interface"])).unwrap_or_default(),
            mac: mac("hardwareAddr").or_else(|| mac("permanentAddr")),
            addresses,
            dhcp: one.at(&["dhcp"]).and_then(Value::as_bool),
        }
    });
    let documents = config.of_kind("LinkConfig").map(|one| {
        let list = one.at(&["addresses"]).and_then(Value::as_list).unwrap_or_default();
        let name = one.name().unwrap_or_default();
        Link {
            name: name.to_owned(),
            mac: aliased(config, name),
            addresses: list.iter().filter_map(|address| text(address.at(&["address"]))).collect(),
            dhcp: None,
        }
    });
    let asking = config.of_kind("DHCPv4Config").map(|one| {
        let name = one.name().unwrap_or_default();
        Link { name: name.to_owned(), mac: aliased(config, name), addresses: Vec::new(), dhcp: Some(true) }
    });
    legacy.chain(documents).chain(asking).collect()
}

/// The hardware address an alias stands for, if its expression compares with one.
fn aliased(config: &Config, name: &str) -> Option<String> {
    let alias = config.of_kind("LinkAliasConfig").find(|one| one.name() == Some(name))?;
    let expression = text(alias.at(&["selector", "match"]))?;
    let looks_like = |part: &&str| part.len() == 17 && part.bytes().filter(|byte| *byte == b':').count() == 5;
    expression.split(['"', '\'']).find(looks_like).map(str::to_ascii_lowercase)
}

fn shared_addresses(config: &Config, first: &Document) -> Vec<IpAddr> {
    let interfaces = first.at(&["machine", "network", "interfaces"]).and_then(Value::as_list);
    let mut found: Vec<IpAddr> = Vec::new();
    for one in interfaces.unwrap_or_default() {
        found.extend(text(one.at(&["vip", "ip"])).and_then(|ip| ip.parse::<IpAddr>().ok()));
        for vlan in one.at(&["vlans"]).and_then(Value::as_list).unwrap_or_default() {
            found.extend(text(vlan.at(&["vip", "ip"])).and_then(|ip| ip.parse::<IpAddr>().ok()));
        }
    }
    let documents = config.of_kind("Layer2VIPConfig").filter_map(|one| one.name()?.parse::<IpAddr>().ok());
    found.extend(documents);
    found
}

fn cni(config: &Config, first: &Document, role: Role) -> Cni {
    match first.at(&["cluster", "network", "cni", "name"]).and_then(Value::as_text) {
        Some("none") => Cni::None,
        Some("custom") => Cni::Custom,
        Some("flannel") => Cni::Flannel,
        // In documents of its own, Kubernetes has the plugin that is there, or none.
        _ if config.document("KubeClusterConfig").is_some() && role == Role::ControlPlane => {
            if config.document("KubeFlannelCNIConfig").is_some() { Cni::Flannel } else { Cni::None }
        }
        _ => Cni::Flannel,
    }
}

fn provider_id(config: &Config, first: &Document) -> Option<String> {
    let argument = first.at(&["machine", "kubelet", "extraArgs", "provider-id"]);
    let section = first.at(&["machine", "kubelet", "extraConfig", "providerID"]);
    let document = config.document("KubeletConfig").and_then(|one| one.at(&["config", "providerID"]));
    text(argument).or_else(|| text(section)).or_else(|| text(document))
}

pub(super) fn kubernetes_version(config: &Config, first: &Document) -> String {
    let image = text(first.at(&["machine", "kubelet", "image"]))
        .or_else(|| config.document("KubeletConfig").and_then(|one| text(one.at(&["image"]))));
    let tag =
        image.as_deref().and_then(|image| image.split('@').next()?.rsplit_once(':')).map(|(_, tag)| tag);
    // `-fat` and `-slim` are kinds of the image, not of the version.
    tag.and_then(|tag| tag.split('-').next()).unwrap_or("v1.36.3").to_owned()
}

fn scheduling(config: &Config, first: &Document) -> bool {
    let flag = first.at(&["cluster", "allowSchedulingOnControlPlanes"]).and_then(Value::as_bool);
    match config.document("KubeNodeConfig") {
        Some(node) => !pairs(node.at(&["taints"])).iter().any(|(key, _)| key.ends_with("/control-plane")),
        None => flag.unwrap_or_default(),
    }
}

fn install(config: &Config, first: &Document) -> Option<Install> {
    if let Some(document) = config.document("UnattendedInstallConfig") {
        return Some(Install {
            disk: None,
            selector: BTreeMap::new(),
            expression: text(document.at(&["provisioning", "diskSelector", "match"])),
            image: text(document.at(&["installer", "image"])),
        });
    }
    let install = first.at(&["machine", "install"])?;
    let word = |key: &&str| Some(((*key).to_owned(), text(install.at(&["diskSelector", *key]))?));
    Some(Install {
        disk: text(install.at(&["disk"])),
        selector: SELECTORS.iter().filter_map(word).collect(),
        expression: None,
        image: text(install.at(&["image"])),
    })
}

fn discovery(config: &Config, first: &Document) -> bool {
    first.at(&["cluster", "discovery", "enabled"]).and_then(Value::as_bool).unwrap_or_default()
        || config.document("DiscoveryServiceConfig").is_some()
}

/// On, unless it is switched off.
fn discovery_service(config: &Config, first: &Document) -> bool {
    let off =
        first.at(&["cluster", "discovery", "registries", "service", "disabled"]).and_then(Value::as_bool);
    discovery(config, first) && off != Some(true)
}

fn pod_subnets(config: &Config, first: &Document) -> Vec<String> {
    let legacy = texts(first.at(&["cluster", "network", "podSubnets"]));
    let found = if legacy.is_empty() {
        texts(config.document("KubeNetworkConfig").and_then(|one| one.at(&["podSubnets"])))
    } else {
        legacy
    };
    if found.is_empty() { vec!["10.244.0.0/16".to_owned()] } else { found }
}
