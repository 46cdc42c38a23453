//! Moving a VM to another host: what the call asks and answers. What its worker does is in [`worker`].

mod resources;
mod volumes;
mod worker;

use serde_json::{Value, json};

use super::reshape::local_drives;
use crate::access::{Caller, ROOT};
use crate::api::Call;
use crate::drive::Drive;
use crate::jobs::{Wish, Work};
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::split_list;
use crate::storage::split_volid;
use crate::vm::Vm;
use crate::world::World;

use resources::Resources;
use volumes::StorageMap;
pub(crate) use worker::MigrateJob;

/// `GET migrate`: what stands in the way.
pub(crate) fn preconditions(world: &World, call: &Call) -> Answer {
    world.need_quorum()?;
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_lock().map_err(ApiError::Plain)?;
    let disks: Vec<Value> =
        local_drives(world, &call.node, vmid).iter().map(|drive| local_disk(world, call, drive)).collect();
    let resources = Resources::of(world, vm);
    let others = world.nodes.keys().filter(|node| **node != call.node);
    let obstacles: Vec<(&String, Value)> =
        others.map(|node| (node, obstacles(world, vmid, vm, &resources, node))).collect();
    let free = |entry: &Value| entry.as_object().is_none_or(serde_json::Map::is_empty);
    let allowed: Vec<&String> =
        obstacles.iter().filter(|(_, entry)| free(entry)).map(|(node, _)| *node).collect();
    let mut shown = json!({
        "running": u8::from(vm.run.is_some()),
        "allowed_nodes": allowed,
        "local_disks": disks,
        "local_resources": resources.local,
        "mapped-resources": resources.mapped.keys().collect::<Vec<_>>(),
        "mapped-resource-info": resources.info(),
        "has-dbus-vmstate": 1,
    });
    if is_managed(world, vmid) && world.has(Change::HaRules) {
        shown["dependent-ha-resources"] = kept_together(world, vmid).into();
    }
    shown["not_allowed_nodes"] =
        Value::Object(obstacles.into_iter().map(|(node, entry)| (node.clone(), entry)).collect());
    Ok(shown)
}

/// What keeps a VM from one host.
fn obstacles(world: &World, vmid: u32, vm: &Vm, resources: &Resources, node: &str) -> Value {
    let drives = vm.drives();
    let storages = drives.iter().filter_map(|drive| split_volid(drive.file()).map(|(id, _)| id));
    let missing: Vec<&str> =
        storages.filter(|id| !world.storage(id).is_ok_and(|storage| storage.on(node))).collect();
    let mut entry = json!({});
    if !missing.is_empty() {
        entry["unavailable_storages"] = missing.into();
    }
    let devices = resources.missing_on(world, node);
    if !devices.is_empty() {
        entry["unavailable-resources"] = devices.into();
    }
    let managed = is_managed(world, vmid) && world.has(Change::HaRules);
    let apart = if managed { crate::api::ha::kept_apart(world, &sid(vmid), node) } else { Vec::new() };
    if !apart.is_empty() {
        let blocking = apart.iter().map(|sid| json!({"sid": sid, "cause": "resource-affinity"}));
        entry["blocking-ha-resources"] = blocking.collect();
    }
    entry
}

fn sid(vmid: u32) -> String {
    format!("vm:{vmid}")
}

fn is_managed(world: &World, vmid: u32) -> bool {
    let entry = world.ha_resources.get(&sid(vmid));
    entry.is_some_and(|entry| entry.get("state").is_none_or(|state| state != "ignored"))
}

/// Resources that a rule keeps on the same host.
fn kept_together(world: &World, vmid: u32) -> Vec<String> {
    let own = sid(vmid);
    let together =
        world.ha_rules.values().filter(|rule| rule.get("affinity").is_some_and(|kind| kind == "positive"));
    let lists = together.filter_map(|rule| rule.get("resources"));
    let with_it = lists.filter(|list| split_list(list).any(|item| item == own));
    with_it.flat_map(|list| split_list(list)).filter(|item| *item != own).map(str::to_owned).collect()
}

