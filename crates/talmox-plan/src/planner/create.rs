//! Nodes that have no VM yet.

use std::collections::{BTreeMap, BTreeSet};

use talmox_pve::property::{Disk, DriveSource, VmConfig, VolumeId};
use talmox_types::desired::{Boot, Node, PciSource, Power as WantedPower, Role};
use talmox_types::{HostName, Mark, NodeName, VmId};

use super::place::{self, NoPlace, Origin, Place};
use super::templates::volume as image_volume;
use super::{Draft, Planner};
use crate::{
    CloneKind, Effect, Expected, FileKind, Intent, NoteKind, Owned, Power, Step, StepId, Waiting,
    uses_managed_template,
};

impl Planner<'_> {
    /// Plans the making of a VM, unless something may be it already.
    pub(super) fn missing(&mut self, node: &Node) {
        if self.is_blind(Some(&node.name)) || self.may_be_unreadable(node) || self.may_be_in_flight(node) {
            return;
        }
        if !self.kept_disks_of_a_lost_host(node) {
            return;
        }
        // What was kept for it is where it was before.
        let now_on = self.shelf_host(&node.name);
        if now_on.is_some() && !self.kept_disks_come_along(node, None) {
            return;
        }
        let Some(vmid) = self.free_id(node) else { return };
        let Some(after) = self.forget_former(node) else { return };
        self.create(node, vmid, After { steps: after, now_on });
    }

    /// Plans the removal of a node's VM and the making of another with the same id.
    pub(super) fn replace(&mut self, node: &Node, owned: &Owned) {
        if self.is_blind(Some(&node.name)) {
            return;
        }
        let vmid = node.vm.id.unwrap_or(owned.mark.vmid);
        if vmid != owned.mark.vmid && !self.ids.is_free(vmid) {
            self.refuse_taken_id(node, vmid);
            return;
        }
        if self.others_are_off(node) || !self.kept_disks_come_along(node, Some(&owned.host)) {
            return;
        }
        let source = self.source_of(node, &owned.host);
        let first = self.plan.steps.len();
        if let Some(removed) = self.remove(owned, Some(node), Effect::Replace) {
            self.begin_after(first, &source);
            if let Some(guest) = self.observed.guests.get(&owned.mark.vmid) {
                self.places.remove(self.observed, guest, &node.name);
            }
            let after = After { steps: vec![removed], now_on: Some(owned.host.clone()) };
            if let Some(vm) = self.create(node, vmid, after) {
                self.join_anew(node, vm);
            }
        }
    }

    /// Refuses to build a control plane anew while all others are off: nobody could take it out of etcd, which would go on counting on
    /// what it has forgotten.
    fn others_are_off(&mut self, node: &Node) -> bool {
        let begun =
            self.identities.ours().any(|owned| owned.mark.bootstrap.as_ref().is_some_and(|word| word.done));
        let gives_up = self.request.upkeep.restore.is_some() || !self.given_up.is_empty();
        if node.role != Role::Controller || !self.request.looks_inside() || self.lives() || gives_up || !begun
        {
            return false;
        }
        let others = self.desired.nodes.iter().filter(|one| one.role == Role::Controller);
        let others = others.filter(|one| one.name != node.name && !self.is_replaced(&one.name));
        let is_off = |one: &&Node| {
            let mut vms = self.identities.of_node(&one.name).filter(|owned| owned.finished);
            vms.any(|owned| {
                self.observed.guests.get(&owned.mark.vmid).is_some_and(|vm| vm.power == Power::Stopped)
            })
        };
        let off: Vec<&str> = others.filter(is_off).map(|one| one.name.as_str()).collect();
        if off.is_empty() {
            return false;
        }
        let problem =
            format!("it would not have left etcd: {} could let it go, and does not run", off.join(", "));
        let choices = vec![format!("start the others first: talmox apply --target {}", off.join(","))];
        self.refuse(Some(&node.name), problem, choices);
        true
    }

    /// Plans what a VM that is built anew will be made from, if it is not there yet; gives what has to be done for it.
    fn source_of(&mut self, node: &Node, now_on: &HostName) -> Vec<StepId> {
        let mut from_iso = node.clone();
        from_iso.vm.boot = Boot::Iso;
        let place = self.place_for(node, Some(now_on)).or_else(|_| self.place_for(&from_iso, Some(now_on)));
        let Ok(Place { host, origin, .. }) = place else { return Vec::new() };
        match origin {
            Origin::Template { .. } => Vec::new(),
            Origin::Build { template, site, .. } => {
                self.build_template(&template, &site).map(|built| built.done).into_iter().collect()
            }
            Origin::Image { content, image, storage } => self.fetch(&host, &storage, content, &image),
        }
    }

    /// Lets nothing of what was planned from here on begin before these are done: while nobody knows whether another VM can be made,
    /// the one that is there stays.
    fn begin_after(&mut self, first: usize, needs: &[StepId]) {
        let own: BTreeSet<StepId> = self.plan.steps[first..].iter().map(|step| step.id.clone()).collect();
        for step in &mut self.plan.steps[first..] {
            if !step.needs.iter().any(|need| own.contains(need)) {
                step.needs.extend(needs.iter().cloned());
            }
        }
    }

    /// Whether there is a place for a VM that is built anew and what it is made from, and the disks it keeps can come along.
    fn kept_disks_come_along(&mut self, node: &Node, now_on: Option<&HostName>) -> bool {
        let goes = now_on.is_some();
        let now_on = now_on.cloned().or_else(|| self.shelf_host(&node.name));
        let possible = self.as_possible(node, now_on.as_ref());
        let host = match self.place_for(&possible, now_on.as_ref()) {
            Ok(Place { origin: Origin::Build { .. }, .. }) if goes && self.wait_for_templates_in_flight() => {
                let problem = "its template is being made just now, by another run or by hand".to_owned();
                self.refuse(Some(&node.name), problem, vec!["run this again once that is done".to_owned()]);
                return false;
            }
            Ok(place) => place.host,
            Err(NoPlace { problem, choices, .. }) => {
                self.refuse(Some(&node.name), problem, choices);
                return false;
            }
        };
        let observed = self.observed;
        let going = self.identities.of_node(&node.name).next();
        let going = going.and_then(|owned| observed.guests.get(&owned.mark.vmid));
        self.kept_disks_reach(node, going, &host)
    }

    /// Whether the node's VM may be one on a host that does not answer.
    fn may_be_unreadable(&mut self, node: &Node) -> bool {
        // Somebody has given their word that the host will not come back with it.
        let gone = if self.request.replace.contains(&node.name) {
            self.request.hosts.gone.clone()
        } else {
            BTreeSet::new()
        };
        let Some((host, reason)) = self.unknown.out_of_reach(node, &gone) else { return false };
        if self.request.replace.contains(&node.name) {
            let problem = format!(
                "its VM may be on {host}, which does not answer ({reason}): it would come back with it"
            );
            let choices = vec![
                format!("run this again once {host} is back"),
                format!(
                    "if {host} is gone for good: talmox apply --replace {} --host-gone {host}",
                    node.name
                ),
            ];
            self.refuse(Some(&node.name), problem, choices);
            return true;
        }
        self.wait_for_host(host, &node.name, &reason);
        true
    }

    pub(super) fn wait_for_host(&mut self, host: HostName, node: &NodeName, reason: &str) {
        for waiting in &mut self.plan.waiting {
            if let Waiting::HostDown { host: known, nodes, .. } = waiting
                && *known == host
            {
                nodes.push(node.clone());
                return;
            }
        }
        let nodes = vec![node.clone()];
        self.plan.waiting.push(Waiting::HostDown { host, nodes, reason: reason.to_owned() });
    }

    /// Whether the node's VM may be one that is just being made, by another run or by hand.
    fn may_be_in_flight(&mut self, node: &Node) -> bool {
        let mut waits = false;
        for waiting in self.unknown.in_flight() {
            if !self.plan.waiting.contains(&waiting) {
                self.plan.waiting.push(waiting);
            }
            waits = true;
        }
        if waits {
            self.follow_later(node);
        }
        waits
    }

    /// What the making of a node takes, once it is known whether it has to be made.
    pub(super) fn follow_later(&mut self, node: &Node) {
        self.create_later(node, MAKING, "unless it turns out to be there already");
        self.create_later(node, FINISHING, "unless it turns out to be there already");
    }

    /// What a VM still needs whose clone or copy Proxmox has not finished: an earlier run of ours began it. It is approved with
    /// the plan, so one run is enough to go on.
    pub(super) fn finish_later(&mut self, node: &Node) {
        self.create_later(node, FINISHING, "once Proxmox has finished making its VM");
    }

    fn create_later(&mut self, node: &Node, words: &[&str], reason: &str) {
        let applies = |word: &str| match word {
            "start" => node.vm.power == WantedPower::Running,
            "add-disk" => !node.vm.extra_disks.is_empty(),
            _ => true,
        };
        for word in words.iter().filter(|word| applies(word)) {
            self.plan.later.push(Intent {
                node: Some(node.name.clone()),
                step: (*word).to_owned(),
                effect: Effect::Create,
                reason: reason.to_owned(),
            });
        }
    }

    fn free_id(&mut self, node: &Node) -> Option<VmId> {
        if let Some(id) = node.vm.id {
            if self.ids.is_free(id) {
                return Some(id);
            }
            self.refuse_taken_id(node, id);
            return None;
        }
        let next = self.ids.next();
        if next.is_none() {
            let range = self.desired.proxmox.vmid_range;
            let problem = format!("no VMID from {} to {} is free", range.start, range.end);
            self.refuse(Some(&node.name), problem, vec!["widen proxmox_vmid_range".to_owned()]);
        }
        next
    }

    fn refuse_taken_id(&mut self, node: &Node, id: VmId) {
        let holder = self.observed.guests.get(&id);
        let name = holder.and_then(|guest| guest.name.clone()).unwrap_or_else(|| "another guest".to_owned());
        let host = holder.map(|guest| format!(" on {}", guest.host)).unwrap_or_default();
        let choices = vec!["give the node another vm_id, or none".to_owned()];
        self.refuse(Some(&node.name), format!("its VMID {id} belongs to {name}{host}"), choices);
    }

    fn place_for(&self, node: &Node, now_on: Option<&HostName>) -> Result<Place, NoPlace> {
        if !self.observed.rights.root
            && node.vm.pci.iter().any(|device| matches!(device.source, PciSource::Address(_)))
        {
            return Err(NoPlace::new(
                "only root@pam logged in by password may pass a PCI device by its address".to_owned(),
                vec![
                    "make a PCI mapping (Datacenter, Resource Mappings) and name it: vm_pci: [{mapping: NAME}]".to_owned(),
                    "log in as root@pam by password".to_owned(),
                ],
            ));
        }
        let anywhere = || place::find(self.desired, self.observed, (&self.places, &self.templates), node);
        let Some(host) = now_on.filter(|host| node.vm.host.as_ref().is_none_or(|wanted| wanted == *host))
        else {
            return anywhere();
        };
        // A VM that is built anew stays where it is, if that is still possible.
        let mut here = node.clone();
        here.vm.host = Some(host.clone());
        let mut places = self.places.clone();
        if let Some(guest) =
            self.identities.of_node(&node.name).find_map(|owned| self.observed.guests.get(&owned.mark.vmid))
        {
            places.remove(self.observed, guest, &node.name);
        }
        place::find(self.desired, self.observed, (&places, &self.templates), &here).or_else(|_| anywhere())
    }

    /// The node as it can be made: one whose image no storage takes boots from the ISO instead.
    fn as_possible(&mut self, node: &Node, now_on: Option<&HostName>) -> Node {
        let mut from_iso = node.clone();
        from_iso.vm.boot = Boot::Iso;
        let lacks = |result: Result<Place, NoPlace>| result.err().is_some_and(|no| no.for_want_of_import);
        if uses_managed_template(node)
            && lacks(self.place_for(node, now_on))
            && self.place_for(&from_iso, now_on).is_ok()
        {
            let text =
                "no storage takes import content, so it boots from the ISO and installs itself".to_owned();
            self.note(Some(&node.name), NoteKind::Placement, text);
            return from_iso;
        }
        node.clone()
    }

    /// Plans the making of a VM, after the steps that remove the one it takes the place of; gives what it will be.
    fn create(&mut self, node: &Node, vmid: VmId, after: After) -> Option<Expected> {
        let After { steps: after, now_on } = after;
        let node = &self.as_possible(node, now_on.as_ref());
        let Place { host, origin, reason: why, note } = match self.place_for(node, now_on.as_ref()) {
            Ok(place) => place,
            Err(NoPlace { problem, choices, .. }) => {
                self.refuse(Some(&node.name), problem, choices);
                return None;
            }
        };
        if !self.addresses.contains_key(&node.name) {
            let choices = vec!["widen the pool's addresses".to_owned()];
            self.refuse(Some(&node.name), "its pool has no free address left".to_owned(), choices);
            return None;
        }
        if matches!(origin, Origin::Build { .. }) && self.wait_for_templates_in_flight() {
            self.follow_later(node);
            return None;
        }
        let mark = self.new_mark(node, vmid);
        let Making { step, needs, have } = self.making(node, &host, &mark, origin)?;
        if let Some(text) = note {
            self.note(Some(&node.name), NoteKind::Placement, text);
        }
        self.places.add(self.observed, &host, node);
        let vm = Expected { host, mark: mark.clone() };
        let changes = self.fresh_changes(node, &vm, &with_identity(have, node, &mark))?;
        let what =
            if now_on.is_some() { "it is built anew, as asked" } else { "it is described and not there" };
        let reason = &format!("{what}; {why}");
        let needs = after.into_iter().chain(self.ensure_pool()).chain(needs).collect();
        let made = self.push(Draft::new(Some(&node.name), step, reason, Effect::Create).after(needs));
        self.carry_out(node, &vm, changes, vec![made], Effect::Create);
        Some(vm)
    }

    /// The step that makes a VM from what there is, and what it will look like.
    fn making(&mut self, node: &Node, host: &HostName, mark: &Mark, origin: Origin) -> Option<Making> {
        let pool = self.desired.proxmox.pool.clone();
        let (host, mark) = (host.clone(), mark.clone());
        match origin {
            Origin::Template { source, clone, config } => {
                let have = clone_of(&config, &clone);
                Some(Making {
                    step: Step::CloneVm { host, mark, template: source, clone, pool },
                    needs: Vec::new(),
                    have,
                })
            }
            Origin::Build { template, site, clone } => {
                let built = self.build_template(&template, &site)?;
                let have = clone_of(&built.config, &clone);
                let step = Step::CloneVm { host, mark, template: built.source, clone, pool };
                Some(Making { step, needs: vec![built.done], have })
            }
            Origin::Image { content, image, storage } => {
                let needs = self.fetch(&host, &storage, content, &image);
                let (set, have) =
                    from_image(node, mark.vmid, &image_volume(&storage, content, &image)?, content);
                Some(Making { step: Step::CreateVm { host, mark, set, pool }, needs, have })
            }
        }
    }
}

