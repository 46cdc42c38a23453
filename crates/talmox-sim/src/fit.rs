//! A world made to fit what somebody wants to try: only what is missing is added.
//!
//! Whatever is there stays as it is, so that a world can be kept, changed by hand, and fitted again to a description that
//! has grown since.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::contents::{Content, TalosImage};
use crate::files::FileFacts;
use crate::status::BROADCAST_PERIOD;
use crate::storage::Storage;
use crate::world::{PciDevice, PciMapping, Site, World};

/// Size of a template's system disk in GiB: that of an image before anybody lets it grow.
const IMAGE_GIB: u32 = 4;
const LAST_ID: u32 = 999_999_999;
/// The longest a step of fitting may take in simulated time, in milliseconds.
const PATIENCE: u64 = 3_600_000;

/// What a world shall have at least.
#[derive(Clone, Debug, Default)]
pub struct Fit {
    /// What the hosts call themselves together, if there are several.
    pub cluster: String,
    pub hosts: Vec<FitHost>,
    pub storages: Vec<FitStorage>,
    /// Bridges every host has.
    pub bridges: BTreeSet<String>,
    pub templates: Vec<FitTemplate>,
    pub mappings: Vec<FitMapping>,
    /// Files that web servers have.
    pub files: Vec<FitFile>,
}

/// A host, and how large it is at least.
#[derive(Clone, Debug, Default)]
pub struct FitHost {
    pub name: String,
    pub cpus: u32,
    /// Bytes.
    pub memory: u64,
    /// Addresses of devices that can be handed to VMs.
    pub devices: BTreeSet<String>,
}

/// A storage that every host sees.
#[derive(Clone, Debug, Default)]
pub struct FitStorage {
    pub id: String,
    /// `zfspool`, `lvmthin`, `rbd`, `dir` and so on; by the name if not given.
    pub kind: Option<String>,
    /// Kinds of content it takes, as far as a storage of its kind can.
    pub content: BTreeSet<String>,
    /// Bytes.
    pub size: u64,
}

impl FitStorage {
    /// What it will be, if it is not there yet.
    pub fn kind(&self) -> &str {
        let name = self.id.to_lowercase();
        let by_name = || KINDS.iter().find(|(word, _)| name.contains(word)).map_or("dir", |(_, kind)| kind);
        self.kind.as_deref().unwrap_or_else(by_name)
    }

    /// Whether all hosts will see the same volumes on it.
    pub fn is_shared(&self) -> bool {
        matches!(self.kind(), "rbd" | "nfs" | "cifs" | "cephfs")
    }
}

/// A template that VMs on these hosts are cloned from.
#[derive(Clone, Debug, Default)]
pub struct FitTemplate {
    /// The only id that will do; otherwise the next free one from `first_id` on.
    pub vmid: Option<u32>,
    pub first_id: u32,
    pub name: String,
    pub tags: BTreeSet<String>,
    /// On a storage that is not shared each of them gets its own, unless the id is given: then the first has it.
    pub hosts: Vec<String>,
    pub storage: String,
    pub bridge: String,
    pub uefi: bool,
    /// What is on its disk, if it is Talos.
    pub talos: Option<TalosImage>,
}

/// A name for devices, of which every host has so many.
#[derive(Clone, Debug, Default)]
pub struct FitMapping {
    pub name: String,
    pub devices: u32,
}

/// A disk image behind a URL.
#[derive(Clone, Debug, Default)]
pub struct FitFile {
    pub url: String,
    /// `qcow2`, `raw`, `vmdk`.
    pub format: String,
    /// Bytes, of the file and of the disk it makes.
    pub size: u64,
    pub virtual_size: u64,
    /// What is in it, if it is Talos.
    pub talos: Option<TalosImage>,
}

/// Something could not be added: the cluster has no quorum, or a storage is full.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("could not make {what}: {reason}")]
pub struct FitError {
    pub what: String,
    pub reason: String,
}

