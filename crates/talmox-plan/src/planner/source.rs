//! What a node can be made from: a template somebody made, one of ours, or an image.

use std::collections::BTreeSet;

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::HostName;
use talmox_types::desired::{Boot, Desired, Node, Template as Wanted, TemplateRef};

use super::place::{NoPlace, Origin, usable};
use super::templates::{NoSite, Site, Templates, file_storage, find_site};
use crate::{
    CloneKind, FileKind, Guest, GuestKind, NamedTemplate, Observed, Storage, TemplateSource, boot_iso,
    described_template, import_image, managed_template,
};

/// What there is to make a node from.
pub(super) enum Sources<'a> {
    /// Templates somebody else made.
    Named(Vec<Template<'a>>),
    /// Templates of ours that are there, and what one is built from where there is none.
    Managed {
        ready: Vec<Template<'a>>,
        wanted: Box<Wanted>,
    },
    Iso {
        desired: &'a Desired,
    },
    Import {
        desired: &'a Desired,
    },
}

/// A template and what is known of it.
pub(super) struct Template<'a> {
    guest: &'a Guest,
    config: &'a VmConfig,
}

impl<'a> Sources<'a> {
    pub(super) fn of(
        desired: &'a Desired,
        observed: &'a Observed,
        templates: &Templates,
        node: &Node,
    ) -> Result<Self, NoPlace> {
        match (node.vm.boot, &node.vm.template) {
            (Boot::Iso, _) => Ok(Self::Iso { desired }),
            (Boot::Import, _) => Ok(Self::Import { desired }),
            (Boot::Template, Some(named)) => {
                Ok(Self::Named(matching(observed, templates.named(named), named)?))
            }
            (Boot::Template, None) => {
                let wanted = managed_template(desired, node);
                let guests = templates.ready(&wanted).filter_map(|own| observed.guests.get(&own.mark.vmid));
                let ready = guests.filter_map(Template::of).collect();
                Ok(Self::Managed { ready, wanted: Box::new(wanted) })
            }
        }
    }

    /// What the node is made from on this host.
    pub(super) fn on_host(
        &self,
        observed: &Observed,
        node: &Node,
        host: &HostName,
    ) -> Result<Origin, NoSite> {
        let target = usable(observed, host, &node.vm.storage).map_err(NoSite::NoDisk)?;
        let image = |content: FileKind, image, named: &[_]| {
            let storage = file_storage(observed, host, content, named).map_err(NoSite::NoImport)?;
            Ok(Origin::Image { content, image: Box::new(image), storage: storage.id.clone() })
        };
        match self {
            Self::Named(templates) => {
                unambiguous(templates, host).map_err(NoSite::NoDisk)?;
                reachable(observed, templates, host, target).map_err(NoSite::NoDisk)
            }
            Self::Managed { ready, wanted } => match reachable(observed, ready, host, target) {
                Ok(origin) => Ok(origin),
                Err(_) => build(observed, wanted, host, target),
            },
            Self::Iso { desired } => {
                let named = std::slice::from_ref(&desired.proxmox.iso_storage);
                image(FileKind::Iso, boot_iso(desired, node), named)
            }
            Self::Import { desired } => {
                let named: Vec<_> = desired.proxmox.image_storage.iter().cloned().collect();
                image(FileKind::Import, import_image(desired, node), &named)
            }
        }
    }
}

impl<'a> Template<'a> {
    fn of(guest: &'a Guest) -> Option<Self> {
        guest.seen().map(|seen| Template { guest, config: &seen.next })
    }
}

/// A template of ours that is built on this host, or on another that shares its storage.
fn build(observed: &Observed, wanted: &Wanted, host: &HostName, target: &Storage) -> Result<Origin, NoSite> {
    let site: Site = find_site(observed, host, wanted)?;
    let linked = site.disk == target.id && stands_on_base(&site.disk_kind);
    let clone = if linked { CloneKind::Linked } else { CloneKind::Full { storage: target.id.clone() } };
    Ok(Origin::Build { template: Box::new(wanted.clone()), site, clone })
}

/// Whether clones of a template that is built there stand on its disk: files are made as qcow2 for that.
fn stands_on_base(kind: &str) -> bool {
    matches!(kind, "zfspool" | "rbd" | "lvmthin" | "btrfs" | "dir" | "nfs" | "cifs")
}

