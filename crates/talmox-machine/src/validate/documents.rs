//! Single documents with rules of their own: neighbours of BGP, verification of images, files below `/etc`.

use super::{Checker, flag, list, number, text};
use crate::document::Document;
use crate::scalar::{Url, nanoseconds};
use crate::value::{Map, Value};

/// The longest name of a volume from outside.
const LONGEST_EXTERNAL: usize = 34;

/// Files and folders below `/etc` that are Talos' own.
const OWN_FILES: [&str; 7] =
    ["resolv.conf", "hosts", "machine-id", "extensions.yaml", "localtime", "os-release", "xattr.conf"];
const OWN_FOLDERS: [&str; 12] = [
    "apparmor.d",
    "apparmor",
    "ca-certificates",
    "cni",
    "cri",
    "iscsi",
    "kubernetes",
    "lvm",
    "nvme",
    "pki",
    "selinux",
    "ssl",
];

pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        let body = &document.body;
        match document.kind() {
            "BGPInstanceConfig" => bgp(checker, document),
            "EtcFileConfig" => etc_file(checker, document),
            "ExternalVolumeConfig" => {
                let name = text(body, "name");
                let holds = |c: char| c.is_ascii_alphanumeric() || c == '-';
                if name.is_empty() || name.len() > LONGEST_EXTERNAL || !name.chars().all(holds) {
                    let message = format!("has up to {LONGEST_EXTERNAL} letters, digits and hyphens");
                    checker.error(document, "name", message);
                }
            }
            "ImageVerificationConfig" => {
                for (index, rule) in list(body, "rules").iter().enumerate() {
                    verification(checker, document, index, rule);
                }
            }
            "KmsgLogConfig" => {
                let url = Url::parse(text(body, "url"));
                if url.port().is_none_or(str::is_empty) || !["", "/"].contains(&url.path.as_str()) {
                    checker.error(document, "url", "has a port and no path");
                }
            }
            "ZswapConfig" if !(0..=100).contains(&number(body, "maxPoolPercent")) => {
                checker.error(document, "maxPoolPercent", "is from 0 to 100");
            }
            _ => {}
        }
    }
}

fn bgp(checker: &mut Checker<'_>, document: &Document) {
    let body = &document.body;
    if text(body, "routerID").contains(':') {
        checker.error(document, "routerID", "is an address of IPv4");
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, neighbor) in list(body, "neighbors").iter().enumerate() {
        let Some(neighbor) = neighbor.as_map() else { continue };
        let path = format!("neighbors[{index}]");
        let (address, link) = (text(neighbor, "address"), text(neighbor, "link"));
        if address.is_empty() == link.is_empty() {
            checker.error(document, &path, "has either an address or a link");
        } else if seen.contains(&address) || seen.contains(&link) {
            checker.error(document, &path, "is there twice");
        }
        seen.extend([address, link].into_iter().filter(|key| !key.is_empty()));
        if is_negative(neighbor, "holdTime") {
            checker.error(document, format!("{path}.holdTime"), "is negative");
        }
        let Some(bfd) = neighbor.get("bfd").and_then(Value::as_map) else { continue };
        if !text(body, "vrf").is_empty() {
            checker.error(document, format!("{path}.bfd"), "does not go together with vrf");
        }
        for key in ["transmitInterval", "receiveInterval"].into_iter().filter(|key| is_negative(bfd, key)) {
            checker.error(document, format!("{path}.bfd.{key}"), "is negative");
        }
    }
}

fn is_negative(map: &Map, key: &str) -> bool {
    nanoseconds(text(map, key)).is_some_and(|duration| duration < 0)
}

fn etc_file(checker: &mut Checker<'_>, document: &Document) {
    let name = text(&document.body, "name");
    let leaves = name.starts_with(['/', '.']) || name.split('/').any(|part| part == "..");
    if name.is_empty() || leaves {
        checker.error(document, "name", "is a path below /etc");
        return;
    }
    let within =
        |folder: &str| name.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if OWN_FILES.contains(&name) || OWN_FOLDERS.into_iter().any(within) {
        checker.error(document, "name", "is a file Talos writes itself");
    }
}

/// A rule says what becomes of an image in one way.
fn verification(checker: &mut Checker<'_>, document: &Document, index: usize, rule: &Value) {
    let Some(rule) = rule.as_map() else { return };
    let path = format!("rules[{index}]");
    let (keyless, public) = (rule.get("keyless"), rule.get("publicKey"));
    let ways = [flag(rule, "skip"), flag(rule, "deny"), keyless.is_some(), public.is_some()];
    if ways.iter().filter(|way| **way).count() != 1 {
        checker.error(document, &path, "has one of skip, deny, keyless and publicKey");
    }
    if let Some(keyless) = keyless.and_then(Value::as_map) {
        if text(keyless, "issuer").is_empty() {
            checker.error(document, format!("{path}.keyless.issuer"), "is missing");
        }
        if text(keyless, "subject").is_empty() && text(keyless, "subjectRegex").is_empty() {
            checker.error(document, format!("{path}.keyless"), "has a subject or a subjectRegex");
        }
    }
    if public.and_then(Value::as_map).is_some_and(|public| text(public, "certificate").is_empty()) {
        checker.error(document, format!("{path}.publicKey.certificate"), "is missing");
    }
}
