//! Fields that a document needs, and what single fields may say.

use super::interfaces::is_wireguard_key;
use super::{Checker, list, text};
use crate::client::TalosRole;
use crate::document::Document;
use crate::scalar::{Url, address, nanoseconds, prefix};
use crate::value::{Map, Value};

/// What a field has to be.
#[derive(Clone, Copy)]
enum Rule {
    Present,
    Address,
    Prefix,
    /// A URL with one of these schemes.
    Scheme(&'static [&'static str]),
    /// One of these, if it is there.
    OneOf(&'static [&'static str]),
    /// None of these.
    NoneOf(&'static [&'static str]),
    /// A duration of at least so many seconds, if it is there.
    Seconds(i128),
    /// Lower-case letters, digits and hyphens, as Kubernetes names objects.
    ObjectName,
    /// Letters, digits, hyphens and underscores.
    StorageName,
    /// A whole number.
    Number,
    /// 32 bytes in base64.
    Key,
    /// `host:port`.
    HostPort,
}

use Rule::{
    Address, HostPort, Key, NoneOf, Number, ObjectName, OneOf, Prefix, Present, Scheme, Seconds, StorageName,
};

const RESERVED_TABLES: &[&str] = &["", "unspec", "local", "main", "default"];

/// Kind, field and rule.
const RULES: &[(&str, &[&str], Rule)] = &[
    ("BGPInstanceConfig", &["localASN"], Present),
    ("BGPInstanceConfig", &["name"], Present),
    ("BlackholeRouteConfig", &["name"], Prefix),
    ("ContainerConfig", &["image"], Present),
    ("ContainerConfig", &["name"], ObjectName),
    ("DHCPv4Config", &["name"], Present),
    ("DHCPv6Config", &["name"], Present),
    ("DiscoveryIdentityConfig", &["clusterID"], Present),
    ("DiscoveryIdentityConfig", &["clusterSecret"], Key),
    ("DiscoveryServiceConfig", &["endpoint"], Scheme(&["https", "http"])),
    ("EthernetConfig", &["name"], Present),
    ("EventSinkConfig", &["endpoint"], HostPort),
    ("ExtensionServiceConfig", &["name"], Present),
    ("ExternalVolumeConfig", &["filesystemType"], OneOf(&["virtiofs"])),
    ("ExternalVolumeConfig", &["filesystemType"], Present),
    ("ExternalVolumeConfig", &["mount", "virtiofs", "tag"], Present),
    ("FilesystemScrubConfig", &["interval"], Seconds(10)),
    ("HCloudVIPConfig", &["apiToken"], Present),
    ("HTTPProbeConfig", &["name"], Present),
    ("HTTPProbeConfig", &["url"], Scheme(&["http", "https"])),
    ("KernelModuleConfig", &["name"], Present),
    ("KmsgLogConfig", &["name"], Present),
    ("KmsgLogConfig", &["url"], Scheme(&["tcp", "udp"])),
    ("KubeAuthorizerConfig", &["type"], Present),
    ("KubeAuthorizerConfig", &["type"], OneOf(&["Node", "RBAC", "Webhook"])),
    ("KubeExternalManifestConfig", &["name"], ObjectName),
    ("KubeExternalManifestConfig", &["url"], Scheme(&["http", "https"])),
    ("KubeInlineManifestConfig", &["name"], ObjectName),
    ("KubeProxyConfig", &["mode"], OneOf(&["iptables", "ipvs", "nftables"])),
    ("KubeStaticPodConfig", &["name"], ObjectName),
    ("KubeStaticPodConfig", &["pod"], Present),
    ("LinkAliasConfig", &["name"], Present),
    ("LVMLogicalVolumeConfig", &["name"], StorageName),
    ("LVMLogicalVolumeConfig", &["provisioning", "maxSize"], Present),
    ("LVMLogicalVolumeConfig", &["provisioning", "volumeGroup"], StorageName),
    ("LVMVolumeGroupConfig", &["name"], StorageName),
    ("LVMVolumeGroupConfig", &["provisioning", "volumeSelector", "match"], Present),
    ("RAIDArrayConfig", &["name"], StorageName),
    ("RAIDArrayConfig", &["provisioning", "volumeSelector", "match"], Present),
    ("NetworkRuleConfig", &["name"], Present),
    ("RegistryAuthConfig", &["name"], Present),
    ("RegistryMirrorConfig", &["name"], Present),
    ("RegistryTLSConfig", &["name"], Present),
    ("RoutingRuleConfig", &["name"], Number),
    ("SideroLinkConfig", &["apiUrl"], Scheme(&["grpc", "https"])),
    ("StaticHostConfig", &["name"], Address),
    ("TCPProbeConfig", &["endpoint"], Present),
    ("TCPProbeConfig", &["name"], Present),
    ("VRFConfig", &["table"], NoneOf(RESERVED_TABLES)),
    ("VethConfig", &["peer", "name"], Present),
    ("WatchdogTimerConfig", &["device"], Present),
    ("WatchdogTimerConfig", &["timeout"], Seconds(10)),
];

