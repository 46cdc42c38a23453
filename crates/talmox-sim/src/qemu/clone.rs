//! Clones: full copies and linked ones.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Caller;
use crate::api::Call;
use crate::drive::{Drive, print_size};
use crate::jobs::Work;
use crate::reply::{Answer, ApiError};
use crate::schema;
use crate::storage::{Allocations, NewImage, State, split_volid};
use crate::tasks::Job;
use crate::vm::{Vm, drives_of, not_found};
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CloneJob {
    source: u32,
    pub(crate) target: u32,
    full: bool,
    name: Option<String>,
    description: Option<String>,
    pool: Option<String>,
    storage: Option<String>,
    format: Option<String>,
    snapshot: Option<String>,
    /// Host the clone will live on.
    node: String,
    made: BTreeMap<String, String>,
    /// The new id is ours.
    #[serde(default)]
    claimed: bool,
}

pub(crate) fn clone(world: &mut World, call: &Call) -> Answer {
    let source = call.vmid();
    let target = call.args.int("newid").and_then(|id| u32::try_from(id).ok()).unwrap_or_default();
    let text = |name: &str| call.args.get(name).map(str::to_owned);
    let node = text("target").filter(|node| *node != call.node);
    check_place(world, call, node.as_deref())?;
    let vm = world.vms.get(&source).filter(|vm| vm.node == call.node);
    let vm = vm.ok_or_else(|| ApiError::plain(not_found(&call.node, source)))?;
    vm.check_lock().map_err(ApiError::Plain)?;
    let snapshot = text("snapname");
    if let Some(name) = snapshot.as_ref().filter(|name| !vm.snapshots.contains_key(*name)) {
        return Err(ApiError::plain(format!("snapshot '{name}' does not exist")));
    }
    let full = call.args.get("full").map_or(!vm.is_template(), |flag| flag == "1");
    for name in ["storage", "format"] {
        if !full && call.args.get(name).is_some() {
            return Err(ApiError::plain(format!("parameter '{name}' not allowed for linked clones")));
        }
    }
    let shared = check_drives(world, &call.caller, vm, call.args.get("storage"))?;
    vm.config.iter().try_for_each(|(key, text)| world.check_devices(&call.caller, key, text))?;
    vm.config.iter().try_for_each(|(key, text)| world.check_bridge(&call.caller, key, text))?;
    if let Some(node) = node.as_ref().filter(|_| !shared) {
        return Err(ApiError::plain(format!("can't clone VM to node '{node}' (VM uses local storage)")));
    }
    if world.vms.get(&target).is_some_and(|other| other.node == call.node) {
        return Err(ApiError::plain(format!("unable to create VM {target}: config file already exists")));
    }
    check_features(world, vm, full, snapshot.is_some())?;
    let job = CloneJob {
        source,
        target,
        full,
        name: text("name"),
        description: text("description"),
        pool: text("pool"),
        storage: text("storage"),
        format: text("format"),
        snapshot,
        node: node.unwrap_or_else(|| call.node.clone()),
        made: BTreeMap::new(),
        claimed: false,
    };
    Ok(Value::from(world.spawn(&call.node, "qmclone", &source.to_string(), &call.caller, Work::Clone(job))))
}

fn check_place(world: &World, call: &Call, node: Option<&str>) -> Result<(), ApiError> {
    if let Some(pool) = call.args.get("pool").filter(|pool| !world.pools.contains_key(*pool)) {
        return Err(ApiError::Permission(Some(format!("pool '{pool}' does not exist"))));
    }
    if let Some(target) = call.args.get("target").filter(|target| !world.nodes.contains_key(*target)) {
        return Err(ApiError::plain(format!("no such cluster node '{target}'")));
    }
    if let Some(id) = call.args.get("storage") {
        let storage = world.storage_on(id, &call.node).map_err(ApiError::Plain)?;
        if !storage.content.contains("images") {
            return Err(ApiError::parameter("storage", format!("storage '{id}' does not support vm images")));
        }
        if node.is_some() && !storage.shared {
            return Err(ApiError::plain(format!("can't clone to non-shared storage '{id}'")));
        }
    }
    world.need_quorum()
}

