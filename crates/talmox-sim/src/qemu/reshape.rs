//! Changing disks as a whole: resize, move, and making a template of a VM.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::Call;
use crate::drive::{Drive, LARGEST_IMAGE, is_drive, parse_size, print_size, too_large};
use crate::jobs::Work;
use crate::reply::{Answer, ApiError};
use crate::storage::{Allocations, NewImage, split_volid};
use crate::tasks::Job;
use crate::vm::Vm;
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ResizeJob {
    pub(crate) vmid: u32,
    disk: String,
    size: String,
    digest: Option<String>,
    bytes: u64,
}

pub(crate) fn resize(world: &mut World, call: &Call) -> Answer {
    if call.args.flag("skiplock") && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    let job = ResizeJob {
        vmid: call.vmid(),
        disk: call.args.text("disk").to_owned(),
        size: call.args.text("size").to_owned(),
        digest: call.args.get("digest").map(str::to_owned),
        bytes: 0,
    };
    let vmid = job.vmid.to_string();
    Ok(Value::from(world.spawn(&call.node, "resize", &vmid, &call.caller, Work::Resize(job))))
}

impl ResizeJob {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        vm.check_digest(self.digest.as_deref())?;
        vm.check_lock()?;
        let running = vm.run.is_some();
        let missing = format!("disk '{}' does not exist", self.disk);
        let drive = vm.config.get(&self.disk).map(|text| Drive::parse(&self.disk, text)).ok_or(missing)?;
        if drive.is_cdrom() {
            return Err("you can't resize a cdrom".into());
        }
        let volid = drive.file().to_owned();
        let storage = split_volid(&volid).map_or("", |(storage, _)| storage);
        let need = world.need(&job.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace");
        need.map_err(|error| error.text())?;
        let volume =
            world.volume(&job.node, &volid).ok_or_else(|| format!("volume '{volid}' does not exist"))?;
        let (old, format) = (volume.size, volume.format.clone());
        let base = if self.size.starts_with('+') { old } else { 0 };
        let new = parse_size(self.size.trim_start_matches('+'))
            .and_then(|wanted| base.checked_add(wanted))
            .filter(|bytes| *bytes <= LARGEST_IMAGE)
            .ok_or_else(|| too_large(&self.size))?;
        if new < old {
            return Err("shrinking disks is not supported".into());
        }
        let place = world.storage_on(storage, &job.node)?;
        self.bytes = place.traits().round(new);
        let name = world.name_of(&volid)?.name;
        world.check_growth(place, &job.node, &name, self.bytes.saturating_sub(old))?;
        if new > old && place.holds_files() && !running {
            self.run_tool(world, job, &volid, &format)?;
        }
        world.need_writable(&job.node, self.vmid, world.tasks[job.task].pid)?;
        let message = format!("update VM {}: resize --disk {} --size {}", self.vmid, self.disk, self.size);
        world.note(&job.node, world.tasks[job.task].pid, &job.caller.id(), message);
        Ok(world.timing.small)
    }

