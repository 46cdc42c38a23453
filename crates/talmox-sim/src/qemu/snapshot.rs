//! Snapshots, as far as other calls depend on them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Call;
use crate::jobs::Work;
use crate::reply::{Answer, ApiError};
use crate::tasks::Job;
use crate::vm::shown_config;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Take,
    Rollback,
    Remove,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotJob {
    pub(crate) vmid: u32,
    name: String,
    description: Option<String>,
    step: Step,
}

pub(crate) fn act(world: &mut World, call: &Call, step: Step) -> Answer {
    let vmid = call.vmid();
    world.vm_on(&call.node, vmid)?;
    let kind = match step {
        Step::Take => "qmsnapshot",
        Step::Rollback => "qmrollback",
        Step::Remove => "qmdelsnapshot",
    };
    let name = call.args.text("snapname").to_owned();
    let description = call.args.get("description").map(str::to_owned);
    let work = Work::Snapshot(SnapshotJob { vmid, name, description, step });
    Ok(Value::from(world.spawn(&call.node, kind, &vmid.to_string(), &call.caller, work)))
}

impl SnapshotJob {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        if self.step == Step::Take && vm.is_template() {
            return Err("you can't take a snapshot if it's a template".into());
        }
        vm.check_lock()?;
        let known = vm.snapshots.contains_key(&self.name);
        match self.step {
            Step::Take if known => return Err(format!("snapshot name '{}' already used", self.name)),
            Step::Take if !can_snapshot(world, self.vmid) => {
                return Err("snapshot feature is not available".into());
            }
            Step::Take => {
                let disks = vm.drives().into_iter().filter(|drive| !drive.is_cdrom());
                let lines: Vec<String> = disks
                    .map(|drive| format!("snapshotting 'drive-{}' ({})", drive.key, drive.file()))
                    .collect();
                for line in lines {
                    world.log(job, line);
                }
            }
            Step::Rollback | Step::Remove if !known => {
                return Err(format!("snapshot '{}' does not exist", self.name));
            }
            Step::Rollback | Step::Remove => {}
        }
        Ok(world.timing.small)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let now = world.unix();
        if self.step == Step::Rollback && world.vms.get(&self.vmid).is_some_and(|vm| vm.run.is_some()) {
            // What runs on the disks must not see them change.
            world.power_off(&job.node, self.vmid);
        }
        let vm = world.vm_mut(self.vmid)?;
        match self.step {
            Step::Take => {
                let mut copy = vm.config.clone();
                copy.remove("description");
                copy.insert("snaptime".into(), now.to_string());
                copy.extend(self.description.clone().map(|text| ("description".to_owned(), text)));
                vm.snapshots.insert(self.name.clone(), copy);
                vm.config.insert("parent".into(), self.name.clone());
            }
            Step::Rollback => {
                let mut copy = vm.snapshots.get(&self.name).cloned().unwrap_or_default();
                copy.remove("snaptime");
                copy.remove("description");
                copy.extend(
                    vm.config.get("description").cloned().map(|text| ("description".to_owned(), text)),
                );
                copy.insert("parent".into(), self.name.clone());
                vm.config = copy;
            }
            Step::Remove => {
                let gone = vm.snapshots.remove(&self.name).unwrap_or_default();
                if vm.config.get("parent") == Some(&self.name) {
                    vm.config.remove("parent");
                    vm.config.extend(gone.get("parent").cloned().map(|parent| ("parent".to_owned(), parent)));
                }
            }
        }
        match self.step {
            Step::Take => world.snapshot_taken(self.vmid, &self.name),
            Step::Rollback => world.snapshot_put_back(self.vmid, &self.name),
            Step::Remove => world.snapshot_removed(self.vmid, &self.name),
        }
        Ok(())
    }
}

/// Every disk must lie where snapshots are possible.
pub(crate) fn can_snapshot(world: &World, vmid: u32) -> bool {
    let Some(vm) = world.vms.get(&vmid) else { return false };
    vm.drives().iter().filter(|drive| !drive.is_cdrom()).all(|drive| {
        let storage = crate::storage::split_volid(drive.file()).and_then(|(id, _)| world.storage(id).ok());
        let name = world.name_of(drive.file());
        storage.is_some_and(|storage| name.is_ok_and(|name| storage.traits().snapshots(&name.format)))
    })
}

pub(crate) fn list(world: &World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    let mut entries: Vec<Value> = Vec::new();
    for (name, config) in &vm.snapshots {
        let mut entry = json!({"name": name, "description": config.get("description").map_or("", String::as_str), "vmstate": 0});
        entry["snaptime"] = crate::vm::shown("snaptime", config.get("snaptime").map_or("0", String::as_str));
        if let Some(parent) = config.get("parent") {
            entry["parent"] = json!(parent);
        }
        entries.push(entry);
    }
    let mut current = json!({
        "name": "current", "description": "You are here!", "digest": vm.digest(), "running": u8::from(vm.run.is_some()),
    });
    if let Some(parent) = vm.config.get("parent") {
        current["parent"] = json!(parent);
    }
    entries.push(current);
    Ok(Value::Array(entries))
}

pub(crate) fn config(world: &World, call: &Call) -> Answer {
    let vm = world.vm_on(&call.node, call.vmid())?;
    let name = call.args.text("snapname");
    let found =
        vm.snapshots.get(name).ok_or_else(|| ApiError::plain(format!("snapshot '{name}' does not exist")))?;
    Ok(Value::Object(shown_config(found)))
}

pub(crate) fn describe(world: &mut World, call: &Call) -> Answer {
    let name = call.args.text("snapname").to_owned();
    world.vm_on(&call.node, call.vmid())?;
    let vm = world.vm_mut(call.vmid()).map_err(ApiError::Plain)?;
    let missing = || ApiError::plain(format!("snapshot '{name}' does not exist"));
    let found = vm.snapshots.get_mut(&name).ok_or_else(missing)?;
    if let Some(text) = call.args.get("description") {
        found.insert("description".into(), text.to_owned());
    }
    Ok(Value::Null)
}
