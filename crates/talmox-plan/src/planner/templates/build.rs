//! Building a template: the factory knows it, its image is fetched, a VM is made from it and becomes a template.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, NetDevice, Slot, SlotKind, Tags, VmConfig, VolumeId};
use talmox_types::desired::{Image, Template};
use talmox_types::{Digest16, HostName, PoolName, StorageId, TemplateMark, VmId};

use super::{Built, Site, key};
use crate::planner::{Draft, Planner};
use crate::{
    Applies, Change, Effect, ExpectedTemplate, FileKind, NoteKind, Seen, Step, StepId, TemplateSource,
    TemplateState, Waiting, image_digest, settings_digest,
};

/// Options that can be taken from a template when its description no longer has them.
const REMOVABLE: [&str; 9] =
    ["agent", "cpu", "vga", "tags", "onboot", "nameserver", "serial0", "machine", "balloon"];

impl Planner<'_> {
    /// Plans a template, or what is missing of one; gives what clones of it have to know.
    pub(in crate::planner) fn build_template(&mut self, template: &Template, site: &Site) -> Option<Built> {
        let digest = image_digest(template);
        let key = key(digest.clone(), site);
        if let Some(built) = self.templates.built.get(&key) {
            return Some(built.clone());
        }
        let unfinished = self.templates.at(&digest, site, TemplateState::Unfinished).cloned();
        let built = match unfinished {
            Some(own) => {
                let expected = ExpectedTemplate { name: own.name, host: own.host, mark: own.mark };
                let seen = self.observed.guests.get(&expected.vmid()).and_then(crate::Guest::seen)?;
                let set = with_addresses(options(template), &seen.next);
                let (expected, needs) = self.label(template, expected, set, Vec::new());
                self.convert(template, site, expected, needs, "its making was interrupted")
            }
            None => self.build(template, site)?,
        };
        self.templates.built.insert(key, built.clone());
        Some(built)
    }

    fn build(&mut self, template: &Template, site: &Site) -> Option<Built> {
        let Some(vmid) = self.templates.ids.next() else {
            let range = self.desired.proxmox.template_vmid_range;
            let problem = format!(
                "no VMID from {} to {} is free for the template {}",
                range.start, range.end, template.name
            );
            let choices =
                vec!["talmox template prune".to_owned(), "widen proxmox_template_vmid_range".to_owned()];
            self.refuse(None, problem, choices);
            return None;
        };
        let mut needs = self.fetch(&site.host, &site.image, FileKind::Import, &template.image);
        needs.extend(self.ensure_template_pool(template.pool.as_ref()));
        let image = volume(&site.image, FileKind::Import, &template.image)?;
        let mark = TemplateMark {
            owner: self.owner(template),
            image: image_digest(template),
            settings: not_labelled(),
            vmid,
            incarnation: self.nonce.as_str().to_owned(),
        };
        let mut set = options(template);
        // Whoever has rights on the pool alone may not tag a VM with the call that makes it.
        let tags = set.remove_entry("tags").into_iter().collect();
        set.extend(drives(template, site, &image));
        let step = Step::BuildTemplate {
            host: site.host.clone(),
            mark: mark.clone(),
            name: template.name.clone(),
            image,
            storage: site.disk.clone(),
            set,
            notes: template.notes.clone(),
            pool: template.pool.clone(),
        };
        let where_ = if site.shared {
            "none of its image is on that storage"
        } else {
            "none of its image is on that host and storage"
        };
        let draft = Draft::new(None, step, where_, Effect::Create).after(needs);
        let made = self.push(Draft { part: Some(vmid.to_string()), ..draft });
        let expected = ExpectedTemplate { name: template.name.clone(), host: site.host.clone(), mark };
        let (expected, needs) = self.label(template, expected, tags, vec![made]);
        Some(self.convert(template, site, expected, needs, "VMs are cloned from templates only"))
    }

    /// Plans what a VM that is to become a template lacks, after which its mark says that nothing does.
    fn label(
        &mut self,
        template: &Template,
        expected: ExpectedTemplate,
        set: BTreeMap<String, String>,
        needs: Vec<StepId>,
    ) -> (ExpectedTemplate, Vec<StepId>) {
        let settings = settings_digest(template);
        if expected.mark.settings == settings {
            return (expected, needs);
        }
        let mark = TemplateMark { settings, ..expected.mark.clone() };
        let after = ExpectedTemplate { mark: mark.clone(), ..expected.clone() };
        let part = Some(mark.vmid.to_string());
        let step = Step::ConfigureTemplate { template: expected, set, delete: BTreeSet::new(), mark };
        let draft = Draft::new(None, step, "it gets its tags once it is there", Effect::Create).after(needs);
        let labelled = self.push(Draft { part, ..draft });
        (after, vec![labelled])
    }

    fn convert(
        &mut self,
        template: &Template,
        site: &Site,
        expected: ExpectedTemplate,
        needs: Vec<StepId>,
        reason: &str,
    ) -> Built {
        let (host, vmid) = (expected.host.clone(), expected.vmid());
        let step = Step::ConvertTemplate { template: expected };
        let draft = Draft::new(None, step, reason, Effect::Create).after(needs);
        let done = self.push(Draft { part: Some(vmid.to_string()), ..draft });
        let source = TemplateSource { vmid, host, name: template.name.clone() };
        Built { source, config: expected_config(template, site, vmid), done }
    }

    /// Plans an image where it is not; gives what has to wait for it.
    pub(in crate::planner) fn fetch(
        &mut self,
        host: &HostName,
        storage: &StorageId,
        content: FileKind,
        image: &Image,
    ) -> Vec<StepId> {
        let files = self.observed.files.get(&(host.clone(), storage.clone()));
        let wanted = volume(storage, content, image);
        if files.is_some_and(|files| files.iter().any(|file| Some(&file.volume) == wanted.as_ref())) {
            return Vec::new();
        }
        let shared = self.observed.storage(host, storage).is_some_and(|storage| storage.shared);
        let planned = self.shared_steps().find(|planned| {
            matches!(&planned.step, Step::FetchImage { host: on, storage: to, image: planned, .. }
                if to == storage && planned.file == image.file && (shared || on == host))
        });
        if let Some(planned) = planned {
            return vec![planned.id.clone()];
        }
        let needs = self.register(image);
        let reason = self.protection(image);
        let step =
            Step::FetchImage { host: host.clone(), storage: storage.clone(), content, image: image.clone() };
        let part = Some(format!("{host}-{storage}-{}", image.file));
        let draft = Draft::new(None, step, &reason, Effect::Create).after(needs);
        vec![self.push(Draft { part, ..draft })]
    }

    pub(in crate::planner) fn register(&mut self, image: &Image) -> Vec<StepId> {
        let Some(schematic) = image.schematic.clone() else { return Vec::new() };
        let part = schematic.id.as_str()[..12].to_owned();
        let id = StepId::new(None, &format!("register-schematic-{part}"));
        if !self.shared_steps().any(|planned| planned.id == id) {
            let step = Step::RegisterSchematic { schematic };
            let reason = "the factory makes images of schematics it knows";
            self.push(Draft { part: Some(part), ..Draft::new(None, step, reason, Effect::Create) });
        }
        vec![id]
    }

    /// What keeps a wrong or broken image out.
    fn protection(&mut self, image: &Image) -> String {
        if let Some(checksum) = &image.checksum {
            return format!("it is not there; its {} is checked", checksum.algorithm().word());
        }
        if image.url.starts_with("https://") {
            return "it is not there; without a checksum, the server's certificate protects it".to_owned();
        }
        let text = format!("nothing protects {}: it comes over plain http and has no checksum", image.file);
        if !self.plan.notes.iter().any(|note| note.text == text) {
            self.note(None, NoteKind::Warning, text);
        }
        "it is not there; nothing protects it on its way".to_owned()
    }

    fn ensure_template_pool(&mut self, pool: Option<&PoolName>) -> Vec<StepId> {
        let Some(pool) = pool.filter(|pool| !self.observed.pools.contains(*pool)) else { return Vec::new() };
        let part = pool.as_str().replace('/', "-");
        let id = StepId::new(None, &format!("create-pool-{part}"));
        if !self.shared_steps().any(|planned| planned.id == id) {
            let step = Step::CreatePool { pool: pool.clone(), comment: "talmox:v1 templates".to_owned() };
            let draft = Draft::new(None, step, "templates live in it", Effect::Create);
            self.push(Draft { part: Some(part), ..draft });
        }
        vec![id]
    }

    /// Whose a template is.
    pub(super) fn owner(&self, template: &Template) -> String {
        template.owner.clone().unwrap_or_else(|| self.uid.to_string())
    }

    /// Whether something is being made on an id for templates: nobody can tell yet what it is.
    pub(in crate::planner) fn wait_for_templates_in_flight(&mut self) -> bool {
        let range = self.desired.proxmox.template_vmid_range;
        let observed = self.observed;
        let mut waits = false;
        for (_, guest) in observed.guests.range(range.start..=range.end) {
            let Some(lock) = guest.lock.clone().filter(|lock| matches!(lock.as_str(), "create" | "clone"))
            else {
                continue;
            };
            if matches!(&guest.config, Seen::Read(seen) if seen.live.description().is_some()) {
                continue;
            }
            let waiting = Waiting::InFlight { vmid: guest.vmid, host: guest.host.clone(), lock };
            if !self.plan.waiting.contains(&waiting) {
                self.plan.waiting.push(waiting);
            }
            waits = true;
        }
        waits
    }
}

