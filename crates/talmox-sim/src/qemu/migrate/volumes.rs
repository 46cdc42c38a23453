//! Volumes of a VM that are on its host alone, and where they go.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::drive::{Drive, is_drive};
use crate::schema::split_list;
use crate::storage::{NewImage, Volume, split_volid};
use crate::tasks::Job;
use crate::vm::Vm;
use crate::world::World;

/// Types of storages whose volumes can be sent.
const SENT: [&str; 5] = ["dir", "btrfs", "zfspool", "lvmthin", "lvm"];

/// From which storage to which: `b`, `a:b,c:d`, both, or `1` for each to itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StorageMap {
    pub(super) identity: bool,
    pub(super) default: Option<String>,
    pub(super) entries: BTreeMap<String, String>,
}

impl StorageMap {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut map = Self::default();
        for entry in split_list(text) {
            match entry.split_once(':') {
                None if entry == "1" => map.identity = true,
                None if map.default.is_some() => {
                    return Err("default target ID can only be provided once\n".into());
                }
                None => map.default = Some(entry.to_owned()),
                Some((source, target)) => {
                    if map.entries.insert(source.to_owned(), target.to_owned()).is_some() {
                        return Err(format!("duplicate mapping for source '{source}'\n"));
                    }
                }
            }
        }
        if map.identity && (map.default.is_some() || !map.entries.is_empty()) {
            return Err("identity mapping cannot be combined with other mappings\n".into());
        }
        Ok(map)
    }

    pub(super) fn target<'a>(&'a self, storage: &'a str) -> &'a str {
        let mapped = self.entries.get(storage).or(self.default.as_ref());
        mapped.map_or(storage, String::as_str)
    }
}

/// How a volume belongs to its VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Attached,
    Unused,
    Snapshot,
    /// Made anew or carried along by other means: the cloud-init drive and the state of a TPM.
    Generated,
}

/// A volume that is on the VM's host alone.
#[derive(Clone, Debug)]
struct Local {
    volid: String,
    reference: Reference,
    in_snapshot: bool,
    fault: Option<String>,
}

/// What a move found and what it did to each volume.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Moved {
    /// Old and new volume id; those copied before the VM starts on its new host come first.
    pub(super) offline: Vec<(String, String)>,
    pub(super) online: Vec<(String, String, String)>,
    /// Bytes to be sent.
    pub(super) bytes: u64,
}

impl Moved {
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let offline = self.offline.iter().map(|(old, new)| (old.as_str(), new.as_str()));
        offline.chain(self.online.iter().map(|(_, old, new)| (old.as_str(), new.as_str())))
    }
}

/// Who moves where, and how.
pub(super) struct Route<'a> {
    pub(super) vmid: u32,
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    pub(super) map: &'a StorageMap,
    pub(super) running: bool,
    pub(super) with_disks: bool,
}

/// Every volume a VM speaks of, its snapshots included.
fn volumes_of(vm: &Vm) -> BTreeMap<String, (Drive, bool, bool)> {
    let mut found: BTreeMap<String, (Drive, bool, bool)> = BTreeMap::new();
    let configs = std::iter::once((&vm.config, true)).chain(vm.snapshots.values().map(|one| (one, false)));
    for (config, current) in configs {
        for (key, text) in config.iter().filter(|(key, _)| is_drive(key)) {
            let drive = Drive::parse(key, text);
            let volid = drive.file().to_owned();
            let entry = found.entry(volid).or_insert_with(|| (drive, false, false));
            entry.1 |= current;
            entry.2 |= !current;
        }
    }
    found.retain(|volid, _| volid != "none" && !volid.is_empty());
    found
}

