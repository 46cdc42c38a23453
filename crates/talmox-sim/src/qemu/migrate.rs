//! Moving a VM to another host.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reshape::local_drives;
use crate::access::{Caller, ROOT};
use crate::api::Call;
use crate::drive::Drive;
use crate::jobs::{Wish, Work};
use crate::reply::{Answer, ApiError};
use crate::schema;
use crate::tasks::Job;
use crate::vm::Vm;
use crate::world::{Reach, World};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MigrateJob {
    pub(crate) vmid: u32,
    target: String,
    with_disks: bool,
}

/// `GET migrate`: what stands in the way.
pub(crate) fn preconditions(world: &World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    let disks: Vec<Value> =
        local_drives(world, &call.node, vmid).iter().map(|drive| local_disk(world, call, drive)).collect();
    let resources: Vec<&String> =
        vm.config.keys().filter(|key| is_local_resource(key, &vm.config[*key])).collect();
    let mapped: Vec<&String> = vm.config.keys().filter(|key| is_mapped(key, &vm.config[*key])).collect();
    let others = world.nodes.keys().filter(|node| **node != call.node);
    let blocked = |node: &String| {
        let drives = vm.drives();
        let storages = drives
            .iter()
            .filter_map(|drive| crate::storage::split_volid(drive.file()).map(|(id, _)| id.to_owned()));
        let missing: Vec<String> =
            storages.filter(|id| !world.storage(id).is_ok_and(|storage| storage.on(node))).collect();
        missing
    };
    let allowed: Vec<&String> = others.clone().filter(|node| blocked(node).is_empty()).collect();
    let refused: serde_json::Map<String, Value> = others
        .map(|node| {
            let missing = blocked(node);
            let entry = if missing.is_empty() { json!({}) } else { json!({"unavailable_storages": missing}) };
            (node.clone(), entry)
        })
        .collect();
    Ok(json!({
        "running": u8::from(vm.run.is_some()),
        "allowed_nodes": allowed,
        "not_allowed_nodes": refused,
        "local_disks": disks,
        "local_resources": resources,
        "mapped-resources": mapped,
        "mapped-resource-info": {},
        "has-dbus-vmstate": 1,
    }))
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

fn is_local_resource(key: &str, text: &str) -> bool {
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    match family {
        "usb" => !text.contains("spice") && !text.contains("mapping="),
        "hostpci" => !text.contains("mapping="),
        "serial" => text != "socket",
        "parallel" | "ivshmem" => true,
        _ => false,
    }
}

fn is_mapped(key: &str, text: &str) -> bool {
    let family = key.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(family, "usb" | "hostpci") && schema::parse_as(family, text).contains_key("mapping")
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
    if let Some(entry) = world.ha_resources.get(&format!("vm:{vmid}"))
        && entry.get("state").is_none_or(|state| state != "ignored")
    {
        let line = format!("Requesting HA migration for VM {vmid} to node {target}");
        let wish = Wish::Migrate(MigrateJob { vmid, target, with_disks: vm.run.is_none() });
        let work = Work::Ask { line, wish: Some(wish) };
        return Ok(Value::from(world.spawn(&call.node, "hamigrate", &vmid.to_string(), &call.caller, work)));
    }
    let with_disks = vm.run.is_none() || call.args.flag("with-local-disks");
    let work = Work::Migrate(MigrateJob { vmid, target, with_disks });
    Ok(Value::from(world.spawn(&call.node, "qmigrate", &vmid.to_string(), &call.caller, work)))
}

/// The HA manager moves a VM.
pub(crate) fn move_for_ha(world: &mut World, vmid: u32, target: &str) {
    let Some(vm) = world.vms.get(&vmid).filter(|vm| vm.node != target) else { return };
    let (node, with_disks) = (vm.node.clone(), vm.run.is_none());
    let root = Caller { user: ROOT.into(), token: None };
    let work = Work::Migrate(MigrateJob { vmid, target: target.to_owned(), with_disks });
    world.spawn(&node, "qmigrate", &vmid.to_string(), &root, work);
}

impl MigrateJob {
    /// Why it cannot be, if it cannot.
    fn obstacle(&self, world: &World, vm: &Vm, local: &[Drive]) -> Option<String> {
        let cdrom = |drive: &Drive| drive.is_cdrom() && !drive.is_cloudinit();
        let stuck = local.iter().any(|drive| cdrom(drive) || !self.with_disks);
        let bound = vm.config.iter().any(|(key, text)| is_local_resource(key, text));
        let mapped = vm.run.is_some() && vm.config.iter().any(|(key, text)| is_mapped(key, text));
        if stuck || bound || mapped {
            return Some("can't migrate VM with local resources".into());
        }
        if world.nodes.get(&self.target).is_none_or(|node| node.reach == Reach::Unreachable) {
            return Some(format!("can't connect to destination '{}'", self.target));
        }
        let drives = vm.drives();
        let storages = drives.iter().filter_map(|drive| crate::storage::split_volid(drive.file()));
        let mut missing =
            storages.filter(|(id, _)| !world.storage(id).is_ok_and(|storage| storage.on(&self.target)));
        missing.next().map(|(id, _)| format!("storage '{id}' is not available on node '{}'", self.target))
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        vm.check_lock()?;
        let local = local_drives(world, &job.node, self.vmid);
        if let Some(obstacle) = self.obstacle(world, vm, &local) {
            world.log(job, format!("ERROR: migration aborted (duration 00:00:00): {obstacle}"));
            return Err("migration aborted".into());
        }
        let bytes: u64 = local.iter().map(Drive::size).sum();
        world.vm_mut(self.vmid)?.config.insert("lock".into(), "migrate".into());
        Ok(world.timing.start + bytes / world.timing.copy_rate)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        for drive in local_drives(world, &job.node, self.vmid) {
            let old = world.volume_key(&job.node, drive.file());
            let new = world.volume_key(&self.target, drive.file());
            if let Some(volume) = world.volumes.remove(&old) {
                world.volumes.insert(new, volume);
            }
        }
        let vm = world.vm_mut(self.vmid)?;
        vm.config.remove("lock");
        vm.node.clone_from(&self.target);
        vm.stat = None;
        Ok(())
    }
}
