//! Which host a new VM goes to and which template it is cloned from.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::desired::{Desired, Node, PciSource, Role, Spread, TemplateRef};
use talmox_types::{HostName, NodeName};

use crate::{CloneKind, Guest, GuestKind, Identities, Observed, Storage, TemplateSource};

/// Where a VM is made.
pub(super) struct Place<'a> {
    pub host: HostName,
    pub source: TemplateSource,
    pub clone: CloneKind,
    pub template: &'a VmConfig,
    /// What people should know of the choice.
    pub note: Option<String>,
}

/// Why there is no place, and what can be done.
pub(super) struct NoPlace {
    pub problem: String,
    pub choices: Vec<String>,
}

/// Who is where already.
pub(super) struct Places {
    hosts: BTreeMap<HostName, Vec<(NodeName, Role)>>,
}

impl Places {
    pub(super) fn new(desired: &Desired, identities: &Identities) -> Self {
        let mut places = Self { hosts: BTreeMap::new() };
        for owned in identities.ours() {
            if let Some(node) = desired.nodes.iter().find(|node| node.name == owned.mark.node) {
                places.add(&owned.host, node);
            }
        }
        places
    }

    pub(super) fn add(&mut self, host: &HostName, node: &Node) {
        self.hosts.entry(host.clone()).or_default().push((node.name.clone(), node.role));
    }

    pub(super) fn remove(&mut self, host: &HostName, node: &NodeName) {
        if let Some(nodes) = self.hosts.get_mut(host) {
            nodes.retain(|(name, _)| name != node);
        }
    }

    fn on(&self, host: &HostName) -> &[(NodeName, Role)] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }

    /// Control planes apart from each other first, then evenly, then by name.
    fn load(&self, host: &HostName, role: Role) -> (usize, usize) {
        let same_role = self.on(host).iter().filter(|(_, other)| *other == role).count();
        (if role == Role::Controller { same_role } else { 0 }, self.on(host).len())
    }
}

/// Finds a place for a node that has none.
pub(super) fn find<'a>(
    desired: &Desired,
    observed: &'a Observed,
    places: &Places,
    node: &Node,
) -> Result<Place<'a>, NoPlace> {
    let templates = matching(observed, node)?;
    let hosts = candidates(desired, observed, node)?;
    let mut reasons = Vec::new();
    let mut possible = Vec::new();
    for host in &hosts {
        match on_host(observed, node, host, &templates) {
            Ok(place) => possible.push(place),
            Err(reason) => reasons.push(reason),
        }
    }
    let best = possible.into_iter().min_by_key(|place| places.load(&place.host, node.role));
    let Some(mut place) = best else {
        let problem = format!("there is no host for it: {}", reasons.join("; "));
        return Err(NoPlace { problem, choices: vec!["talmox status shows what is there".to_owned()] });
    };
    let only_one = observed.hosts.len() == 1;
    spread(desired, places, node, (hosts.len(), only_one), &mut place)?;
    Ok(place)
}

fn spread(
    desired: &Desired,
    places: &Places,
    node: &Node,
    (hosts, only_one): (usize, bool),
    place: &mut Place<'_>,
) -> Result<(), NoPlace> {
    if node.role != Role::Controller {
        return Ok(());
    }
    let beside = places.on(&place.host).iter().find(|(_, role)| *role == Role::Controller);
    let Some((other, _)) = beside else { return Ok(()) };
    let why = match (&node.vm.host, hosts) {
        _ if only_one => "only one host".to_owned(),
        (Some(_), _) => "the description says so".to_owned(),
        (None, 1) => "only one host may carry it".to_owned(),
        (None, count) => format!("{count} hosts carry control planes already"),
    };
    let text = format!("same host as {other} ({why})");
    if desired.proxmox.control_plane_spread == Spread::Required {
        let choices = vec![
            "add a host, or name another one for it".to_owned(),
            "control_plane_spread: preferred allows it".to_owned(),
        ];
        return Err(NoPlace { problem: text, choices });
    }
    place.note = Some(text);
    Ok(())
}

/// Hosts that may carry the node, whatever is on them.
fn candidates(desired: &Desired, observed: &Observed, node: &Node) -> Result<Vec<HostName>, NoPlace> {
    let known = || observed.hosts.keys().map(HostName::as_str).collect::<Vec<_>>().join(", ");
    let wanted: Vec<HostName> = match &node.vm.host {
        Some(host) => vec![host.clone()],
        None if desired.proxmox.hosts.is_empty() => observed.hosts.keys().cloned().collect(),
        None => desired.proxmox.hosts.clone(),
    };
    if let Some(unknown) = wanted.iter().find(|host| !observed.hosts.contains_key(*host)) {
        return Err(NoPlace {
            problem: format!("Proxmox has no host {unknown}"),
            choices: vec![format!("its hosts are {}", known())],
        });
    }
    let online = |host: &HostName| observed.hosts.get(host).is_some_and(|host| host.online);
    let (up, down): (Vec<HostName>, Vec<HostName>) = wanted.into_iter().partition(online);
    if up.is_empty() {
        let down = down.iter().map(HostName::as_str).collect::<Vec<_>>().join(", ");
        let problem = format!("{down} is down");
        return Err(NoPlace {
            problem,
            choices: vec!["wait until it is back, or name another host".to_owned()],
        });
    }
    Ok(up)
}

