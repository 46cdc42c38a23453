//! Storages and the volumes on them: files in folders, or block devices, by the rules of each type.

mod kinds;
mod names;
mod queue;
mod space;
mod spec;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::drive::{Drive, LARGEST_IMAGE, print_size, too_large};
use crate::files::FileFacts;
use crate::release::Change;
use crate::tasks::Job;
use crate::world::World;

pub(crate) use kinds::{Kind, State};
pub(crate) use names::{VolumeName, parse_name, split_volid};
pub(crate) use queue::{Allocations, Turn};
pub(crate) use space::Figures;
pub use spec::BadStorage;
pub(crate) use volumes::{Volume, Volumes};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Storage {
    pub id: String,
    /// `dir`, `nfs`, `cifs`, `btrfs`, `cephfs`, `zfspool`, `lvm`, `lvmthin` or `rbd`.
    pub kind: String,
    /// Directory of files, dataset of a `zfspool`, pool of an `rbd`; logical volumes have options instead.
    pub place: String,
    pub content: BTreeSet<String>,
    /// Hosts it is limited to; empty for all.
    pub nodes: BTreeSet<String>,
    pub shared: bool,
    pub disabled: bool,
    /// Bytes; the host's disk if not given.
    pub total: Option<u64>,
    /// Options that are only shown back.
    pub options: BTreeMap<String, String>,
}

impl Storage {
    pub(crate) fn on(&self, node: &str) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    fn folder(&self, content: &str) -> String {
        let folder = match content {
            "iso" => "template/iso",
            "vztmpl" => "template/cache",
            "images" | "rootdir" => "images",
            "backup" => "dump",
            other => other,
        };
        format!("{}/{folder}", self.place)
    }
}

impl World {
    pub(crate) fn storage(&self, id: &str) -> Result<&Storage, String> {
        let found = self.storages.iter().find(|storage| storage.id == id);
        found.ok_or_else(|| format!("storage '{id}' does not exist"))
    }

    /// The storage if it can be used on that host now.
    pub(crate) fn storage_on(&self, id: &str, node: &str) -> Result<&Storage, String> {
        let storage = self.storage(id)?;
        if storage.disabled {
            return Err(format!("storage '{id}' is disabled"));
        }
        if !storage.on(node) {
            return Err(format!("storage '{id}' is not available on node '{node}'"));
        }
        Ok(storage)
    }

    pub(crate) fn volume_key(&self, node: &str, volid: &str) -> String {
        let storage = volid.split(':').next().unwrap_or_default();
        let shared = self.storage(storage).is_ok_and(|storage| storage.shared);
        format!("{}|{volid}", if shared { "*" } else { node })
    }

    pub(crate) fn volume(&self, node: &str, volid: &str) -> Option<&Volume> {
        self.volumes.get(&self.volume_key(node, volid))
    }

    pub(crate) fn volume_mut(&mut self, node: &str, volid: &str) -> Option<&mut Volume> {
        let key = self.volume_key(node, volid);
        self.volumes.get_mut(&key)
    }

    pub(crate) fn name_of(&self, volid: &str) -> Result<VolumeName, String> {
        let (storage, name) =
            split_volid(volid).ok_or_else(|| format!("unable to parse volume ID '{volid}'"))?;
        parse_name(self.storage(storage)?, name)
    }

    /// Where the volume lies on the host.
    pub(crate) fn path_of(&self, volid: &str) -> String {
        let Some((id, _)) = split_volid(volid) else { return volid.to_owned() };
        let (Ok(storage), Ok(name)) = (self.storage(id), self.name_of(volid)) else {
            return volid.to_owned();
        };
        let (place, file) = (&storage.place, &name.name);
        match storage.traits().name {
            "zfspool" => return format!("/dev/zvol/{place}/{file}"),
            "lvm" | "lvmthin" => return format!("/dev/{}/{file}", storage.volume_group()),
            "rbd" => {
                let keyring = format!("/etc/pve/priv/ceph/{id}.keyring");
                return format!("rbd:{place}/{file}:conf=/etc/pve/ceph.conf:id=admin:keyring={keyring}");
            }
            _ => {}
        }
        let folder = storage.folder(name.content);
        match (name.vmid, file.strip_suffix(".raw").filter(|_| storage.kind == "btrfs")) {
            // A raw image is a subvolume of its own.
            (Some(vmid), Some(stem)) => format!("{folder}/{vmid}/{stem}/disk.raw"),
            (Some(vmid), None) => format!("{folder}/{vmid}/{file}"),
            (None, _) => format!("{folder}/{file}"),
        }
    }