    /// Base images are immutable files, so the tool cannot open them.
    fn run_tool(&self, world: &mut World, job: &Job, volid: &str, format: &str) -> Result<(), String> {
        if !super::clone::is_base(world, volid) {
            world.log(job, "Image resized.");
            return Ok(());
        }
        let path = world.path_of(volid);
        world.log(
            job,
            format!("qemu-img: Could not open '{path}': Could not open '{path}': Operation not permitted"),
        );
        let preallocation = if format == "raw" { "off" } else { "metadata" };
        Err(format!(
            "command '/usr/bin/qemu-img resize '--preallocation={preallocation}' -f {format} {path} {}' failed: exit code 1",
            self.bytes
        ))
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        let Some(text) = vm.config.get(&self.disk) else { return Ok(()) };
        let mut drive = Drive::parse(&self.disk, text);
        if let Some(volume) = world.volume_mut(&job.node, drive.file()) {
            volume.size = self.bytes;
        }
        drive.set("size", print_size(self.bytes));
        world.vm_mut(self.vmid)?.config.insert(self.disk.clone(), drive.print());
        Ok(())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TemplateJob {
    pub(crate) vmid: u32,
    disk: Option<String>,
}

pub(crate) fn template(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_lock().map_err(ApiError::Plain)?;
    if !vm.snapshots.is_empty() {
        return Err(ApiError::plain("unable to create template, because VM contains snapshots"));
    }
    let disk = call.args.get("disk").map(str::to_owned);
    if vm.is_template() && disk.is_none() {
        return Err(ApiError::plain("you can't convert a template to a template"));
    }
    if vm.run.is_some() {
        return Err(ApiError::plain("you can't convert a VM to template if VM is running"));
    }
    let work = Work::Template(TemplateJob { vmid, disk });
    Ok(Value::from(world.spawn(&call.node, "qmtemplate", &vmid.to_string(), &call.caller, work)))
}

impl TemplateJob {
    /// Making a base image takes the lock like making a new one.
    pub(crate) fn allocations(&self, world: &World) -> Allocations {
        let mut wanted = Allocations::new();
        let drives = world.vms.get(&self.vmid).map(Vm::drives).unwrap_or_default();
        for drive in drives.iter().filter(|drive| !drive.is_cdrom()) {
            let storage = split_volid(drive.file()).and_then(|(id, _)| world.storage(id).ok());
            if let Some(storage) = storage.filter(|storage| storage.traits().makes_bases()) {
                *wanted.entry(storage.id.clone()).or_default() += 1;
            }
        }
        wanted
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        vm.check_lock()?;
        if vm.is_template() && self.disk.is_none() {
            return Err("you can't convert a template to a template".into());
        }
        world.need_writable(&job.node, self.vmid, world.tasks[job.task].pid)?;
        Ok(world.timing.small)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        world.vm_mut(self.vmid)?.config.insert("template".into(), "1".into());
        world.convert_to_template(&job.node, self.vmid, self.disk.as_deref());
        Ok(())
    }
}

impl World {
    /// Makes base images of a VM's disks; CD-ROMs and the cloud-init drive stay.
    pub(crate) fn convert_to_template(&mut self, node: &str, vmid: u32, only: Option<&str>) {
        let Some(vm) = self.vms.get(&vmid) else { return };
        let drives = vm.drives();
        let wanted =
            drives.into_iter().filter(|drive| !drive.is_cdrom() && only.is_none_or(|key| key == drive.key));
        for mut drive in wanted.collect::<Vec<_>>() {
            let base = self.make_base(node, drive.file());
            drive.set("file", base);
            if let Some(vm) = self.vms.get_mut(&vmid) {
                vm.config.insert(drive.key.clone(), drive.print());
            }
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MoveJob {
    pub(crate) vmid: u32,
    disk: String,
    storage: String,
    format: Option<String>,
    delete: bool,
    made: String,
    old: String,
}

pub(crate) fn move_disk(world: &mut World, call: &Call) -> Answer {
    let vmid = call.vmid();
    let disk = call.args.text("disk").to_owned();
    let both = |text: &str| {
        let names = ["storage", "target-vmid"];
        Err(ApiError::Parameter(names.map(|name| (name.to_owned(), text.to_owned())).into()))
    };
    let storage = match (call.args.get("storage"), call.args.get("target-vmid")) {
        (Some(_), Some(_)) => return both("either set 'storage' or 'target-vmid', but not both"),
        (None, None) => return both("both 'storage' and 'target-vmid' missing, either needs to be set"),
        (None, Some(_)) => return super::reassign::reassign(world, call),
        (Some(storage), None) => storage.to_owned(),
    };
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_lock().map_err(ApiError::Plain)?;
    if call.args.get("digest").is_some_and(|digest| digest != vm.digest()) {
        let text = "detected modified configuration - file changed by other user? Try again.";
        return Err(ApiError::plain(text));
    }
    let missing = || ApiError::plain(format!("disk '{disk}' does not exist"));
    let drive = vm.config.get(&disk).map(|text| Drive::parse(&disk, text)).ok_or_else(missing)?;
    if drive.is_cdrom() {
        return Err(ApiError::plain("you can't move a cdrom"));
    }
    world.need(&call.caller, &format!("/storage/{storage}"), "Datastore.AllocateSpace")?;
    let target = world.storage_on(&storage, &call.node).map_err(ApiError::Plain)?;
    if !target.content.contains("images") {
        return Err(ApiError::parameter(
            "storage",
            format!("storage '{storage}' does not support vm images"),
        ));
    }
    let current =
        world.volume(&call.node, drive.file()).map(|volume| volume.format.clone()).unwrap_or_default();
    let format = call.args.get("format").map(str::to_owned);
    let same_storage = split_volid(drive.file()).is_some_and(|(own, _)| own == storage);
    if same_storage && format.as_ref().is_none_or(|format| *format == current) {
        return Err(ApiError::plain("you can't move to the same storage with same format"));
    }
    let delete = call.args.flag("delete");
    let job = MoveJob { vmid, disk, storage, format, delete, made: String::new(), old: String::new() };
    Ok(Value::from(world.spawn(&call.node, "qmmove", &vmid.to_string(), &call.caller, Work::Move(job))))
}

impl MoveJob {
    pub(crate) fn allocations(&self) -> Allocations {
        Allocations::from([(self.storage.clone(), 1)])
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        vm.check_lock()?;
        let text = vm.config.get(&self.disk).cloned().unwrap_or_default();
        let drive = Drive::parse(&self.disk, &text);
        let volume = world.volume(&job.node, drive.file());
        let volume = volume.ok_or_else(|| format!("volume '{}' does not exist", drive.file()))?.clone();
        let own = split_volid(drive.file()).map_or("", |(storage, _)| storage);
        let file = drive.file();
        world.log(
            job,
            format!(
                "copying volume '{file}' from current storage '{own}' to target storage '{}'",
                self.storage
            ),
        );
        world.log(job, format!("create full clone of drive {} ({file})", self.disk));
        let target = world.storage_on(&self.storage, &job.node)?;
        let format = target.copy_format(self.format.as_deref(), &volume.format).to_owned();
        let (size, data) = (volume.size, volume.data);
        let image = NewImage { vmid: self.vmid, name: None, format: &format, size, data };
        self.made = world.allocate(Some(job), &job.node, &self.storage, image)?;
        world.copy_content(&job.node, &self.made, &volume);
        file.clone_into(&mut self.old);
        world.log(job, format!("allocated target volume '{}'", self.made));
        world.log_copy(job, volume.size);
        Ok(world.timing.small + volume.size / world.timing.copy_rate)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        let text = vm.config.get(&self.disk).cloned().unwrap_or_default();
        let old = Drive::parse(&self.disk, &text);
        let mut drive = old.clone();
        drive.set("file", self.made.clone());
        // A guest that runs has written on both at once; it is the disk it had.
        let keys = [old.file(), &self.made].map(|volid| world.volume_key(&job.node, volid));
        world.volumes.take_place(&keys[0], &keys[1]);
        world.fill_size(&job.node, &mut drive);
        world.vm_mut(self.vmid)?.config.insert(self.disk.clone(), drive.print());
        if self.delete {
            world.log(job, format!("removing source volume '{}' after successful copy", self.old));
        }
        world.retire_drive(&job.node, self.vmid, &old, self.delete);
        Ok(())
    }
}

/// Disks a VM could not take along to another host.
pub(crate) fn local_drives(world: &World, node: &str, vmid: u32) -> Vec<Drive> {
    let Some(vm) = world.vms.get(&vmid).filter(|vm| vm.node == node) else { return Vec::new() };
    let all = vm.config.iter().filter(|(key, _)| is_drive(key)).map(|(key, text)| Drive::parse(key, text));
    let local = all.filter(|drive| {
        split_volid(drive.file())
            .is_some_and(|(id, _)| world.storage(id).is_ok_and(|storage| !storage.shared))
    });
    local.collect()
}