/// A template and what is known of it.
struct Template<'a> {
    guest: &'a Guest,
    config: &'a VmConfig,
}

fn matching<'a>(observed: &'a Observed, node: &Node) -> Result<Vec<Template<'a>>, NoPlace> {
    let Some(wanted) = &node.vm.template else {
        return Err(NoPlace {
            problem: "no template is named for it".to_owned(),
            choices: vec![
                "template: NAME, a VMID, or {tags: [TAG]} of a Talos template on Proxmox".to_owned(),
            ],
        });
    };
    let is_template = |guest: &&Guest| guest.kind == GuestKind::Vm && guest.template;
    let fits: Vec<&Guest> =
        observed.guests.values().filter(is_template).filter(|guest| is_meant(wanted, guest)).collect();
    if fits.is_empty() {
        let names: BTreeSet<&str> =
            observed.guests.values().filter(is_template).filter_map(|guest| guest.name.as_deref()).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let choices = if names.is_empty() {
            vec![
                "there is none at all: make one from a Talos image, or name one the token may see".to_owned(),
            ]
        } else {
            vec![format!("templates there are: {}", names.join(", "))]
        };
        return Err(NoPlace { problem: format!("there is no template {}", described(wanted)), choices });
    }
    let read = |guest: &&'a Guest| {
        let guest: &'a Guest = guest;
        guest.seen().map(|seen| Template { guest, config: &seen.next })
    };
    let templates: Vec<Template<'a>> = fits.iter().filter_map(read).collect();
    if templates.is_empty() {
        let problem = format!("the template {} cannot be read", described(wanted));
        return Err(NoPlace {
            problem,
            choices: vec!["its host may be down, or the token may lack VM.Audit".to_owned()],
        });
    }
    Ok(templates)
}

fn described(wanted: &TemplateRef) -> String {
    match wanted {
        TemplateRef::Name(name) => name.clone(),
        TemplateRef::Id(id) => format!("with VMID {id}"),
        TemplateRef::Tagged { name, tags } => {
            let tags = tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let name = name.as_ref().map(|name| format!("{name} ")).unwrap_or_default();
            format!("{name}with the tags {tags}")
        }
    }
}

/// Whether a template is the one a node asks for.
pub(crate) fn is_meant(wanted: &TemplateRef, guest: &Guest) -> bool {
    match wanted {
        TemplateRef::Id(id) => guest.vmid == *id,
        TemplateRef::Name(name) => guest.name.as_deref() == Some(name),
        TemplateRef::Tagged { name, tags } => {
            let named = name.as_deref().is_none_or(|name| guest.name.as_deref() == Some(name));
            named && tags.iter().all(|tag| guest.tags.contains(&tag.as_str().to_ascii_lowercase()))
        }
    }
}

fn on_host<'a>(
    observed: &'a Observed,
    node: &Node,
    host: &HostName,
    templates: &[Template<'a>],
) -> Result<Place<'a>, String> {
    for storage in
        std::iter::once(&node.vm.storage).chain(node.vm.extra_disks.iter().map(|disk| &disk.storage))
    {
        usable(observed, host, storage)?;
    }
    for device in &node.vm.pci {
        if let PciSource::Mapping(mapping) = &device.source
            && !observed.mappings.get(mapping).is_some_and(|hosts| hosts.contains(host))
        {
            return Err(format!("{host} has no device of the PCI mapping {mapping}"));
        }
    }
    let target = usable(observed, host, &node.vm.storage)?;
    let mut reason = String::new();
    // One on the host itself first, then one that is reached over shared storage.
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        templates.iter().partition(|template| template.guest.host == *host);
    for template in here.into_iter().chain(elsewhere) {
        match reach(observed, template, host, target) {
            Ok(clone) => {
                let source = TemplateSource {
                    vmid: template.guest.vmid,
                    host: template.guest.host.clone(),
                    name: template.guest.name.clone().unwrap_or_else(|| template.guest.vmid.to_string()),
                };
                return Ok(Place {
                    host: host.clone(),
                    source,
                    clone,
                    template: template.config,
                    note: None,
                });
            }
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

fn usable<'a>(
    observed: &'a Observed,
    host: &HostName,
    id: &talmox_types::StorageId,
) -> Result<&'a Storage, String> {
    let Some(storage) = observed.storage(host, id) else {
        return Err(format!("{host} has no storage {id}, or the token may not see it"));
    };
    if !storage.available {
        return Err(format!("storage {id} is not available on {host}"));
    }
    if !storage.content.contains("images") {
        return Err(format!("storage {id} does not take disk images"));
    }
    Ok(storage)
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
