//! Which templates are ours.

use std::collections::BTreeMap;

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::desired::{Desired, Template};
use talmox_types::{HostName, NodeName, StorageId, TemplateMark, VmId};

use super::{image_digest, managed_template, uses_managed_template};
use crate::{Guest, GuestKind, Observed, Power, identify};

/// A template that carries our mark for itself, or a VM that was to become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTemplate {
    pub mark: TemplateMark,
    pub host: HostName,
    pub name: String,
    /// Where its disk is; none if it has lost it.
    pub storage: Option<StorageId>,
    pub state: TemplateState,
    /// VMs whose disks stand on its own, as far as their names tell.
    pub clones: Vec<VmId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateState {
    /// VMs can be cloned from it.
    Ready,
    /// It was built and never converted, or only in part: the run that made it was interrupted.
    Unfinished,
    /// Proxmox is busy with it, or it was started by hand.
    Busy,
}

/// Every template of ours that was read, by id.
pub fn own_templates(observed: &Observed) -> Vec<OwnTemplate> {
    let own = observed.guests.values().filter_map(|guest| {
        let config = &guest.seen()?.live;
        let mark = config.description().and_then(TemplateMark::of_description)?;
        let own = guest.kind == GuestKind::Vm && mark.vmid == guest.vmid;
        own.then(|| OwnTemplate {
            host: guest.host.clone(),
            name: config.name().unwrap_or_default().to_owned(),
            storage: disk(config).map(|volume| volume.storage().clone()),
            state: state(guest),
            clones: clones(observed, guest.vmid),
            mark,
        })
    });
    own.collect()
}

/// Nodes whose disk stands on a template of ours that is not the described one any more, with its name. Of nodes whose disk is
/// a copy nobody can tell.
pub fn outdated(desired: &Desired, observed: &Observed) -> BTreeMap<NodeName, String> {
    let identities = identify(desired, observed);
    let mut found = BTreeMap::new();
    for node in desired.nodes.iter().filter(|node| uses_managed_template(node)) {
        let wanted = managed_template(desired, node);
        let guests = identities.of_node(&node.name).filter_map(|owned| observed.guests.get(&owned.mark.vmid));
        let disks = guests.filter_map(|guest| guest.seen()?.live.get(node.vm.disk_bus.first_slot()));
        let bases = disks.filter_map(base_of).filter_map(|base| observed.guests.get(&base));
        found.extend(bases.filter(|base| is_of_the_past(base, &wanted)).map(|base| {
            let name = base.name.clone().unwrap_or_else(|| base.vmid.to_string());
            (node.name.clone(), name)
        }));
    }
    found
}

/// The template a linked clone stands on, by the name of its volume.
fn base_of(disk: &str) -> Option<VmId> {
    let volume = Disk::parse(disk).ok()?.source.volume()?.clone();
    let mut parts = volume.name().rsplit('/');
    parts.next();
    let base = parts.find_map(|part| part.strip_prefix("base-"))?.split_once('-')?.0;
    VmId::try_from(base.parse::<u32>().ok()?).ok()
}

/// A template that nothing asks for is not read; then its name and tag have to do.
fn is_of_the_past(base: &Guest, wanted: &Template) -> bool {
    match base.seen() {
        Some(seen) => {
            let mark = seen.live.description().and_then(TemplateMark::of_description);
            mark.is_some_and(|mark| mark.image != image_digest(wanted))
        }
        None => {
            let ours = wanted.tags.first().is_some_and(|tag| base.tags.contains(tag.as_str()));
            base.template && ours && base.name.as_deref() != Some(wanted.name.as_str())
        }
    }
}

fn state(guest: &Guest) -> TemplateState {
    // Proxmox sets the flag first and turns the disks afterwards: a worker that died between the two leaves this.
    let turned = || guest.seen().and_then(|seen| disk(&seen.live)).is_none_or(|volume| volume.is_base());
    match (guest.template, guest.power) {
        _ if guest.lock.is_some() => TemplateState::Busy,
        (true, _) if !turned() => TemplateState::Unfinished,
        (true, _) => TemplateState::Ready,
        (false, Power::Stopped) => TemplateState::Unfinished,
        (false, Power::Running | Power::Unknown) => TemplateState::Busy,
    }
}

fn disk(config: &VmConfig) -> Option<VolumeId> {
    Disk::parse(config.get("scsi0")?).ok()?.source.volume().cloned()
}

/// VMs with a volume whose name says that it stands on one of this template's.
fn clones(observed: &Observed, template: VmId) -> Vec<VmId> {
    let base = format!("base-{template}-");
    let stands = |text: &str| {
        let disk = Disk::parse(text).ok();
        disk.and_then(|disk| disk.source.volume().cloned()).is_some_and(|volume| {
            let mut parts = volume.name().rsplit('/');
            parts.next();
            parts.any(|part| part.starts_with(&base))
        })
    };
    let guests = observed.guests.values().filter(|guest| guest.vmid != template);
    let guests = guests.filter(|guest| {
        guest.seen().is_some_and(|seen| {
            seen.live.slots().filter(|(slot, _)| slot.holds_volume()).any(|(_, text)| stands(text))
        })
    });
    guests.map(|guest| guest.vmid).collect()
}
