//! One node.

use std::collections::BTreeMap;

use talmox_types::desired::{DiskBus, Node, NodeAddress, Patch};

use super::vm;
use crate::description::Description;
use crate::layers::{Member, Rank};
use crate::source::SourceId;

pub(super) fn node(description: &Description, member: &Member<'_>) -> Node {
    Node {
        name: member.name.clone(),
        role: member.role,
        position: member.position,
        pool: member.pool.and_then(|pool| pool.name.as_ref()).map(|at| at.value.to_string()),
        address: address(member),
        vm: vm::vm(description, member),
        install_disk: install_disk(member),
        schematic_id: member.pick(|s| s.schematic_id.as_ref()).map(|at| at.value.clone()),
        disk_encryption: member.value(|s| s.disk_encryption.as_ref()),
        kernel_modules: member
            .pick(|s| s.kernel_modules.as_ref())
            .iter()
            .flat_map(|at| &at.value)
            .map(|text| text.value.0.clone())
            .collect(),
        labels: labels(member),
        annotations: annotations(member),
        taints: member
            .pick(|s| s.taints.as_ref())
            .iter()
            .flat_map(|at| &at.value)
            .map(|taint| taint.value.clone())
            .collect(),
        patches: patches(member),
    }
}

/// As written; what is built in is the name the first disk has on the usual buses.
pub(crate) fn install_disk(member: &Member<'_>) -> String {
    let written = member.pick(|s| s.disk.as_ref()).filter(|at| at.location.source != SourceId::BUILT_IN);
    match (written, member.value(|s| s.disk_bus.as_ref())) {
        (None, DiskBus::Virtio) => "/dev/vda".to_owned(),
        (Some(_), _) | (None, DiskBus::Scsi | DiskBus::Sata | DiskBus::Ide) => {
            member.value(|s| s.disk.as_ref()).0
        }
    }
}

fn address(member: &Member<'_>) -> NodeAddress {
    match member.node.and_then(|node| node.address.as_ref()) {
        Some(address) => NodeAddress::Declared(address.value),
        None => NodeAddress::FromPool(
            member
                .pool
                .and_then(|pool| pool.addresses.as_ref())
                .iter()
                .flat_map(|at| &at.value.0)
                .map(|range| range.value)
                .collect(),
        ),
    }
}

/// Labels of every layer together; for one key the nearest layer wins.
pub(crate) fn labels(member: &Member<'_>) -> BTreeMap<String, String> {
    member.all(|s| s.labels.as_ref()).flat_map(|(_, at)| at.value.0.clone()).collect()
}

/// Annotations likewise.
pub(crate) fn annotations(member: &Member<'_>) -> BTreeMap<String, String> {
    member.all(|s| s.annotations.as_ref()).flat_map(|(_, at)| at.value.0.clone()).collect()
}

/// Patches add up, the nearest last, so that it has the last word.
fn patches(member: &Member<'_>) -> Vec<Patch> {
    member
        .all(|s| s.patches.as_ref())
        .filter(|(rank, _)| *rank > Rank::BuiltIn)
        .flat_map(|(_, at)| at.value.iter().map(|patch| patch.value.clone()))
        .collect()
}