/// The settings of a VM that is built and has not got all of them.
fn not_labelled() -> Digest16 {
    Digest16::parse("0000000000000000").expect("sixteen zeros are hexadecimal digits")
}

/// The volume an image is on a storage.
pub(in crate::planner) fn volume(storage: &StorageId, content: FileKind, image: &Image) -> Option<VolumeId> {
    VolumeId::new(storage.clone(), &format!("{}/{}", content.word(), image.file)).ok()
}

/// What Proxmox is sent of a template beside its drives.
pub(super) fn options(template: &Template) -> BTreeMap<String, String> {
    let mut set = template.options.clone();
    if !template.tags.is_empty() {
        set.insert("tags".to_owned(), template.tags.iter().cloned().collect::<Tags>().to_string());
    }
    if template.efi {
        set.insert("bios".to_owned(), "ovmf".to_owned());
    }
    set
}

fn drives(template: &Template, site: &Site, image: &VolumeId) -> BTreeMap<String, String> {
    let Site { disk, disk_kind, .. } = site;
    // Files others can stand on are qcow2; everywhere else the storage itself knows how.
    let format = if is_file(disk_kind) { ",format=qcow2" } else { "" };
    let options =
        if template.disk_options.is_empty() { String::new() } else { format!(",{}", template.disk_options) };
    let mut drives =
        BTreeMap::from([("scsi0".to_owned(), format!("{disk}:0,import-from={image}{format}{options}"))]);
    if template.efi {
        drives.insert("efidisk0".to_owned(), format!("{disk}:1,efitype=4m,pre-enrolled-keys=0"));
    }
    if let Some(version) = &template.tpm {
        drives.insert("tpmstate0".to_owned(), format!("{disk}:4,version={version}"));
    }
    drives
}