/// What the making of a VM waits for.
struct After {
    steps: Vec<StepId>,
    /// Where the VM is whose place it takes.
    now_on: Option<HostName>,
}

/// How a VM is made.
struct Making {
    step: Step,
    needs: Vec<StepId>,
    /// What it looks like once it is made.
    have: VmConfig,
}

/// What a VM is made with that boots from an ISO or whose disk is a copy of an image, and what it then looks like.
fn from_image(
    node: &Node,
    vmid: VmId,
    image: &VolumeId,
    content: FileKind,
) -> (BTreeMap<String, String>, VmConfig) {
    let (storage, size) = (&node.vm.storage, node.vm.disk_size);
    let disk = match content {
        FileKind::Iso => format!("{storage}:{size}"),
        FileKind::Import => format!("{storage}:0,import-from={image}"),
    };
    let slot = node.vm.disk_bus.first_slot();
    let boot = if content == FileKind::Iso { format!("order={slot};ide2") } else { format!("order={slot}") };
    let pairs = [(slot, disk.as_str()), ("scsihw", "virtio-scsi-pci"), ("ostype", "l26"), ("boot", &boot)];
    let mut set: BTreeMap<String, String> =
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    if content == FileKind::Iso {
        set.insert("ide2".to_owned(), format!("{image},media=cdrom"));
    }
    let mut have = VmConfig::default();
    for (key, value) in &set {
        have.set(key, value);
    }
    let made = format!("{storage}:vm-{vmid}-disk-0");
    have.set(slot, &if content == FileKind::Iso { format!("{made},size={size}G") } else { made });
    (set, have)
}

