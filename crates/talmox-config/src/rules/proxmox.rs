//! What concerns the hypervisor: endpoints, hosts, VMID ranges, fields that may drift.

use std::collections::HashSet;

use talmox_types::VmId;
use talmox_types::desired::VmIdRange;

use super::Subject;
use super::identity::missing;
use crate::file::{VmIdRangeBlock, drift_field, unknown_field};
use crate::problem::{Code, Problem};
use crate::read::{At, Int};

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    endpoints(subject, problems);
    hosts(subject, problems);
    vmid_ranges(subject, problems);
    fields(subject, problems);
    incomplete_blocks(subject, problems);
}

fn endpoints(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    if let (Some(insecure), Some(pins)) = (&file.proxmox_insecure, &file.proxmox_fingerprints)
        && insecure.value
    {
        problems.push(
            Problem::warning(Code::Hardware, "proxmox_insecure makes the fingerprints pointless")
                .at(insecure.location, "trusts any certificate")
                .related(pins.location, "would be enough"),
        );
    }
}

fn hosts(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let Some(allowed) = &subject.description.cluster.file.proxmox_nodes else { return };
    if allowed.value.is_empty() {
        problems.push(
            Problem::error(Code::InvalidValue, "no host may carry VMs")
                .at(allowed.location, "empty")
                .hint("leave proxmox_nodes out to allow every host"),
        );
        return;
    }
    for (index, host) in allowed.value.iter().enumerate() {
        if let Some(first) = allowed.value[..index].iter().find(|other| other.value == host.value) {
            problems.push(
                Problem::warning(Code::AliasConflict, format!("{} is listed twice", host.value))
                    .at(host.location, "again")
                    .related(first.location, "first here"),
            );
        }
    }
    let mut reported = HashSet::new();
    for member in &subject.members {
        let Some(host) = member.pick(|s| s.host.as_ref()) else { continue };
        let listed = allowed.value.iter().any(|known| known.value == host.value);
        if !listed && reported.insert(host.location) {
            let names: Vec<&str> = allowed.value.iter().map(|at| at.value.as_str()).collect();
            problems.push(
                Problem::error(Code::InvalidValue, format!("{} is not one of proxmox_nodes", host.value))
                    .at(host.location, format!("the host of {}", member.name))
                    .related(allowed.location, "the hosts that may be used")
                    .hint(format!("add it there, or use one of {}", names.join(", "))),
            );
        }
    }
}

fn vmid_ranges(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let read = |range: &At<VmIdRangeBlock>| -> Option<VmIdRange> {
        let id = |number: u32| VmId::try_from(number).ok();
        let (start, end) = (range.start.as_ref()?, range.end.as_ref()?);
        Some(VmIdRange { start: id(start.value.to())?, end: id(end.value.to())? })
    };
    for range in [&file.proxmox_vmid_range, &file.proxmox_template_vmid_range].into_iter().flatten() {
        for (key, there) in [("start", range.start.is_some()), ("end", range.end.is_some())] {
            if !there && !range.broken.contains(&key) {
                problems.push(missing("a range of VMIDs", key, range));
            }
        }
        if let Some(ids) = read(range)
            && ids.start > ids.end
        {
            problems.push(
                Problem::error(Code::VmIdRange, format!("the range {} to {} is empty", ids.start, ids.end))
                    .at(range.location, "ends before it starts"),
            );
        }
    }
    let (nodes, templates) = subject.description.vmid_ranges();
    let place = file.proxmox_vmid_range.as_ref().or(file.proxmox_template_vmid_range.as_ref());
    if let Some(place) = place
        && nodes.start <= nodes.end
        && templates.start <= templates.end
        && nodes.overlaps(&templates)
    {
        problems.push(
            Problem::error(Code::VmIdRange, "VMIDs of nodes and templates overlap")
                .at(
                    place.location,
                    format!("{}–{} and {}–{}", nodes.start, nodes.end, templates.start, templates.end),
                )
                .hint("templates default to 9000–9099"),
        );
    }
    let declared = subject.members.iter().filter_map(|member| member.node?.vm_id.as_ref());
    let in_range = |range: VmIdRange| {
        move |id: &&At<Int<100, 999_999_999>>| {
            (range.start.get()..=range.end.get()).contains(&id.value.to::<u32>())
        }
    };
    for id in declared.clone().filter(in_range(templates)) {
        problems.push(
            Problem::error(Code::VmIdRange, format!("VMID {} is kept for templates", id.value.to::<u32>()))
                .at(id.location, format!("in {}–{}", templates.start, templates.end))
                .hint("choose another one, or move proxmox_template_vmid_range"),
        );
    }
    let taken = declared.filter(in_range(nodes)).count();
    let needed = subject.members.iter().filter(|m| m.node.is_none_or(|node| node.vm_id.is_none())).count();
    let free = if nodes.start <= nodes.end { (nodes.count() as usize).saturating_sub(taken) } else { return };
    if free < needed
        && let Some(place) = place.map(|at| at.location).or(subject.description.top)
    {
        problems.push(
            Problem::error(Code::VmIdRange, format!("{free} free VMIDs are too few for {needed} nodes"))
                .at(place, "proxmox_vmid_range is too small"),
        );
    }
}

fn fields(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    for field in subject.description.cluster.file.ignore_drift.iter().flat_map(|at| &at.value) {
        if let Err(unknown) = drift_field(&field.value.0) {
            problems.push(unknown_field(&unknown).at(field.location, "no such field"));
        }
    }
}

/// Blocks with keys they cannot do without.
fn incomplete_blocks(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    for route in file.node_routes.iter().flat_map(|at| &at.value) {
        if route.network.is_none() && !route.broken.contains(&"network") {
            problems.push(missing("a route", "network", route));
        }
        if route.gateway.is_none() && !route.broken.contains(&"gateway") {
            problems.push(missing("a route", "gateway", route));
        }
    }
    if let Some(backup) = &file.etcd_backup
        && backup.dir.is_none()
        && !backup.broken.contains(&"dir")
    {
        problems.push(missing("etcd_backup", "dir", backup));
    }
    for service in file.extension_services.iter().flat_map(|at| &at.value) {
        if service.name.is_none() && !service.broken.contains(&"name") {
            problems.push(missing("an extension service", "name", service));
        }
        for file in service.config_files.iter().flat_map(|at| &at.value) {
            for (key, there) in
                [("mount_path", file.mount_path.is_some()), ("content", file.content.is_some())]
            {
                if !there && !file.broken.contains(&key) {
                    problems.push(missing("a file of an extension service", key, file));
                }
            }
        }
    }
    if let Some(overlay) = file.schematic.as_ref().and_then(|at| at.overlay.as_ref())
        && (overlay.image.is_none() || overlay.name.is_none())
        && overlay.broken.is_empty()
    {
        problems.push(missing("an overlay", "image and name", overlay));
    }
}
