//! Boot source and the way configuration reaches a node: combinations that work.

use std::collections::HashSet;

use talmox_types::desired::{Boot, ConfigDelivery, NetworkMode};

use super::Subject;
use crate::file::CloudInit;
use crate::layers::Member;
use crate::problem::{Code, Problem};
use crate::read::At;
use crate::source::{Location, SourceId};

pub(super) fn check(subject: &Subject<'_>, problems: &mut Vec<Problem>) {
    let file = &subject.description.cluster.file;
    let mut reported: HashSet<Option<Location>> = HashSet::new();
    for member in &subject.members {
        let found = [
            template_without_clone(member),
            keys_without_iso(subject, member),
            file.config_delivery.as_ref().and_then(|delivery| delivery_conflict(member, delivery)),
        ];
        let new = found.into_iter().flatten().filter(|problem| reported.insert(problem.location()));
        problems.extend(new);
    }
}

fn template_without_clone(member: &Member<'_>) -> Option<Problem> {
    let template = member.pick(|s| s.template.as_ref())?;
    let boot = member.pick(|s| s.boot.as_ref()).filter(|boot| boot.value != Boot::Template)?;
    Some(
        Problem::error(Code::Hardware, format!("{}: a template is named and not booted from", member.name))
            .at(boot.location, "boots from something else")
            .related(template.location, "the template")
            .hint("remove one of the two"),
    )
}

/// Only a written choice is a mistake: left alone, the boot source follows from Secure Boot.
fn keys_without_iso(subject: &Subject<'_>, member: &Member<'_>) -> Option<Problem> {
    let secure_boot = member.pick(|s| s.secure_boot.as_ref()).filter(|at| at.value)?;
    let boot = member.pick(|s| s.boot.as_ref()).filter(|at| at.value != Boot::Iso)?;
    if !subject.description.keys_only_on_iso(member) || boot.location.source == SourceId::BUILT_IN {
        return None;
    }
    let talos = subject.description.talos_version();
    Some(
        Problem::error(
            Code::Hardware,
            format!("{}: Secure Boot needs a first boot from the ISO with Talos {talos}", member.name),
        )
        .at(boot.location, "no ISO")
        .related(secure_boot.location, "its keys are not on disk images before 1.14")
        .hint("leave boot out, use boot: iso, or Talos 1.14"),
    )
}

fn delivery_conflict(member: &Member<'_>, delivery: &At<ConfigDelivery>) -> Option<Problem> {
    match delivery.value {
        ConfigDelivery::Maintenance => None,
        ConfigDelivery::Cidata => {
            let cloud_init = member.pick(|s| s.cloud_init.as_ref())?;
            let asked = cloud_init.value == CloudInit::On && cloud_init.location.source != SourceId::BUILT_IN;
            asked.then(|| {
                Problem::error(Code::Hardware, "a VM cannot have two configuration drives")
                    .at(delivery.location, "brings a drive of its own")
                    .related(cloud_init.location, "Proxmox's drive")
                    .hint("leave cloud_init out: Talos would read whichever drive it finds first")
            })
        }
        ConfigDelivery::Url => drive_unread(member, delivery).or_else(|| {
            let mode = member.pick(|s| s.node_network.as_ref()).filter(|m| m.value == NetworkMode::Static)?;
            let problem =
                Problem::error(Code::Hardware, "configuration by URL needs DHCP for the first boot")
                    .at(delivery.location, "fetched over the network before any address is configured")
                    .hint("use node_network: dhcp with reservations, or another config_delivery");
            Some(if mode.location.source == SourceId::BUILT_IN {
                problem
            } else {
                problem.related(mode.location, "static")
            })
        }),
    }
}

fn drive_unread(member: &Member<'_>, delivery: &At<ConfigDelivery>) -> Option<Problem> {
    let cloud_init = member.pick(|s| s.cloud_init.as_ref())?;
    let asked = cloud_init.value == CloudInit::On && cloud_init.location.source != SourceId::BUILT_IN;
    asked.then(|| {
        Problem::error(Code::Hardware, "a machine that fetches its configuration reads no drive")
            .at(delivery.location, "fetched instead")
            .related(cloud_init.location, "Proxmox's drive")
            .hint("leave cloud_init out")
    })
}