/// Lists that must not be empty.
const FILLED: [(&str, &[&str]); 2] =
    [("NetworkRuleConfig", &["portSelector", "ports"]), ("StaticHostConfig", &["hostnames"])];

pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        for (_, path, rule) in RULES.iter().filter(|(kind, ..)| *kind == document.kind()) {
            if let Some(message) = broken(document.at(path), *rule) {
                checker.error(document, path.join("."), message);
            }
        }
        for (_, path) in FILLED.iter().filter(|(kind, _)| *kind == document.kind()) {
            if document.at(path).and_then(Value::as_list).unwrap_or_default().is_empty() {
                checker.error(document, path.join("."), "is empty");
            }
        }
        together(checker, document);
    }
}

/// What is wrong with a field.
fn broken(value: Option<&Value>, rule: Rule) -> Option<String> {
    let written = value.and_then(Value::as_text).unwrap_or_default();
    let named = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    let holds = match rule {
        Present => value.is_some(),
        Address => address(written).is_some(),
        Prefix => prefix(written).is_some(),
        Scheme(schemes) => schemes.contains(&Url::parse(written).scheme.as_str()),
        OneOf(known) => written.is_empty() || known.contains(&written),
        NoneOf(reserved) => !reserved.contains(&written),
        Seconds(least) => {
            nanoseconds(written).is_none_or(|duration| duration >= least * 1_000_000_000)
                || written.is_empty()
        }
        ObjectName => talmox_types::is_dns_name(written) && written == written.to_lowercase(),
        StorageName => !written.is_empty() && written.bytes().all(named),
        Number => written.parse::<u32>().is_ok(),
        Key => is_wireguard_key(written),
        HostPort => is_host_and_port(written),
    };
    (!holds).then(|| said(rule))
}

/// What Go splits into host and port: one colon, or one after brackets. Neither part is looked at.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    !port.contains([']', '['])
        && bare.map_or(!host.contains([':', '[', ']']), |host| !host.contains(['[', ']']))
}

fn said(rule: Rule) -> String {
    match rule {
        Present => "is missing".to_owned(),
        Address => "is an address".to_owned(),
        Prefix => "is an address with its prefix length".to_owned(),
        Scheme(schemes) => format!("is a URL that begins with {}", schemes.join(" or ")),
        OneOf(names) => format!("is one of {}", names.join(", ")),
        NoneOf(_) => "is a table of its own, with a number".to_owned(),
        Seconds(least) => format!("is at least {least}s"),
        ObjectName => "has lower-case letters, digits and hyphens".to_owned(),
        StorageName => "has letters, digits, hyphens and underscores".to_owned(),
        Number => "is a number".to_owned(),
        Key => "is 32 bytes in base64".to_owned(),
        HostPort => "is a host and a port".to_owned(),
    }
}