fn local_disk(world: &World, call: &Call, drive: &Drive) -> Value {
    let flag = |value: bool| u8::from(value);
    let size = world.volume(&call.node, drive.file()).map_or(0, |volume| volume.size);
    json!({
        "volid": drive.file(),
        "drivename": drive.key,
        "cdrom": flag(drive.is_cdrom()),
        "is_attached": flag(!drive.key.starts_with("unused")),
        "is_cloudinit": flag(drive.is_cloudinit()),
        "is_tpmstate": flag(drive.key == "tpmstate0"),
        "is_unused": flag(drive.key.starts_with("unused")),
        "is_vmstate": 0,
        "replicate": flag(drive.get("replicate") != Some("0")),
        "shared": 0,
        "size": size,
    })
}

pub(crate) fn migrate(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let target = call.args.text("target").to_owned();
    if target == call.node {
        return Err(ApiError::parameter("target", "target is local node."));
    }
    world.need_quorum()?;
    if !world.nodes.contains_key(&target) {
        return Err(ApiError::plain(format!("no such cluster node '{target}'")));
    }
    for name in ["force", "migration_type", "migration_network"] {
        if call.args.get(name).is_some_and(|value| value != "0") && !call.caller.is_root() {
            return Err(ApiError::parameter(name, "Only root may use this option."));
        }
    }
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_lock().map_err(ApiError::Plain)?;
    if vm.run.is_some() && !call.args.flag("online") {
        return Err(ApiError::plain("can't migrate running VM without --online"));
    }
    let map = match call.args.get("targetstorage") {
        Some(text) => check_map(world, call, vmid, text, &target)?,
        None => {
            check_storages(world, vm, &target)?;
            StorageMap::default()
        }
    };
    let job = MigrateJob::new(vmid, &target);
    if is_managed(world, vmid) {
        let line = format!("Requesting HA migration for VM {vmid} to node {target}");
        let work = Work::Ask { line, wish: Some(Wish::Migrate(job.online())) };
        return Ok(Value::from(world.spawn(&call.node, "hamigrate", &vmid.to_string(), &call.caller, work)));
    }
    let job = job.with(call, map);
    let work = Work::Migrate(job);
    Ok(Value::from(world.spawn(&call.node, "qmigrate", &vmid.to_string(), &call.caller, work)))
}

/// Disks that go to other storages are changed disks: they ask for the rights to do so, there and here.
fn check_map(
    world: &World,
    call: &Call,
    vmid: u32,
    text: &str,
    target: &str,
) -> Result<StorageMap, ApiError> {
    let map = StorageMap::read(text).map_err(|error| {
        ApiError::parameter("targetstorage", format!("failed to parse storage map: {error}"))
    })?;
    if map.identity {
        check_storages(world, world.vm_on(&call.node, vmid)?, target)?;
        return Ok(map);
    }
    world.need(&call.caller, &format!("/vms/{vmid}"), "VM.Config.Disk")?;
    for storage in map.entries.values().chain(&map.default) {
        let found = world.storage_on(storage, target).map_err(ApiError::Plain)?;
        world.need(&call.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
        if !found.content.contains("images") {
            return Err(ApiError::plain(format!("storage '{storage}' does not support vm images")));
        }
    }
    Ok(map)
}

/// Without a map every storage must be there on the other side.
fn check_storages(world: &World, vm: &Vm, target: &str) -> Result<(), ApiError> {
    for drive in vm.drives() {
        let Some((id, _)) = split_volid(drive.file()) else { continue };
        let known = world.storage(id).map(|storage| storage.disabled);
        if known.map_err(ApiError::Plain)? {
            return Err(ApiError::plain(format!("storage '{id}' is disabled")));
        }
        volumes::check_content(world, drive.file(), id, target).map_err(ApiError::Plain)?;
    }
    Ok(())
}

/// The HA manager moves a VM.
pub(crate) fn move_for_ha(world: &mut World, vmid: u32, target: &str) {
    let Some(vm) = world.vms.get(&vmid).filter(|vm| vm.node != target) else { return };
    let node = vm.node.clone();
    let root = Caller { user: ROOT.into(), token: None };
    let work = Work::Migrate(MigrateJob::new(vmid, target).online());
    world.spawn(&node, "qmigrate", &vmid.to_string(), &root, work);
}