/// Space on the storages, and whether all of them can be reached from anywhere.
fn check_drives(world: &World, caller: &Caller, vm: &Vm, target: Option<&str>) -> Result<bool, ApiError> {
    let mut shared = true;
    for drive in vm.drives().iter().filter(|drive| drive.file() != "none") {
        if drive.file() == "cdrom" {
            world.need(caller, "/", "Sys.Console")?;
        }
        let Some((own, _)) = split_volid(drive.file()) else {
            shared = false;
            continue;
        };
        shared &= world.storage(own).is_ok_and(|storage| storage.shared);
        // Whatever looks like a CD-ROM is let through, the cloud-init drive too.
        if !drive.is_cdrom() {
            world.need(caller, &format!("/storage/{}", target.unwrap_or(own)), "Datastore.AllocateSpace")?;
        }
    }
    if let Some(storage) = vm.config.get("vmstatestorage") {
        world.need(caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
    }
    Ok(shared)
}

fn check_features(world: &World, vm: &Vm, full: bool, snapshot: bool) -> Result<(), ApiError> {
    for drive in vm.drives().iter().filter(|drive| is_copied(drive)) {
        let copy = full || always_full(drive);
        if !has_feature(world, drive.file(), copy, snapshot) {
            let kind = if copy { "Full" } else { "Linked" };
            let text =
                format!("{kind} clone feature is not supported for '{}' ({})", drive.file(), drive.key);
            return Err(ApiError::Plain(text));
        }
    }
    Ok(())
}

/// Can its storage copy or link that volume?
pub(crate) fn has_feature(world: &World, volid: &str, copy: bool, snapshot: bool) -> bool {
    let storage = split_volid(volid).and_then(|(id, _)| world.storage(id).ok());
    let (Some(storage), Ok(name)) = (storage, world.name_of(volid)) else { return copy };
    let state = match snapshot {
        true => State::Snapshot,
        false if name.name.starts_with("base-") => State::Base,
        false => State::Current,
    };
    if copy {
        storage.traits().copies(state, &name.format)
    } else {
        storage.traits().links(state, &name.format)
    }
}

pub(crate) fn is_base(world: &World, volid: &str) -> bool {
    world.name_of(volid).is_ok_and(|name| name.name.starts_with("base-"))
}

fn is_copied(drive: &Drive) -> bool {
    !drive.is_none() && (!drive.is_cdrom() || drive.is_cloudinit())
}

fn always_full(drive: &Drive) -> bool {
    drive.is_cloudinit() || drive.key == "tpmstate0"
}

impl CloneJob {
    /// The configuration that is cloned.
    fn source_config(&self, world: &World, job: &Job) -> Result<BTreeMap<String, String>, String> {
        let source = world.vm_for_job(&job.node, self.source)?;
        let snapshot = self.snapshot.as_ref().and_then(|name| source.snapshots.get(name));
        Ok(snapshot.unwrap_or(&source.config).clone())
    }

    pub(crate) fn allocations(&self, world: &World, job: &Job) -> Allocations {
        let mut wanted = Allocations::new();
        let config = self.source_config(world, job).unwrap_or_default();
        for drive in drives_of(&config).into_iter().filter(is_copied) {
            let own = split_volid(drive.file()).map_or("", |(storage, _)| storage);
            let storage = self.storage.as_deref().unwrap_or(own).to_owned();
            *wanted.entry(storage).or_default() += 1;
        }
        wanted
    }

    /// Takes the new id with a configuration that is nearly empty.
    pub(crate) fn claim(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        if world.vms.contains_key(&self.target) {
            return Err(format!("unable to create VM {}: config file already exists", self.target));
        }
        world.vm_for_job(&job.node, self.source)?;
        let pairs = [("lock", "clone"), ("description", " qmclone temporary file")];
        let config = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        world.vms.insert(self.target, Vm { node: job.node.clone(), config, ..Vm::default() });
        self.claimed = true;
        world.log(job, format!("creating a clone of VM {} with ID {}", self.source, self.target));
        Ok(())
    }

    /// Removes what was made under the new id, if that is ours.
    pub(crate) fn give_up(&self, world: &mut World) {
        if self.claimed {
            world.remove_vm(self.target);
        }
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let config = self.source_config(world, job)?;
        let (made, bytes) = match self.copy_drives(world, job, &config) {
            Ok(made) => made,
            Err(reason) => {
                world.remove_vm(self.target);
                return Err(format!("clone failed: {reason}"));
            }
        };
        let first = made.keys().next().cloned().filter(|_| made.len() > 1);
        let later: BTreeSet<String> =
            made.keys().filter(|key| Some(*key) != first.as_ref()).cloned().collect();
        self.made = self.new_config(world, config, made);
        if first.is_some() {
            self.write_half_made(world, &later);
        }
        Ok(world.timing.create + bytes / world.timing.copy_rate)
    }

    /// Proxmox writes the configuration after each drive it has copied. From the first one on, a clone with more drives has its
    /// name and description, and is locked still.
    fn write_half_made(&self, world: &mut World, later: &BTreeSet<String>) {
        let mut config = self.made.clone();
        config.retain(|key, _| !later.contains(key));
        config.insert("lock".to_owned(), "clone".to_owned());
        if let Some(vm) = world.vms.get_mut(&self.target) {
            vm.config = config;
        }
    }

    fn copy_drives(
        &self,
        world: &mut World,
        job: &Job,
        config: &BTreeMap<String, String>,
    ) -> Result<(BTreeMap<String, String>, u64), String> {
        let mut made = BTreeMap::new();
        let mut bytes = 0;
        for drive in drives_of(config).into_iter().filter(is_copied) {
            let full = self.full || always_full(&drive);
            let volid = if full {
                let (volid, size) = self.copy_full(world, job, &drive)?;
                bytes += size;
                volid
            } else {
                self.copy_linked(world, job, &drive)?
            };
            let size = world.volume(&job.node, &volid).map_or(0, |volume| volume.size);
            let mut copy = drive.clone();
            copy.set("file", volid);
            copy.set("size", print_size(size));
            made.insert(drive.key.clone(), copy.print());
        }
        Ok((made, bytes))
    }

    fn copy_full(&self, world: &mut World, job: &Job, drive: &Drive) -> Result<(String, u64), String> {
        world.log(job, format!("create full clone of drive {} ({})", drive.key, drive.file()));
        let source = world.volume(&job.node, drive.file());
        let source = source.ok_or_else(|| format!("volume '{}' does not exist", drive.file()))?.clone();
        let own = split_volid(drive.file()).map_or("", |(storage, _)| storage);
        let storage = self.storage.as_deref().unwrap_or(own).to_owned();
        let target = world.storage_on(&storage, &job.node)?;
        let format = target.copy_format(self.format.as_deref(), &source.format).to_owned();
        let name = drive.is_cloudinit().then(|| format!("vm-{}-cloudinit", self.target));
        let (vmid, size, data) = (self.target, source.size, source.data);
        let image = NewImage { vmid, name: name.as_deref(), format: &format, size, data };
        let volid = world.allocate(Some(job), &job.node, &storage, image)?;
        world.copy_content(&job.node, &volid, &source);
        world.log(job, format!("allocated target volume '{volid}'"));
        if name.is_none() {
            world.log_copy(job, source.size);
        }
        Ok((volid, source.size))
    }

    fn copy_linked(&self, world: &mut World, job: &Job, drive: &Drive) -> Result<String, String> {
        world.log(job, format!("create linked clone of drive {} ({})", drive.key, drive.file()));
        let base = world.volume(&job.node, drive.file());
        let base = base.ok_or_else(|| format!("volume '{}' does not exist", drive.file()))?.clone();
        let (storage_id, base_name) = split_volid(drive.file()).unwrap_or_default();
        let storage = world.storage_on(storage_id, &job.node)?.clone();
        let name = world.free_disk_name(&job.node, storage_id, self.target);
        let named = storage.traits().names_bases(&base.format) && self.snapshot.is_none();
        // On file storages an overlay is always qcow2, whatever its base is.
        let format = if storage.holds_files() && named { "qcow2" } else { "raw" };
        let own = World::image_volid(&storage, self.target, &name, format);
        let own_name = split_volid(&own).map_or("", |(_, name)| name).to_owned();
        // Thin LVM and btrfs forget whose snapshot a volume was; the others keep the base in the name.
        let (volid, parent) = if named {
            (format!("{storage_id}:{base_name}/{own_name}"), Some(drive.file().to_owned()))
        } else {
            (own.clone(), None)
        };
        if storage.holds_files() && named {
            let file = own_name.rsplit('/').next().unwrap_or_default();
            world.log(
                job,
                format!("clone {base_name}: images, {file}, {} to {file} (base=../{base_name})", self.target),
            );
            let path = world.path_of(&own);
            world.log(
                job,
                format!(
                    "Formatting '{path}', fmt=qcow2 cluster_size=131072 extended_l2=on preallocation=metadata \
                     compression_type=zlib size={1} backing_file=../{base_name} backing_fmt={0} lazy_refcounts=off \
                     refcount_bits=16",
                    base.format, base.size
                ),
            );
        }
        world.insert_image(&job.node, &volid, format, base.size, self.target, parent);
        world.copy_content(&job.node, &volid, &base);
        Ok(volid)
    }

    fn new_config(
        &self,
        world: &mut World,
        mut config: BTreeMap<String, String>,
        made: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let dropped = ["template", "lock", "parent", "snaptime", "vmstate", "runningmachine", "runningcpu"];
        config.retain(|key, _| !dropped.contains(&key.as_str()) && !key.starts_with("unused"));
        config.extend(made);
        let mut nics: BTreeMap<String, String> = config
            .iter()
            .filter(|(key, _)| crate::drive::is_nic(key))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        for text in nics.values_mut() {
            let mut net = schema::parse_as("net", text);
            net.remove("macaddr");
            *text = schema::print("net", &net);
        }
        world.add_macs(&mut nics);
        config.extend(nics);
        let mut smbios =
            config.get("smbios1").map(|text| schema::parse_as("smbios1", text)).unwrap_or_default();
        smbios.insert("uuid".into(), world.random.uuid());
        config.insert("smbios1".into(), schema::print("smbios1", &smbios));
        if let Some(generation) = config.get_mut("vmgenid") {
            *generation = world.random.uuid();
        }
        let old = config.get("name").cloned().unwrap_or_else(|| self.source.to_string());
        config.insert("name".into(), self.name.clone().unwrap_or_else(|| format!("Copy-of-VM-{old}")));
        if let Some(description) = &self.description {
            config.insert("description".into(), description.clone());
        }
        config
    }

    pub(crate) fn finish(&mut self, world: &mut World, _job: &Job) -> Result<(), String> {
        let vm = world.vm_mut(self.target)?;
        vm.config = std::mem::take(&mut self.made);
        vm.node.clone_from(&self.node);
        if let Some(pool) = self.pool.as_ref().and_then(|pool| world.pools.get_mut(pool)) {
            pool.vms.insert(self.target);
        }
        Ok(())
    }
}
