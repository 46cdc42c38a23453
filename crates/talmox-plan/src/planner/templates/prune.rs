//! Templates and images that are not described any more.

use std::collections::BTreeSet;

use talmox_pve::property::{Disk, VolumeId};
use talmox_types::desired::{OUR_FILES, OUR_SEEDS, Template};
use talmox_types::sabotage::{Defect, sabotaged};
use talmox_types::{Digest16, StorageId};

use super::build::own_volumes;
use crate::planner::{Draft, Planner};
use crate::{
    Effect, ExpectedTemplate, Guest, NoteKind, OwnTemplate, Seen, Step, TemplateState, boot_iso,
    image_digest, import_image, wanted_templates,
};

impl Planner<'_> {
    /// Plans the removal of what is ours and no longer wanted, and of nothing that something stands on.
    pub(in crate::planner) fn prune_templates(&mut self) {
        let wanted = wanted_templates(self.desired);
        let digests: BTreeSet<Digest16> = wanted.iter().map(image_digest).collect();
        let mut owners: BTreeSet<String> = wanted.iter().map(|template| self.owner(template)).collect();
        owners.insert(self.uid.to_string());
        let own = self.templates.own.clone();
        // The images of templates that are wanted are known; of others that stay, only how their names begin.
        let mut kept = Vec::new();
        let asked = |template: &&OwnTemplate| self.request.prune || !digests.contains(&template.mark.image);
        for template in own.iter().filter(asked).collect::<Vec<_>>() {
            if !self.prune_template(template, &owners) {
                kept.push(template.name.clone());
            }
        }
        self.prune_images(&wanted, &kept);
    }

    /// Plans the removal of one template; false if it stays.
    fn prune_template(&mut self, own: &OwnTemplate, owners: &BTreeSet<String>) -> bool {
        let (name, vmid, host) = (&own.name, own.mark.vmid, &own.host);
        if !owners.contains(&own.mark.owner) {
            let text =
                format!("template {name} ({vmid}) on {host} was built for {}: left alone", own.mark.owner);
            self.note(None, NoteKind::Foreign, text);
            return false;
        }
        if !own.clones.is_empty() && !sabotaged(Defect::UsedTemplatePruned) {
            let clones = own.clones.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let text = format!("template {name} ({vmid}) on {host} stays: the disks of {clones} stand on it");
            self.note(None, NoteKind::Warning, text);
            return false;
        }
        if self.observed.guests.values().any(|guest| matches!(guest.config, Seen::Unreadable(_))) {
            let text =
                format!("template {name} ({vmid}) on {host} stays: a VM that cannot be read may stand on it");
            self.note(None, NoteKind::Warning, text);
            return false;
        }
        if own.state == TemplateState::Busy {
            let text = format!("template {name} ({vmid}) on {host} is busy: left for another time");
            self.note(None, NoteKind::Warning, text);
            return false;
        }
        let Some(seen) = self.observed.guests.get(&vmid).and_then(Guest::seen) else { return false };
        if seen.next.flag("protection") {
            let text = format!("template {name} ({vmid}) on {host} is protected: left alone");
            self.note(None, NoteKind::Foreign, text);
            return false;
        }
        let destroys = own_volumes(&seen.live, vmid);
        let template = ExpectedTemplate { name: name.clone(), host: host.clone(), mark: own.mark.clone() };
        let step = Step::RemoveTemplate { template };
        let reason = if self.request.prune {
            "all templates of the description were asked to go"
        } else {
            "nothing in the description asks for it"
        };
        let draft = Draft::new(None, step, reason, Effect::Destroy);
        self.push(Draft { part: Some(vmid.to_string()), destroys, ..draft });
        true
    }

    /// Plans the removal of image files no description and no template of ours needs.
    fn prune_images(&mut self, wanted: &[Template], kept: &[String]) {
        let mut files: BTreeSet<String> = BTreeSet::new();
        if !self.request.prune {
            files.extend(wanted.iter().map(|template| template.image.file.clone()));
            for node in &self.desired.nodes {
                files.extend([boot_iso(self.desired, node).file, import_image(self.desired, node).file]);
            }
        }
        let attached = self.attached();
        let observed = self.observed;
        let mut seen_shared: BTreeSet<(StorageId, VolumeId)> = BTreeSet::new();
        for ((host, storage), found) in &observed.files {
            let shared = observed.storage(host, storage).is_some_and(|storage| storage.shared);
            for file in found {
                let name = file.volume.file_name();
                let needed = files.contains(name)
                    || attached.contains(&file.volume)
                    || kept.iter().any(|template| name.starts_with(&format!("{OUR_FILES}{template}-")));
                // Drives of this cluster go by themselves, and another's are none of our business.
                let drive = name.starts_with(OUR_SEEDS);
                let again = shared && !seen_shared.insert((storage.clone(), file.volume.clone()));
                if !name.starts_with(OUR_FILES) || drive || needed || again {
                    continue;
                }
                let step = Step::RemoveImage { host: host.clone(), volume: file.volume.clone() };
                let reason = "no template of ours is made from it";
                let part = Some(format!("{host}-{storage}-{name}"));
                self.push(Draft { part, ..Draft::new(None, step, reason, Effect::Destroy) });
            }
        }
    }

    /// Volumes in any drive of any VM.
    fn attached(&self) -> BTreeSet<VolumeId> {
        let configs = self.observed.guests.values().filter_map(Guest::seen);
        let drives = configs.flat_map(|seen| seen.live.slots().chain(seen.next.slots()));
        let drives = drives.filter(|(slot, _)| slot.holds_volume());
        drives.filter_map(|(_, text)| Disk::parse(text).ok()?.source.volume().cloned()).collect()
    }
}