    /// Keys of every volume that belongs to the VM.
    pub(crate) fn volumes_of(&self, vmid: u32) -> Vec<String> {
        self.volumes.of(vmid).cloned().collect()
    }

    /// The next free `vm-N-disk-K` on that storage.
    pub(crate) fn free_disk_name(&self, node: &str, storage: &str, vmid: u32) -> String {
        let place = self.volume_key(node, &format!("{storage}:"));
        let taken: BTreeSet<u32> = self
            .volumes
            .of(vmid)
            .filter(|key| key.starts_with(&place))
            .filter_map(|key| {
                let last = key.rsplit('/').next()?.rsplit(':').next()?;
                let number = last.split_once("-disk-")?.1;
                number.split('.').next()?.parse().ok()
            })
            .collect();
        let free = (0..=u32::MAX).find(|number| !taken.contains(number)).unwrap_or_default();
        format!("vm-{vmid}-disk-{free}")
    }

    /// The volume id of a VM's image with that bare name.
    pub(crate) fn image_volid(storage: &Storage, vmid: u32, name: &str, format: &str) -> String {
        if storage.holds_files() {
            format!("{}:{vmid}/{name}.{format}", storage.id)
        } else if format == "raw" {
            format!("{}:{name}", storage.id)
        } else {
            format!("{}:{name}.{format}", storage.id)
        }
    }

    /// Makes an image. The log shows what the tools that do it would print.
    pub(crate) fn allocate(
        &mut self,
        job: Option<&Job>,
        node: &str,
        storage_id: &str,
        image: NewImage<'_>,
    ) -> Result<String, String> {
        let storage = self.storage_on(storage_id, node)?.clone();
        if !storage.content.contains("images") {
            return Err(format!("storage '{storage_id}' does not support content-type 'images'"));
        }
        let name =
            image.name.map_or_else(|| self.free_disk_name(node, storage_id, image.vmid), str::to_owned);
        // Ceph takes no notice of the format, the others of their kind refuse what they do not know.
        let format = if storage.kind == "rbd" { "raw" } else { image.format };
        let old = format == "qcow2" && !self.has(Change::FormatsOfBlocks);
        if !storage.holds_files() && (old || !storage.traits().formats.contains(&format)) {
            return Err(format!("unsupported format '{format}'"));
        }
        let volid = Self::image_volid(&storage, image.vmid, &name, format);
        if self.volume(node, &volid).is_some() {
            return Err(self.taken_name(&storage, &volid, &name));
        }
        if image.size > LARGEST_IMAGE {
            return Err(too_large(&image.size.to_string()));
        }
        self.check_space(&storage, node, &name, &image)?;
        let size = storage.traits().round(image.size);
        if let Some(job) = job.filter(|_| storage.holds_files()) {
            self.log(job, formatting_line(&self.path_of(&volid), format, size));
        }
        self.insert_image(node, &volid, format, size, image.vmid, None);
        if let Some(volume) = self.volume_mut(node, &volid) {
            volume.data = image.data;
        }
        Ok(volid)
    }

    /// What is said of a name that is taken.
    fn taken_name(&self, storage: &Storage, volid: &str, name: &str) -> String {
        let group = storage.volume_group();
        match storage.traits().name {
            "zfspool" => {
                format!("zfs error: cannot create '{}/{name}': dataset already exists", storage.place)
            }
            "rbd" => format!("rbd create '{name}' error: rbd: create error: (17) File exists"),
            "lvm" | "lvmthin" => format!(
                "lvcreate '{group}/{name}' error:   Logical Volume \"{name}\" already exists in volume group \"{group}\""
            ),
            _ => format!("disk image '{}' already exists", self.path_of(volid).trim_end_matches("/disk.raw")),
        }
    }

