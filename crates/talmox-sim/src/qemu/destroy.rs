//! Removing a VM with its volumes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Call;
use crate::drive::{Drive, is_drive};
use crate::jobs::Work;
use crate::reply::{Answer, ApiError};
use crate::storage::split_volid;
use crate::tasks::Job;
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DestroyJob {
    pub(crate) vmid: u32,
    purge: bool,
    unreferenced: bool,
}

pub(crate) fn destroy(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    if call.args.flag("skiplock") && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_protection(&format!("can't remove VM {vmid}")).map_err(ApiError::Plain)?;
    let purge = call.args.flag("purge");
    if !purge && world.ha_resources.contains_key(&format!("vm:{vmid}")) {
        let text = format!("unable to remove VM {vmid} - used in HA resources and purge parameter not set.");
        return Err(ApiError::Plain(text));
    }
    if let Some(id) = world.replication_of(vmid).filter(|_| !purge) {
        let text =
            format!("There is a replication job '{id}' for guest '{vmid}' - Please remove that first.");
        return Err(ApiError::Plain(text));
    }
    if vm.run.is_some() {
        return Err(ApiError::plain(format!("VM {vmid} is running - destroy failed")));
    }
    let job = DestroyJob { vmid, purge, unreferenced: call.args.flag("destroy-unreferenced-disks") };
    Ok(Value::from(world.spawn(&call.node, "qmdestroy", &vmid.to_string(), &call.caller, Work::Destroy(job))))
}

impl DestroyJob {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        vm.check_lock()?;
        if vm.run.is_some() {
            return Err(format!("VM {} is running - destroy failed", self.vmid));
        }
        let volids = referenced(vm);
        if let Some(base) = volids.iter().find(|volid| world.has_linked_clones(volid)) {
            return Err(format!("base volume '{base}' is still in use by linked cloned"));
        }
        for volid in volids.iter().filter(|volid| split_volid(volid).is_some()) {
            let own = world.name_of(volid).is_ok_and(|name| name.vmid == Some(self.vmid));
            if own && world.volume(&job.node, volid).is_none() {
                world.log(job, format!("disk image '{}' does not exist", world.path_of(volid)));
            }
        }
        world.need_writable(&job.node, self.vmid, world.tasks[job.task].pid)?;
        world.vm_mut(self.vmid)?.config.insert("lock".into(), "destroyed".into());
        Ok(world.timing.destroy)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        let used: Vec<String> =
            referenced(vm).iter().map(|volid| world.volume_key(&job.node, volid)).collect();
        let own = world.volumes_of(self.vmid);
        for key in own.iter().filter(|key| self.unreferenced || used.contains(key)) {
            world.volumes.remove(key);
        }
        if self.purge {
            world.log(job, format!("purging VM {} from related configurations..", self.vmid));
            world.ha_resources.remove(&format!("vm:{}", self.vmid));
            world.purge_jobs(self.vmid);
        }
        world.vms.remove(&self.vmid);
        for pool in world.pools.values_mut() {
            pool.vms.remove(&self.vmid);
        }
        let path = format!("/vms/{}", self.vmid);
        world.access.acl.retain(|entry| entry.path != path);
        Ok(())
    }
}

impl World {
    fn replication_of(&self, vmid: u32) -> Option<&String> {
        let prefix = format!("{vmid}-");
        self.replication_jobs.keys().find(|id| id.starts_with(&prefix))
    }

    /// Takes a guest out of backup and replication jobs; a backup job that has nobody left goes too.
    fn purge_jobs(&mut self, vmid: u32) {
        let (own, prefix) = (vmid.to_string(), format!("{vmid}-"));
        self.replication_jobs.retain(|id, _| !id.starts_with(&prefix));
        self.backup_jobs.retain(|_, options| {
            let Some(list) = options.get_mut("vmid") else { return true };
            let left: Vec<&str> = list.split(',').filter(|id| *id != own).collect();
            *list = left.join(",");
            !list.is_empty()
        });
    }
}

/// Volumes the configuration names, cloud-init drives and detached ones too, CD images not.
fn referenced(vm: &crate::vm::Vm) -> Vec<String> {
    let all = vm.config.iter().chain(&vm.pending);
    let drives = all.filter(|(key, _)| is_drive(key)).map(|(key, text)| Drive::parse(key, text));
    let owned = drives.filter(|drive| !drive.is_none() && (!drive.is_cdrom() || drive.is_cloudinit()));
    owned.map(|drive| drive.file().to_owned()).collect()
}
