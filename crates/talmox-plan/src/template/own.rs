//! Which templates are ours.

use talmox_pve::property::{Disk, VmConfig, VolumeId};
use talmox_types::{HostName, StorageId, TemplateMark, VmId};

use crate::{Guest, GuestKind, Observed, Power};

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