impl World {
    /// Adds what is missing. Time passes until the cluster knows of it. Returns whether anything was added.
    pub fn fit(&mut self, fit: &Fit) -> Result<bool, FitError> {
        let mut added = false;
        for host in &fit.hosts {
            added |= self.fit_host(host, &fit.bridges);
        }
        added |= self.fit_cluster(&fit.cluster);
        for storage in &fit.storages {
            added |= self.fit_storage(storage);
        }
        for mapping in &fit.mappings {
            added |= self.fit_mapping(mapping);
        }
        for file in &fit.files {
            added |= self.fit_file(file);
        }
        let mut made = false;
        for template in &fit.templates {
            made |= self.fit_template(template)?;
        }
        if made {
            // What was just made has no name until its host has told the others.
            self.advance_to(self.clock + 2 * BROADCAST_PERIOD);
        }
        Ok(added || made)
    }

    fn fit_host(&mut self, wanted: &FitHost, bridges: &BTreeSet<String>) -> bool {
        let missing = !self.nodes.contains_key(&wanted.name);
        if missing {
            self.add_node(&wanted.name, "127.0.0.1");
        }
        let Some(node) = self.nodes.get_mut(&wanted.name) else { return missing };
        let before = (node.cpus, node.memory, node.bridges.len(), node.pci.len());
        node.cpus = node.cpus.max(wanted.cpus);
        node.memory = node.memory.max(wanted.memory);
        node.bridges.extend(bridges.iter().cloned());
        for address in &wanted.devices {
            if !node.pci.iter().any(|device| device.address == *address) {
                node.pci.push(gpu(address, node.pci.len()));
            }
        }
        missing || before != (node.cpus, node.memory, node.bridges.len(), node.pci.len())
    }

    /// Hosts that are several form a cluster, and every one that joins changes its configuration.
    fn fit_cluster(&mut self, name: &str) -> bool {
        let hosts = u32::try_from(self.nodes.len()).unwrap_or_default();
        match &mut self.cluster {
            None if hosts > 1 => {
                self.cluster = Some((name.to_owned(), hosts));
                true
            }
            Some((_, version)) if *version < hosts => {
                *version = hosts;
                true
            }
            Some(_) | None => false,
        }
    }

    fn fit_storage(&mut self, wanted: &FitStorage) -> bool {
        let Some(storage) = self.storages.iter_mut().find(|storage| storage.id == wanted.id) else {
            self.storages.push(new_storage(wanted));
            return true;
        };
        let before = (storage.content.len(), storage.total);
        let takes = possible(storage, &wanted.content);
        storage.content.extend(takes);
        storage.total = storage.total.map(|total| total.max(wanted.size));
        before != (storage.content.len(), storage.total)
    }

    fn fit_mapping(&mut self, wanted: &FitMapping) -> bool {
        let mut added = false;
        for (name, node) in &mut self.nodes {
            let mapping = self
                .pci_mappings
                .entry(wanted.name.clone())
                .or_insert_with(|| PciMapping { map: Vec::new(), options: BTreeMap::new() });
            let here = format!("node={name},");
            let there = mapping.map.iter().filter(|entry| format!("{entry},").contains(&here)).count();
            for _ in there..usize::try_from(wanted.devices).unwrap_or_default() {
                let address = free_address(node);
                let device = gpu(&address, node.pci.len());
                let bare = |text: &str| text.trim_start_matches("0x").to_owned();
                let ids = format!("{}:{}", bare(&device.vendor), bare(&device.device));
                mapping.map.push(format!(
                    "id={ids},iommugroup={},node={name},path={address},subsystem-id={ids}",
                    device.iommu_group
                ));
                node.pci.push(device);
                added = true;
            }
        }
        added
    }

    /// Nobody has seen the file's bytes, so any checksum may be theirs.
    fn fit_file(&mut self, wanted: &FitFile) -> bool {
        let rest = wanted.url.split_once("://").map_or(wanted.url.as_str(), |(_, rest)| rest);
        let Some((host, path)) = rest.split_once('/') else { return false };
        let site = self.sites.entry(host.to_owned()).or_insert_with(|| Site { files: BTreeMap::new() });
        let path = path.split('?').next().unwrap_or_default();
        if site.files.contains_key(path) {
            return false;
        }
        let file = FileFacts {
            size: wanted.size,
            format: Some(wanted.format.clone()),
            virtual_size: Some(wanted.virtual_size),
            content: wanted.talos.clone().map_or(Content::Other, Content::Talos),
            ..FileFacts::default()
        };
        site.files.insert(path.to_owned(), file);
        true
    }