    pub(crate) fn insert_image(
        &mut self,
        node: &str,
        volid: &str,
        format: &str,
        size: u64,
        vmid: u32,
        parent: Option<String>,
    ) {
        let key = self.volume_key(node, volid);
        let volume = Volume {
            volid: volid.to_owned(),
            content: "images".into(),
            format: format.to_owned(),
            size,
            ctime: self.unix(),
            vmid: Some(vmid),
            parent,
            ..Volume::default()
        };
        self.volumes.insert(key, volume);
    }

    /// What was read from one volume is written to another.
    pub(crate) fn copy_content(&mut self, node: &str, volid: &str, source: &Volume) {
        if let Some(volume) = self.volume_mut(node, volid) {
            volume.copy_of = Some(source.id);
            volume.holds = source.content().clone();
        }
    }

    /// Records the volume of a drive that somebody attached by other means.
    pub(crate) fn adopt_volume(&mut self, node: &str, vmid: u32, drive: &Drive) {
        if drive.is_none() || drive.is_cdrom() && !drive.is_cloudinit() {
            return;
        }
        let volid = drive.file().to_owned();
        let Ok(name) = self.name_of(&volid) else { return };
        // A disk of somebody else's stays theirs, whoever has it attached: its name says whose it is.
        if self.volume(node, &volid).is_none() {
            self.insert_image(node, &volid, &name.format, drive.size(), name.vmid.unwrap_or(vmid), None);
        }
    }

    /// Puts a file on a storage as if somebody had copied it there.
    pub fn add_file(&mut self, node: &str, volid: &str, file: FileFacts) {
        let Ok(name) = self.name_of(volid) else { return };
        let key = self.volume_key(node, volid);
        let format = if name.content == "iso" { "iso".into() } else { name.format };
        let volume = Volume {
            volid: volid.to_owned(),
            content: name.content.to_owned(),
            format,
            size: file.size,
            data: file.size,
            ctime: self.unix(),
            file: Some(file),
            ..Volume::default()
        };
        self.volumes.insert(key, volume);
    }

    /// Takes a file off a storage as if by other means.
    pub fn remove_file(&mut self, node: &str, volid: &str) {
        let key = self.volume_key(node, volid);
        self.volumes.remove(&key);
    }

    /// Volumes of a storage as a host sees it, with the VMs that own them.
    pub fn volume_ids(&self, node: &str, storage: &str) -> Vec<(String, Option<u32>)> {
        let place = self.volume_key(node, &format!("{storage}:"));
        let found = self.volumes.at(&place);
        found.map(|(_, volume)| (volume.volid.clone(), volume.vmid)).collect()
    }

    /// Volumes that are linked clones of the given one.
    pub(crate) fn has_linked_clones(&self, volid: &str) -> bool {
        self.volumes.iter().any(|(_, volume)| volume.parent.as_deref() == Some(volid))
    }

    /// Renames `vm-` to `base-`, which is what makes an image a template's.
    pub(crate) fn make_base(&mut self, node: &str, volid: &str) -> String {
        let key = self.volume_key(node, volid);
        // Thick LVM knows no base images, and says nothing.
        let able = split_volid(volid)
            .is_some_and(|(id, _)| self.storage(id).is_ok_and(|one| one.traits().makes_bases()));
        let Some(mut volume) = able.then(|| self.volumes.remove(&key)).flatten() else {
            return volid.to_owned();
        };
        let base = base_volid(volid);
        volume.volid.clone_from(&base);
        let key = self.volume_key(node, &base);
        self.volumes.insert(key, volume);
        base
    }

    /// The drive's size as its volume has it, printed into the drive.
    pub(crate) fn fill_size(&self, node: &str, drive: &mut Drive) {
        let size = self.volume(node, drive.file()).map(visible_size);
        match size {
            Some(size) => drive.set("size", print_size(size)),
            None => drop(drive.props.remove("size")),
        }
    }
}

