//! Handing a disk to another VM of the same host.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::perms::Subject;
use crate::api::Call;
use crate::drive::Drive;
use crate::jobs::Work;
use crate::reply::{Answer, ApiError};
use crate::storage::split_volid;
use crate::tasks::Job;
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReassignJob {
    pub(crate) vmid: u32,
    disk: String,
    target: u32,
    target_disk: String,
}

pub(crate) fn reassign(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let target = call.args.int("target-vmid").and_then(|id| u32::try_from(id).ok()).unwrap_or_default();
    world.need_vm(&Subject { caller: &call.caller, vmid: target, pool: None }, &["VM.Config.Disk"])?;
    if target == vmid {
        return Err(ApiError::parameter(
            "target-vmid",
            "must be different than source VMID to reassign disk",
        ));
    }
    let disk = call.args.text("disk").to_owned();
    let target_disk = call.args.get("target-disk").unwrap_or(&disk).to_owned();
    let job = ReassignJob { vmid, disk, target, target_disk };
    job.check(world, &call.node).map_err(ApiError::Plain)?;
    let id = format!("{vmid}-{}>{target}-{}", job.disk, job.target_disk);
    Ok(Value::from(world.spawn(&call.node, "qmmove", &id, &call.caller, Work::Reassign(job))))
}

impl ReassignJob {
    /// Both VMs must be here and unlocked, the disk there, and its new place free.
    fn check(&self, world: &World, node: &str) -> Result<Drive, String> {
        let (vmid, target) = (self.vmid, self.target);
        let source = world.vm_for_job(node, vmid)?;
        source.check_lock()?;
        let other = world.vm_for_job(node, target)?;
        other.check_lock()?;
        let missing = format!("Disk '{}' for VM '{vmid}' does not exist", self.disk);
        let drive =
            source.config.get(&self.disk).map(|text| Drive::parse(&self.disk, text)).ok_or(missing)?;
        if drive.is_cdrom() {
            return Err(format!("Unable to reassign a CD-ROM drive ('{}')", self.disk));
        }
        if other.config.contains_key(&self.target_disk) {
            return Err(format!(
                "Target disk key '{}' is already in use for VM '{target}'",
                self.target_disk
            ));
        }
        Ok(drive)
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        self.check(world, &job.node)?;
        world.log(job, format!("moving disk '{}' from VM '{}' to '{}'", self.disk, self.vmid, self.target));
        Ok(world.timing.small)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let drive = self.check(world, &job.node)?;
        let (storage_id, _) = split_volid(drive.file()).unwrap_or_default();
        let storage = world.storage_on(storage_id, &job.node)?.clone();
        let old = world.volume_key(&job.node, drive.file());
        let missing = format!("volume '{}' does not exist", drive.file());
        let mut volume = world.volumes.remove(&old).ok_or(missing)?;
        let name = world.free_disk_name(&job.node, storage_id, self.target);
        let volid = World::image_volid(&storage, self.target, &name, &volume.format);
        let new = world.volume_key(&job.node, &volid);
        (volume.volid, volume.vmid) = (volid.clone(), Some(self.target));
        world.volumes.insert(new, volume);
        let mut moved = drive.clone();
        moved.key.clone_from(&self.target_disk);
        moved.set("file", volid);
        world.vm_mut(self.target)?.config.insert(self.target_disk.clone(), moved.print());
        world.vm_mut(self.vmid)?.config.remove(&self.disk);
        Ok(())
    }
}