    fn fit_template(&mut self, wanted: &FitTemplate) -> Result<bool, FitError> {
        if let Some(vmid) = wanted.vmid {
            let Some(host) = wanted.hosts.first().filter(|_| !self.vms.contains_key(&vmid)) else {
                return Ok(false);
            };
            return self.make_template(wanted, vmid, host).map(|()| true);
        }
        let shared = self.storage(&wanted.storage).is_ok_and(|storage| storage.shared);
        let mut made = false;
        for host in wanted.hosts.iter().take(if shared { 1 } else { usize::MAX }) {
            if self.has_template(wanted, (!shared).then_some(host)) {
                continue;
            }
            let free = (wanted.first_id..=LAST_ID).find(|id| !self.vms.contains_key(id)).unwrap_or(LAST_ID);
            self.make_template(wanted, free, host)?;
            made = true;
        }
        Ok(made)
    }

    /// Whether there is one that will do, on that host or on any.
    fn has_template(&self, wanted: &FitTemplate, host: Option<&String>) -> bool {
        self.vms.values().any(|vm| {
            let tags: BTreeSet<&str> =
                vm.config.get("tags").into_iter().flat_map(|tags| tags.split(';')).collect();
            vm.is_template()
                && host.is_none_or(|host| vm.node == *host)
                && vm.config.get("name").is_some_and(|name| *name == wanted.name)
                && wanted.tags.iter().all(|tag| tags.contains(tag.as_str()))
        })
    }

    fn make_template(&mut self, wanted: &FitTemplate, vmid: u32, host: &str) -> Result<(), FitError> {
        let failed =
            |reason| FitError { what: format!("template {} ({vmid}) on {host}", wanted.name), reason };
        let files = self.storage(&wanted.storage).is_ok_and(Storage::holds_files);
        let form = template_form(wanted, vmid, files);
        let form: Vec<(&str, &str)> = form.iter().map(|(key, value)| (*key, value.as_str())).collect();
        self.work_as_root("POST", &format!("/nodes/{host}/qemu"), &form).map_err(failed)?;
        if let Some(image) = &wanted.talos {
            self.write_image(vmid, image);
        }
        let path = format!("/nodes/{host}/qemu/{vmid}/template");
        self.work_as_root("POST", &path, &[]).map_err(failed)
    }

    /// Puts Talos on a VM's first disk, as somebody would have who made a template by hand.
    fn write_image(&mut self, vmid: u32, image: &TalosImage) {
        let Some(vm) = self.vms.get(&vmid) else { return };
        let (node, drives) = (vm.node.clone(), vm.drives());
        let Some(disk) = drives.iter().find(|drive| drive.key == "scsi0") else { return };
        if let Some(volume) = self.volume_mut(&node, disk.file()) {
            volume.holds = Content::Talos(image.clone());
        }
    }

    /// A call of the administrator's, and the task it starts to its end.
    fn work_as_root(&mut self, method: &str, path: &str, form: &[(&str, &str)]) -> Result<(), String> {
        let answer = self.root_call(method, path, form)?;
        let Value::String(upid) = answer else { return Ok(()) };
        let deadline = self.clock + PATIENCE;
        loop {
            match self.task_status(&upid) {
                Some(Some("OK")) => return Ok(()),
                Some(Some(words)) => return Err(words.to_owned()),
                Some(None) | None => {}
            }
            let next = self.next_event().filter(|at| *at <= deadline);
            self.advance_to(next.ok_or("it does not end")?);
        }
    }
}

