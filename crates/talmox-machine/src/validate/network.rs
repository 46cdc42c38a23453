//! Network documents.

use super::{Checker, flag, interfaces, list, number, text};
use crate::document::Document;
use crate::scalar::address;
use crate::value::Value;

pub(super) fn check(checker: &mut Checker<'_>) {
    for document in checker.config.documents() {
        match document.kind() {
            "HostnameConfig" => hostname(checker, document),
            "ResolverConfig" => resolver(checker, document),
            "KubeSpanConfig" => interfaces::kubespan_settings(checker, document, &document.body, ""),
            "Layer2VIPConfig" | "HCloudVIPConfig" => virtual_address(checker, document),
            "VLANConfig" => vlan(checker, document),
            "BondConfig" => bond(checker, document),
            "WireguardConfig" => interfaces::keys(checker, document, &document.body, ""),
            "LinkAliasConfig" if document.at(&["selector", "match"]).is_none() => {
                checker.error(document, "selector.match", "is missing");
            }
            _ => {}
        }
        if document.kind.link {
            link(checker, document);
        }
    }
}

fn hostname(checker: &mut Checker<'_>, document: &Document) {
    let auto = document.at(&["auto"]).and_then(Value::as_text);
    let name = text(&document.body, "hostname");
    if auto.is_none() && name.is_empty() {
        checker.error(document, "", "needs auto or hostname");
    }
    if auto == Some("talos-addr") {
        checker.error(document, "auto", "is stable or off");
    }
    if auto.is_some_and(|auto| auto != "off") && !name.is_empty() {
        checker.error(document, "hostname", "excludes automatic names: set auto to \"off\"");
    }
    let first = name.split('.').next().unwrap_or_default();
    if !name.is_empty() && (name.len() > 253 || !(1..=63).contains(&first.len())) {
        checker.error(document, "hostname", "is too long or begins with a dot");
    }
}

fn resolver(checker: &mut Checker<'_>, document: &Document) {
    let Some(dns) = document.at(&["hostDNS"]).and_then(Value::as_map) else { return };
    for key in ["forwardKubeDNSToHost", "resolveMemberNames"] {
        if flag(dns, key) && !flag(dns, "enabled") {
            checker.error(document, format!("hostDNS.{key}"), "needs hostDNS to be enabled");
        }
    }
}

fn virtual_address(checker: &mut Checker<'_>, document: &Document) {
    if address(text(&document.body, "name")).is_none() {
        checker.error(document, "name", "is the virtual address");
    }
    if text(&document.body, "link").is_empty() {
        checker.error(document, "link", "is missing");
    }
}

fn vlan(checker: &mut Checker<'_>, document: &Document) {
    if !(1..=4094).contains(&number(&document.body, "vlanID")) {
        checker.error(document, "vlanID", "is a number from 1 to 4094");
    }
    if text(&document.body, "parent").is_empty() {
        checker.error(document, "parent", "is missing");
    }
}

fn bond(checker: &mut Checker<'_>, document: &Document) {
    if list(&document.body, "links").is_empty() {
        checker.error(document, "links", "is empty");
    }
    if !document.body.contains("bondMode") {
        checker.error(document, "bondMode", "is missing");
    }
}

/// What all documents about links share.
fn link(checker: &mut Checker<'_>, document: &Document) {
    if text(&document.body, "name").is_empty() {
        checker.error(document, "name", "is missing");
    }
    for (index, one) in list(&document.body, "addresses").iter().enumerate() {
        let written = one.at(&["address"]).and_then(Value::as_text).unwrap_or_default();
        if written.is_empty() || is_unspecified(written) {
            checker.error(document, format!("addresses[{index}].address"), "is no address of a machine");
        }
    }
    for (index, route) in list(&document.body, "routes").iter().filter_map(Value::as_map).enumerate() {
        for key in ["destination", "gateway", "source"] {
            if is_unspecified(text(route, key)) {
                checker.error(
                    document,
                    format!("routes[{index}].{key}"),
                    "must not be all zeros; leave it out",
                );
            }
        }
    }
}

fn is_unspecified(text: &str) -> bool {
    let address = text.split('/').next().unwrap_or_default();
    address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
}