fn is_file(kind: &str) -> bool {
    matches!(kind, "dir" | "nfs" | "cifs")
}

/// What a template will look like, as far as clones of it depend on it. How large its disk is only its image knows.
fn expected_config(template: &Template, site: &Site, vmid: VmId) -> VmConfig {
    let mut config = VmConfig::default();
    for (key, value) in options(template) {
        config.set(key, &value);
    }
    let disk = &site.disk;
    let name = |number: u8| {
        if is_file(&site.disk_kind) {
            format!("{disk}:{vmid}/base-{vmid}-disk-{number}.qcow2")
        } else {
            format!("{disk}:base-{vmid}-disk-{number}")
        }
    };
    config.set("scsi0", &name(0));
    if template.efi {
        config.set("efidisk0", &format!("{},efitype=4m", name(1)));
    }
    if let Some(version) = &template.tpm {
        config.set("tpmstate0", &format!("{},version={version}", name(2)));
    }
    config
}

/// Network devices keep the hardware address Proxmox gave them: one that is sent without gets another.
pub(super) fn with_addresses(mut set: BTreeMap<String, String>, have: &VmConfig) -> BTreeMap<String, String> {
    for (key, value) in &mut set {
        let is_net = Slot::parse(key).is_ok_and(|slot| slot.kind() == SlotKind::Net);
        let parsed = have.get(key).filter(|_| is_net).map(NetDevice::parse);
        if let (Some(Ok(live)), Ok(wanted)) = (parsed, NetDevice::parse(value)) {
            *value = wanted.with_mac_of(&live).to_string();
        }
    }
    set
}

/// Options a template has and its description has not.
pub(super) fn superfluous(have: &VmConfig, set: &BTreeMap<String, String>) -> BTreeSet<String> {
    let device = |key: &str| Slot::parse(key).is_ok_and(|slot| !slot.holds_volume());
    let ours = have
        .iter()
        .map(|(key, _)| key)
        .filter(|key| REMOVABLE.contains(key) || device(key) || key.starts_with("ipconfig"));
    ours.filter(|key| !set.contains_key(*key)).map(str::to_owned).collect()
}

/// Old and new of what is sent, where the spelling differs.
pub(super) fn changes(
    have: &VmConfig,
    set: &BTreeMap<String, String>,
    delete: &BTreeSet<String>,
) -> Vec<Change> {
    let change = |key: &str, new: Option<&str>| Change {
        key: key.to_owned(),
        old: have.get(key).map(str::to_owned),
        new: new.map(str::to_owned),
        applies: Applies::Now,
        field: None,
        sub: Vec::new(),
    };
    let changed = set.iter().filter(|(key, value)| have.get(key) != Some(value));
    let set = changed.map(|(key, value)| change(key, Some(value)));
    set.chain(delete.iter().map(|key| change(key, None))).collect()
}

/// Every volume a VM has of its own.
pub(super) fn own_volumes(config: &VmConfig, vmid: VmId) -> Vec<crate::Volume> {
    let drives = config.slots().filter(|(slot, _)| slot.holds_volume());
    let disks = drives.filter_map(|(slot, text)| Some((slot, Disk::parse(text).ok()?)));
    let volumes = disks.filter_map(|(slot, disk)| {
        let volume = disk.source.volume().cloned().filter(|volume| volume.owner() == Some(vmid))?;
        Some(crate::Volume { slot, volume, size: disk.size })
    });
    volumes.collect()
}