fn template_form(wanted: &FitTemplate, vmid: u32, files: bool) -> Vec<(&'static str, String)> {
    let FitTemplate { name, tags, storage, bridge, uefi, .. } = wanted;
    let format = if files { ",format=qcow2" } else { "" };
    let mut form = vec![
        ("vmid", vmid.to_string()),
        ("name", name.clone()),
        ("machine", "q35".to_owned()),
        ("ostype", "l26".to_owned()),
        ("cpu", "host".to_owned()),
        ("cores", "2".to_owned()),
        ("memory", "2048".to_owned()),
        ("scsihw", "virtio-scsi-pci".to_owned()),
        ("scsi0", format!("{storage}:{IMAGE_GIB},discard=on,ssd=1{format}")),
        ("net0", format!("virtio,bridge={bridge}")),
        ("serial0", "socket".to_owned()),
        ("agent", "1".to_owned()),
        ("boot", "order=scsi0".to_owned()),
    ];
    if *uefi {
        form.push(("bios", "ovmf".to_owned()));
        form.push(("efidisk0", format!("{storage}:1,efitype=4m{format}")));
    }
    if !tags.is_empty() {
        form.push(("tags", tags.iter().cloned().collect::<Vec<_>>().join(";")));
    }
    form
}

/// Kinds of storage by words their names contain, the more telling ones first; files or not and shared or not follow.
const KINDS: [(&str, &str); 9] = [
    ("zfs", "zfspool"),
    ("thin", "lvmthin"),
    ("lvm", "lvmthin"),
    ("cephfs", "cephfs"),
    ("ceph", "rbd"),
    ("rbd", "rbd"),
    ("nfs", "nfs"),
    ("cifs", "cifs"),
    ("smb", "cifs"),
];

fn new_storage(wanted: &FitStorage) -> Storage {
    let mut storage = Storage::of_kind(&wanted.id, wanted.kind(), wanted.size);
    storage.content = possible(&storage, &wanted.content);
    storage
}

/// What of it a storage of this kind can take.
fn possible(storage: &Storage, content: &BTreeSet<String>) -> BTreeSet<String> {
    content.iter().filter(|name| storage.traits().content.contains(&name.as_str())).cloned().collect()
}

fn free_address(node: &crate::world::Node) -> String {
    let taken = |address: &String| node.pci.iter().any(|device| device.address == *address);
    (1..=0xff_u32)
        .map(|bus| format!("0000:{bus:02x}:00.0"))
        .find(|address| !taken(address))
        .unwrap_or_default()
}