/// Steps that make a node's VM.
const MAKING: &[&str] = &["create-pool", "clone", "create"];

/// Steps that finish a VM once it is made.
const FINISHING: &[&str] = &["configure", "add-disk", "grow-disk", "start"];

/// What a clone of a template will look like, as far as a plan depends on it.
fn clone_of(template: &VmConfig, clone: &CloneKind) -> VmConfig {
    let mut config = template.clone();
    for key in ["template", "digest", "parent", "vmgenid", "lock", "smbios1"] {
        config.remove(key);
    }
    if let CloneKind::Full { storage } = clone {
        let moved: Vec<(String, Disk)> = config
            .slots()
            .filter(|(slot, _)| slot.is_drive())
            .filter_map(|(slot, text)| Some((slot.to_string(), Disk::parse(text).ok()?)))
            .collect();
        for (key, mut disk) in moved {
            if let DriveSource::Volume(volume) = &disk.source
                && !disk.is_cdrom()
                && let Ok(volume) = VolumeId::new(storage.clone(), volume.name())
            {
                disk.source = DriveSource::Volume(volume);
                config.set(key, &disk);
            }
        }
    }
    config
}

fn with_identity(mut config: VmConfig, node: &Node, mark: &Mark) -> VmConfig {
    config.set("name", node.name.as_str());
    config.set("description", mark);
    config
}