impl Route<'_> {
    /// Whether every storage the VM uses is there on the other side.
    pub(super) fn check_storages(&self, world: &World, vm: &Vm) -> Result<(), String> {
        for volid in volumes_of(vm).keys() {
            let Some((id, _)) = split_volid(volid) else { continue };
            let storage = world.storage(id)?;
            if storage.disabled {
                return Err(format!("storage '{id}' is disabled"));
            }
            let target = if storage.shared { id } else { self.map.target(id) };
            check_content(world, volid, target, self.to)?;
        }
        Ok(())
    }

    fn look_at(&self, world: &World, volid: &str, drive: &Drive, uses: (bool, bool)) -> Option<Local> {
        let (current, in_snapshot) = uses;
        let reference = match drive.key.as_str() {
            "tpmstate0" => Reference::Generated,
            _ if drive.is_cloudinit() => Reference::Generated,
            key if key.starts_with("unused") => Reference::Unused,
            _ if current => Reference::Attached,
            _ => Reference::Snapshot,
        };
        let local = |fault| Some(Local { volid: volid.to_owned(), reference, in_snapshot, fault });
        let Some((id, _)) = split_volid(volid) else {
            let shared = drive.get("shared").is_some_and(|flag| flag == "1");
            return if shared { None } else { local(Some("local file/device".to_owned())) };
        };
        let storage = world.storage(id).ok().filter(|storage| !storage.shared)?;
        if drive.is_cdrom() {
            let image = !drive.is_cloudinit();
            return local(image.then(|| "local cdrom image".to_owned()));
        }
        let owner = world.name_of(volid).ok().and_then(|name| name.vmid);
        if owner != Some(self.vmid) {
            let owner = owner.map(|id| id.to_string()).unwrap_or_default();
            return local(Some(format!("owned by other VM (owner = VM {owner})")));
        }
        let format = world.volume(self.from, volid).map_or("raw", |volume| volume.format.as_str());
        if in_snapshot && self.running {
            let text = "online storage migration not possible if non-replicated snapshot exists";
            return local(Some(text.to_owned()));
        }
        let keeps =
            storage.kind == "zfspool" || storage.kind == "btrfs" && format == "raw" || format == "qcow2";
        if in_snapshot && !keeps {
            return local(Some("non-migratable snapshot exists".to_owned()));
        }
        let base = world.has_linked_clones(volid);
        local(base.then(|| "referenced by linked clone(s)".to_owned()))
    }

    /// Looks through the VM's volumes: the lines of the log, and what is wrong if something is.
    fn scan(&self, world: &World, vm: &Vm) -> (Vec<String>, Result<Vec<Local>, String>) {
        let volumes = volumes_of(vm);
        let mut lines = Vec::new();
        let no_drive = volumes.contains_key("cdrom");
        let mut found: Vec<Local> = Vec::new();
        for (volid, (drive, current, in_snapshot)) in volumes.iter().filter(|(volid, _)| *volid != "cdrom") {
            found.extend(self.look_at(world, volid, drive, (*current, *in_snapshot)));
        }
        for local in &mut found {
            let volid = &local.volid;
            lines.push(match local.reference {
                Reference::Attached => format!("found local disk '{volid}' (attached)"),
                Reference::Unused => format!("found local disk '{volid}' (unused)"),
                Reference::Snapshot => format!("found local disk '{volid}' (referenced by snapshot(s))"),
                Reference::Generated => format!("found generated disk '{volid}' (in current VM config)"),
            });
            if local.reference == Reference::Attached && self.running && !self.with_disks {
                let text = "can't live migrate attached local disks without with-local-disks option";
                local.fault = Some(text.to_owned());
            }
        }
        let faults = found.iter().filter_map(|local| Some((&local.volid, local.fault.as_ref()?)));
        let said: Vec<String> =
            faults.map(|(volid, fault)| format!("can't migrate local disk '{volid}': {fault}")).collect();
        let failed = !said.is_empty() || no_drive;
        lines.extend(said);
        lines.extend(no_drive.then(|| "can't migrate local cdrom drive".to_owned()));
        if failed {
            return (lines, Err("can't migrate VM - check log".into()));
        }
        let stuck = found.iter().find_map(|local| stuck(world, &local.volid));
        (lines, stuck.map_or(Ok(found), Err))
    }

    /// Makes room for every local volume on the other side. What was made before a failure is left to whoever cleans up.
    pub(super) fn prepare(&self, world: &mut World, job: &Job, moved: &mut Moved) -> Result<(), String> {
        let vm = world.vm_for_job(self.from, self.vmid)?.clone();
        let (lines, found) = self.scan(world, &vm);
        for line in &lines {
            world.log_migration(job, line);
        }
        let found = found.map_err(|error| format!("Problem found while scanning volumes - {error}"))?;
        let live = |local: &Local| self.running && local.reference == Reference::Attached;
        let (online, offline): (Vec<Local>, Vec<Local>) = found.into_iter().partition(live);
        if !offline.is_empty() {
            world.log_migration(job, "copying local disk images");
        }
        for local in offline {
            let (id, _) = split_volid(&local.volid).unwrap_or_default();
            let target = self.map.target(id).to_owned();
            let new = self.copy(world, &local, &target).map_err(|error| {
                format!("storage migration for '{}' to storage '{target}' failed - {error}", local.volid)
            })?;
            moved.bytes += world.volume(self.to, &new).map_or(0, |volume| volume.size);
            world.log_migration(job, &format!("volume '{}' is '{new}' on the target", local.volid));
            moved.offline.push((local.volid, new));
        }
        for local in online {
            let key = vm.drives().into_iter().find(|drive| drive.file() == local.volid);
            let key = key.map(|drive| drive.key).unwrap_or_default();
            let new = self.make(world, &local)?;
            moved.bytes += world.volume(self.to, &new).map_or(0, |volume| volume.size);
            moved.online.push((key, local.volid, new));
        }
        Ok(())
    }

    fn source(&self, world: &World, local: &Local) -> Result<Volume, String> {
        let missing = || format!("volume '{}' does not exist", local.volid);
        world.volume(self.from, &local.volid).cloned().ok_or_else(missing)
    }

    /// A copy of a volume that nobody writes to: it keeps its name if that is free.
    fn copy(&self, world: &mut World, local: &Local, target: &str) -> Result<String, String> {
        let source = self.source(world, local)?;
        let (id, _) = split_volid(&local.volid).unwrap_or_default();
        let (from, to) = (world.storage(id)?.kind.clone(), world.storage_on(target, self.to)?.clone());
        // What knows snapshots is sent with them, and only to what knows them in the same way.
        let with_snapshots = matches!(source.format.as_str(), "qcow2" | "vmdk");
        let same = from == to.kind || with_snapshots && to.holds_files();
        if (with_snapshots || local.in_snapshot) && !same {
            return Err(format!("cannot migrate from storage type '{from}' to '{}'", to.kind));
        }
        let name = world.name_of(&local.volid)?.name;
        let bare = name.rsplit_once('.').map_or(name.as_str(), |(bare, _)| bare).to_owned();
        let format = if with_snapshots { source.format.clone() } else { "raw".to_owned() };
        let taken = World::image_volid(&to, self.vmid, &bare, &format);
        let name = world.volume(self.to, &taken).is_none().then_some(bare);
        self.allocate(world, target, name.as_deref(), &format, &source)
    }

    /// A new volume into which a running VM's disk is mirrored.
    fn make(&self, world: &mut World, local: &Local) -> Result<String, String> {
        let source = self.source(world, local)?;
        let (id, _) = split_volid(&local.volid).unwrap_or_default();
        let target = self.map.target(id).to_owned();
        let format = world.storage_on(&target, self.to)?.copy_format(None, &source.format).to_owned();
        self.allocate(world, &target, None, &format, &source)
    }

    fn allocate(
        &self,
        world: &mut World,
        storage: &str,
        name: Option<&str>,
        format: &str,
        source: &Volume,
    ) -> Result<String, String> {
        let image = NewImage { vmid: self.vmid, name, format, size: source.size, data: source.data };
        let volid = world.as_host(self.to, |world| world.allocate(None, self.to, storage, image))?;
        world.copy_content(self.to, &volid, source);
        Ok(volid)
    }
}