fn gpu(address: &str, count: usize) -> PciDevice {
    PciDevice {
        address: address.to_owned(),
        class: "0x030200".to_owned(),
        vendor: "0x10de".to_owned(),
        device: "0x20b0".to_owned(),
        iommu_group: 12 + i32::try_from(count).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::starter::Starter;

    fn words(text: &str) -> BTreeSet<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn storage(id: &str) -> FitStorage {
        FitStorage { id: id.into(), content: words("images iso"), size: 1 << 40, ..FitStorage::default() }
    }

    fn fit(hosts: &[&str], disks: &str) -> Fit {
        let host =
            |name: &&str| FitHost { name: (*name).to_owned(), memory: 128 << 30, ..FitHost::default() };
        let template = FitTemplate {
            first_id: 9000,
            name: "talos".into(),
            tags: words("prod"),
            hosts: hosts.iter().map(|name| (*name).to_owned()).collect(),
            storage: disks.into(),
            bridge: "vmbr1".into(),
            uefi: true,
            ..FitTemplate::default()
        };
        Fit {
            cluster: "home".into(),
            hosts: hosts.iter().map(host).collect(),
            storages: vec![storage("local"), storage(disks)],
            bridges: words("vmbr0 vmbr1"),
            templates: vec![template],
            files: Vec::new(),
            mappings: vec![FitMapping { name: "gpu".into(), devices: 2 }],
        }
    }

    fn fitted(fit: &Fit) -> World {
        let mut world = Starter::bare(1, 1_800_000_000_000).world;
        assert_eq!(world.fit(fit), Ok(true));
        world
    }

    fn templates(world: &World) -> Vec<(u32, &str)> {
        let all = world.vms.iter().filter(|(_, vm)| vm.is_template());
        all.map(|(vmid, vm)| (*vmid, vm.node.as_str())).collect()
    }

    #[test]
    fn a_fitted_world_is_left_alone() {
        let fit = fit(&["pve"], "local-zfs");
        let mut world = fitted(&fit);
        let before = world.save();
        assert_eq!(world.fit(&fit), Ok(false));
        assert_eq!(world.save(), before);
        assert_eq!(world.cluster, None, "one host stands alone");
    }

    #[test]
    fn a_template_is_like_one_made_by_hand() {
        let world = fitted(&fit(&["pve"], "local-zfs"));
        let vm = &world.vms[&9000];
        assert_eq!(vm.config["scsi0"], "local-zfs:base-9000-disk-1,discard=on,size=4G,ssd=1");
        assert_eq!(vm.config["efidisk0"], "local-zfs:base-9000-disk-0,efitype=4m,size=1M");
        assert_eq!((vm.config["template"].as_str(), vm.lock()), ("1", None));
        assert_eq!(world.volume_ids("pve", "local-zfs").len(), 2);
        let shown = crate::api::cluster::vm_entry(&world, 9000).unwrap();
        assert_eq!((&shown["name"], &shown["template"]), (&Value::from("talos"), &Value::from(1)));
    }

    #[test]
    fn every_kind_of_storage_that_holds_disks_takes_a_template() {
        for (id, kind, shared) in [
            ("tank-zfs", "zfspool", false),
            ("local-lvm", "lvmthin", false),
            ("ceph-vm", "rbd", true),
            ("nfs1", "nfs", true),
            ("vm-disks", "dir", false),
            ("cifs", "cifs", true),
        ] {
            let world = fitted(&fit(&["a", "b"], id));
            let storage = world.storage(id).unwrap();
            assert_eq!((storage.kind.as_str(), storage.shared), (kind, shared), "{id}");
            let expected = if shared { vec![(9000, "a")] } else { vec![(9000, "a"), (9001, "b")] };
            assert_eq!(templates(&world), expected, "{id}");
            assert!(world.vms[&9000].config["scsi0"].contains("base-9000-disk-"), "{id}");
        }
    }

    #[test]
    fn a_file_system_of_ceph_holds_no_disks() {
        let mut world = World::new(1, 0);
        let error = world.fit(&fit(&["a"], "cephfs")).unwrap_err();
        assert!(error.reason.contains("does not support vm images"), "{error}");
    }

    #[test]
    fn a_declared_id_is_on_the_first_host_alone() {
        let mut wanted = fit(&["a", "b"], "local-zfs");
        wanted.templates[0].vmid = Some(777);
        let mut world = fitted(&wanted);
        assert_eq!(templates(&world), [(777, "a")]);
        assert_eq!(world.fit(&wanted), Ok(false));
    }

    #[test]
    fn a_grown_description_extends_the_world() {
        let mut world = fitted(&fit(&["pve"], "local-zfs"));
        let old = world.vms[&9000].clone();
        world.storages[0].disabled = true;
        let mut wanted = fit(&["pve", "pve2"], "ceph-vm");
        wanted.hosts[0].memory = 1;
        assert_eq!(world.fit(&wanted), Ok(true));
        assert_eq!(world.vms[&9000].config, old.config);
        assert!(world.storages[0].disabled, "what somebody did stays done");
        assert_eq!(world.nodes["pve"].memory, 128 << 30);
        assert_eq!(world.nodes["pve2"].pci.len(), 2);
        assert_eq!(world.cluster, Some(("home".into(), 2)));
        assert_eq!(templates(&world), [(9000, "pve")], "a template on a storage all see will do");
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let mut wanted = fit(&["pve"], "local-zfs");
        wanted.templates[0].storage = "nowhere".into();
        let mut world = Starter::bare(1, 0).world;
        let error = world.fit(&wanted).unwrap_err().to_string();
        assert!(error.starts_with("could not make template talos (9000) on pve: "), "{error}");
    }
}