/// On one host a name means one template: nobody can tell which of two was meant.
fn unambiguous(templates: &[Template<'_>], host: &HostName) -> Result<(), String> {
    let here: Vec<&Guest> =
        templates.iter().map(|template| template.guest).filter(|guest| guest.host == *host).collect();
    if here.len() < 2 {
        return Ok(());
    }
    let ids = here.iter().map(|guest| guest.vmid.to_string()).collect::<Vec<_>>().join(" and ");
    let name = here.first().and_then(|guest| guest.name.as_deref()).unwrap_or("that name");
    Err(format!("{host} has several templates {name} ({ids}): name one by its VMID, or by tags only it has"))
}

/// The first of these templates that can be cloned to a storage of this host.
fn reachable(
    observed: &Observed,
    templates: &[Template<'_>],
    host: &HostName,
    target: &Storage,
) -> Result<Origin, String> {
    let mut reason = String::new();
    // One on the host itself first, then one that is reached over shared storage.
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        templates.iter().partition(|template| template.guest.host == *host);
    for template in here.into_iter().chain(elsewhere) {
        match reach(observed, template, host, target) {
            Ok(clone) => {
                let guest = template.guest;
                let source = TemplateSource {
                    vmid: guest.vmid,
                    host: guest.host.clone(),
                    name: guest.name.clone().unwrap_or_else(|| guest.vmid.to_string()),
                };
                return Ok(Origin::Template { source, clone, config: Box::new(template.config.clone()) });
            }
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

/// The templates a description names, as far as anything can be cloned from them.
fn matching<'a>(
    observed: &'a Observed,
    found: &[NamedTemplate],
    wanted: &TemplateRef,
) -> Result<Vec<Template<'a>>, NoPlace> {
    let usable = found.iter().filter(|template| template.unusable.is_none());
    let guests = usable.filter_map(|template| observed.guests.get(&template.vmid));
    let templates: Vec<Template<'a>> = guests.filter_map(Template::of).collect();
    if !templates.is_empty() {
        return Ok(templates);
    }
    if found.is_empty() {
        return Err(none_of_that_name(observed, wanted));
    }
    let told = found.iter().filter_map(|template| {
        let (problem, remedy) = template.unusable.as_ref()?.words(template);
        Some((format!("{} on {} {problem}", template.vmid, template.host), remedy))
    });
    let (problems, mut remedies): (Vec<String>, Vec<String>) = told.unzip();
    remedies.dedup();
    let problem =
        format!("the template {} cannot be used: {}", described_template(wanted), problems.join("; "));
    Err(NoPlace::new(problem, remedies))
}

fn none_of_that_name(observed: &Observed, wanted: &TemplateRef) -> NoPlace {
    let templates = observed.guests.values().filter(|guest| guest.kind == GuestKind::Vm && guest.template);
    let names: BTreeSet<&str> = templates.filter_map(|guest| guest.name.as_deref()).collect();
    let choices = if names.is_empty() {
        vec![
            "there is none at all: leave it out and talmox builds one, or name one the token may see"
                .to_owned(),
        ]
    } else {
        let names: Vec<&str> = names.into_iter().collect();
        vec![format!("templates there are: {}", names.join(", "))]
    };
    NoPlace::new(format!("there is no template {}", described_template(wanted)), choices)
}

/// How a template gets to a storage of a host.
fn reach(
    observed: &Observed,
    template: &Template<'_>,
    host: &HostName,
    target: &Storage,
) -> Result<CloneKind, String> {
    let volumes = volumes(template.config);
    let here = template.guest.host == *host;
    if !here {
        let shared = |volume: &VolumeId| {
            observed.storage(&template.guest.host, volume.storage()).is_some_and(|storage| storage.shared)
        };
        let (name, from) = (template.guest.name.as_deref().unwrap_or("the template"), &template.guest.host);
        if !target.shared || !volumes.iter().all(shared) {
            return Err(format!("{name} is on {from} and its disks are not on storage that {host} shares"));
        }
    }
    let linked = volumes.iter().all(|volume| {
        *volume.storage() == target.id && volume.is_base() && clones_linked(&target.kind, volume)
    });
    Ok(if linked { CloneKind::Linked } else { CloneKind::Full { storage: target.id.clone() } })
}

/// The volumes a clone copies; a cloud-init drive is made anew.
fn volumes(config: &VmConfig) -> Vec<VolumeId> {
    let drives = config.slots().filter(|(slot, _)| slot.holds_volume());
    let disks = drives.filter_map(|(_, text)| Disk::parse(text).ok());
    disks
        .filter(|disk| !disk.is_cdrom() && !disk.is_cloud_init())
        .filter_map(|disk| disk.source.volume().cloned())
        .collect()
}

/// Whether a storage can put a clone on top of a base image instead of copying it.
fn clones_linked(kind: &str, volume: &VolumeId) -> bool {
    match kind {
        "zfspool" | "rbd" | "lvmthin" | "btrfs" => true,
        "dir" | "nfs" | "cifs" | "cephfs" => {
            volume.file_name().rsplit_once('.').is_some_and(|(_, format)| format == "qcow2")
        }
        _ => false,
    }
}