/// Fields that need or exclude others.
fn together(checker: &mut Checker<'_>, document: &Document) {
    let body = &document.body;
    match document.kind() {
        "RegistryAuthConfig" => {
            let ways = [
                !text(body, "username").is_empty(),
                !text(body, "auth").is_empty(),
                !text(body, "identityToken").is_empty(),
            ];
            if ways.iter().filter(|way| **way).count() > 1 {
                checker.error(document, "", "has username and password, auth, or identityToken: one of them");
            }
        }
        "TimeSyncConfig" if body.contains("ntp") && body.contains("ptp") => {
            checker.error(document, "ptp", "excludes ntp");
        }
        "DHCPv4Config" | "DHCPv6Config" => {
            let duid = text(body, "clientIdentifier") == "duid";
            if duid == text(body, "duidRaw").is_empty() {
                checker.error(document, "duidRaw", "and clientIdentifier duid need each other");
            }
        }
        "RoutingRuleConfig" => {
            let action = ["", "unspec", "unicast"].contains(&text(body, "action"));
            if action && text(body, "table").is_empty() {
                checker.error(document, "table", "is missing, or an action other than unicast");
            }
            if body.contains("fwMask") && !body.contains("fwMark") {
                checker.error(document, "fwMask", "needs fwMark");
            }
        }
        "LVMLogicalVolumeConfig" => {
            for (field, kinds) in [("mirrors", ["raid1", "raid10"]), ("stripes", ["raid0", "raid10"])] {
                if body.contains(field) && !kinds.contains(&text(body, "type")) {
                    checker.error(document, field, format!("is for {} only", kinds.join(" and ")));
                }
            }
        }
        "ExtensionServiceConfig"
            if list(body, "configFiles").is_empty() && list(body, "environment").is_empty() =>
        {
            checker.error(document, "", "needs configFiles or environment");
        }
        "ExtensionServiceConfig" => {
            items(checker, document, "configFiles", "mountPath");
            items(checker, document, "configFiles", "content");
        }
        "RegistryMirrorConfig" => mirrors(checker, document),
        "ImageVerificationConfig" => items(checker, document, "rules", "image"),
        "RegistryTLSConfig" if body.contains("clientIdentity") => {
            for key in ["cert", "key"] {
                if document
                    .at(&["clientIdentity", key])
                    .and_then(Value::as_text)
                    .unwrap_or_default()
                    .is_empty()
                {
                    checker.error(document, format!("clientIdentity.{key}"), "is missing");
                }
            }
        }
        "ResolverConfig" if checker.since(14) => items(checker, document, "nameservers", "address"),
        "KubeTalosAPIAccessConfig" => roles(checker, document),
        "EnvironmentConfig" => variables(checker, document),
        "NetworkRuleConfig" => {
            ports(checker, document);
            items(checker, document, "ingress", "subnet");
        }
        _ => {}
    }
}

/// Every item of a list has a field.
fn items(checker: &mut Checker<'_>, document: &Document, list_name: &str, field: &str) {
    for (index, item) in list(&document.body, list_name).iter().enumerate() {
        if item.at(&[field]).is_none() {
            checker.error(document, format!("{list_name}[{index}].{field}"), "is missing");
        }
    }
}

/// Every mirror is reached by HTTP.
fn mirrors(checker: &mut Checker<'_>, document: &Document) {
    items(checker, document, "endpoints", "url");
    for (index, endpoint) in list(&document.body, "endpoints").iter().enumerate() {
        let Some(url) = endpoint.at(&["url"]) else { continue };
        let scheme = Url::parse(url.as_text().unwrap_or_default()).scheme;
        if !["http", "https"].contains(&scheme.as_str()) {
            checker.error(document, format!("endpoints[{index}].url"), "begins with http:// or https://");
        }
    }
}

fn roles(checker: &mut Checker<'_>, document: &Document) {
    for (index, role) in list(&document.body, "allowedRoles").iter().enumerate() {
        if !TalosRole::ALL.iter().any(|known| role.as_text() == Some(known.name())) {
            checker.error(document, format!("allowedRoles[{index}]"), "is no role of Talos");
        }
    }
}

fn variables(checker: &mut Checker<'_>, document: &Document) {
    let variables = document.at(&["variables"]).and_then(Value::as_map);
    for name in variables.into_iter().flat_map(Map::keys) {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if name.is_empty() || !plain || name.starts_with(|c: char| c.is_ascii_digit()) {
            checker.error(document, format!("variables.{name}"), "is no name of a variable");
        }
    }
}

/// Ports are given once, and ranges go upwards.
fn ports(checker: &mut Checker<'_>, document: &Document) {
    let Some(selector) = document.at(&["portSelector"]).and_then(Value::as_map) else { return };
    let range = |value: &Value| {
        if let Some(port) = value.as_integer() {
            return Some((port, port));
        }
        let (low, high) = value.as_text()?.split_once('-')?;
        Some((low.parse().ok()?, high.parse().ok()?))
    };
    let mut ranges: Vec<(i128, i128)> = list(selector, "ports").iter().filter_map(range).collect();
    ranges.sort_unstable();
    let backwards = ranges.iter().any(|(low, high)| low > high);
    if backwards || ranges.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
        checker.error(document, "portSelector.ports", "overlap, or go backwards");
    }
}
