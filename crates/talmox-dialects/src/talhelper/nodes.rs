//! What is said of each node: its name, addresses, role and disk.

use std::net::IpAddr;

use talmox_config::Location;
use talmox_config::read::At;
use talmox_yaml::Node;

use super::draft::{Draft, Place, Whom};
use super::file::{NodeBlock, TalconfigBlock};
use super::group::path_of;
use crate::tree;

pub(super) fn convert(draft: &mut Draft<'_>, config: &TalconfigBlock) {
    for (index, at) in config.nodes.iter().flat_map(|nodes| nodes.value.iter()).enumerate() {
        node(draft, index, at);
    }
}

fn node(draft: &mut Draft<'_>, index: usize, at: &At<NodeBlock>) {
    let node = &at.value;
    let path = path_of(index, node);
    let place = |key: &str| Place { path: format!("{path}.{key}"), whom: vec![Whom::Node(index)] };
    if let Some(name) = node.hostname.as_ref().and_then(|at| draft.text(at)) {
        draft.setting(&place("hostname"), "name", &tree::text(name));
        draft.honoured(format!("{path}.hostname"), "name");
    }
    if let Some(at) = &node.ip_address {
        addresses(draft, &place("ipAddress"), &at.value.0, at.location);
    }
    if let Some(at) = &node.control_plane {
        if at.value {
            draft.setting(&place("controlPlane"), "controller", &tree::plain(&true));
        }
        draft.honoured(format!("{path}.controlPlane"), "controller");
    }
    if let Some(disk) = node.install_disk.as_ref().and_then(|at| draft.text(at)) {
        draft.setting(&place("installDisk"), "disk", &tree::text(disk));
        draft.honoured(format!("{path}.installDisk"), "disk");
    }
    if let Some(at) = &node.install_disk_selector {
        selector(draft, &place("installDiskSelector"), &at.value.0);
    }
    if node.ignore_hostname.as_ref().is_some_and(|at| at.value) {
        draft.unsupported(format!("{path}.ignoreHostname"), "VM, host and Kubernetes node have one name");
    }
}

/// The addresses of a node's block, one of each family.
pub(super) fn addresses_of(text: &str) -> Vec<IpAddr> {
    text.split(',').filter_map(|address| address.trim().parse().ok()).collect()
}

/// One of each family; names and further addresses have no place.
fn addresses(draft: &mut Draft<'_>, place: &Place, text: &str, location: Location) {
    let Some(text) = draft.substituted(text, location) else { return };
    let all = addresses_of(&text);
    let first = |v4: bool| all.iter().find(|address| address.is_ipv4() == v4);
    let kept: Vec<&IpAddr> = [first(true), first(false)].into_iter().flatten().collect();
    let written = match kept.as_slice() {
        [] => {
            draft.unsupported(place.path.as_str(), "no IP address; write address: for this node");
            return;
        }
        [one] => tree::text(one.to_string()),
        several => tree::list(several.iter().map(|address| tree::text(address.to_string()))),
    };
    draft.setting(place, "address", &written);
    if kept.len() == text.split(',').count() {
        draft.honoured(place.path.as_str(), "address");
    } else {
        draft.translated(place.path.as_str(), "address: the first of each family; the others are left out");
    }
}

/// By its serial number a disk can be named; by anything else it takes a patch.
fn selector(draft: &mut Draft<'_>, place: &Place, selector: &Node) {
    let serial = tree::get_text(selector, "serial").filter(|serial| !serial.starts_with('/'));
    match serial {
        Some(serial) if tree::entries(selector).count() == 1 => {
            draft.setting(place, "disk", &tree::text(serial));
            draft.translated(place.path.as_str(), "disk, by its serial number");
        }
        Some(_) | None => draft.legacy(place, &["machine", "install", "diskSelector"], selector),
    }
}