/// Does the storage hold on that host what the volume is?
pub(super) fn check_content(world: &World, volid: &str, storage: &str, node: &str) -> Result<(), String> {
    let content = world.name_of(volid)?.content;
    if world.storage_on(storage, node)?.content.contains(content) {
        return Ok(());
    }
    Err(format!("{volid}: content type '{content}' is not available on storage '{storage}'"))
}

/// What cannot be sent at all.
fn stuck(world: &World, volid: &str) -> Option<String> {
    let (id, _) = split_volid(volid)?;
    let kind = &world.storage(id).ok()?.kind;
    if !SENT.contains(&kind.as_str()) {
        return Some(format!("can't migrate '{volid}' - storage type '{kind}' not supported"));
    }
    let base = world.name_of(volid).ok()?.base?;
    Some(format!("can't migrate '{volid}' as it's a clone of '{base}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_mapped_one_by_one_or_all_to_one() {
        let map = StorageMap::read("a:b,c").unwrap();
        assert_eq!(["a", "b", "c"].map(|id| map.target(id)), ["b", "c", "c"]);
        let same = StorageMap::read("1").unwrap();
        assert_eq!((same.target("a"), same.identity), ("a", true));
        assert_eq!(StorageMap::default().target("a"), "a");
        for (text, fault) in [
            ("a:b,a:c", "duplicate mapping for source 'a'\n"),
            ("a,b", "default target ID can only be provided once\n"),
            ("1,a:b", "identity mapping cannot be combined with other mappings\n"),
        ] {
            assert_eq!(StorageMap::read(text).unwrap_err(), fault);
        }
    }
}