/// `vm-` at the beginning of the last part becomes `base-`.
fn base_volid(volid: &str) -> String {
    let start = volid.rfind([':', '/']).map_or(0, |at| at + 1);
    let (place, name) = volid.split_at(start);
    name.strip_prefix("vm-").map_or_else(|| volid.to_owned(), |rest| format!("{place}base-{rest}"))
}

/// What a guest sees of the volume: files are rounded up to sectors.
pub(crate) fn visible_size(volume: &Volume) -> u64 {
    volume.size.div_ceil(512) * 512
}

/// An image to be made.
#[derive(Clone, Copy)]
pub(crate) struct NewImage<'a> {
    pub(crate) vmid: u32,
    pub(crate) name: Option<&'a str>,
    pub(crate) format: &'a str,
    pub(crate) size: u64,
    /// Bytes that are copied into it.
    pub(crate) data: u64,
}

fn formatting_line(path: &str, format: &str, size: u64) -> String {
    match format {
        "qcow2" => format!(
            "Formatting '{path}', fmt=qcow2 cluster_size=65536 extended_l2=off preallocation=metadata \
             compression_type=zlib size={size} lazy_refcounts=off refcount_bits=16"
        ),
        "raw" => format!("Formatting '{path}', fmt=raw size={size} preallocation=off"),
        other => format!("Formatting '{path}', fmt={other} size={size}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let mut world = World::new(1, 0);
        world.add_node("n", "192.0.2.1");
        let content: BTreeSet<String> = ["images", "iso"].map(str::to_owned).into();
        let dir = Storage {
            id: "local".into(),
            kind: "dir".into(),
            place: "/var/lib/vz".into(),
            content: content.clone(),
            ..Storage::default()
        };
        let zfs = Storage {
            id: "zfs".into(),
            kind: "zfspool".into(),
            place: "rpool/data".into(),
            total: Some(10 << 30),
            content,
            ..Storage::default()
        };
        world.storages = vec![dir, zfs];
        world
    }

    fn image(size: u64) -> NewImage<'static> {
        NewImage { vmid: 100, name: None, format: "raw", size, data: 0 }
    }

    #[test]
    fn names_are_taken_in_order_per_storage() {
        let mut world = world();
        assert_eq!(world.allocate(None, "n", "local", image(1)).unwrap(), "local:100/vm-100-disk-0.raw");
        assert_eq!(world.allocate(None, "n", "local", image(1)).unwrap(), "local:100/vm-100-disk-1.raw");
        assert_eq!(world.allocate(None, "n", "zfs", image(1)).unwrap(), "zfs:vm-100-disk-0");
        world.volumes.remove(&world.volume_key("n", "local:100/vm-100-disk-0.raw"));
        assert_eq!(world.allocate(None, "n", "local", image(1)).unwrap(), "local:100/vm-100-disk-0.raw");
    }

    #[test]
    fn zvols_are_whole_mebibytes_and_need_space() {
        let mut world = world();
        let volid = world.allocate(None, "n", "zfs", image(540_672)).unwrap();
        assert_eq!(world.volume("n", &volid).unwrap().size, 1 << 20);
        assert_eq!(
            world.allocate(None, "n", "zfs", image(20 << 30)).unwrap_err(),
            "zfs error: cannot create 'rpool/data/vm-100-disk-1': out of space"
        );
    }

    #[test]
    fn volume_names_are_read_by_storage_type() {
        let world = world();
        let linked = world.name_of("local:9/base-9-disk-0.qcow2/100/vm-100-disk-0.qcow2").unwrap();
        assert_eq!((linked.vmid, linked.base.as_deref()), (Some(100), Some("9/base-9-disk-0.qcow2")));
        assert_eq!(world.name_of("zfs:base-9-disk-0/vm-100-disk-0").unwrap().vmid, Some(100));
        assert_eq!(world.name_of("local:foo").unwrap_err(), "unable to parse directory volume name 'foo'");
        assert_eq!(world.path_of("local:iso/x.iso"), "/var/lib/vz/template/iso/x.iso");
    }
}
