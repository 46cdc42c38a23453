//! Changing a configuration. Changes go to the pending section one by one, then what can be applied is applied:
//! a call that fails half-way leaves the first half behind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::create::{check_drives, check_ssh_keys, check_storages_of, clamp_cpu_units};
use super::disks::{Wanted, allocations};
use super::perms::{Subject, Verb};
use crate::api::Call;
use crate::drive::{Drive, is_drive};
use crate::jobs::Work;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::schema::{split_list, vm_option};
use crate::storage::Allocations;
use crate::tasks::Job;
use crate::vm::{Vm, boot_order_of, print_boot_order};
use crate::world::World;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UpdateJob {
    pub(crate) vmid: u32,
    settings: BTreeMap<String, String>,
    delete: Vec<String>,
    force: bool,
    words: String,
}

const NOT_OPTIONS: [&str; 9] = [
    "node",
    "vmid",
    "digest",
    "delete",
    "revert",
    "force",
    "skiplock",
    "background_delay",
    "import-working-storage",
];

/// `PUT`: the call does it all.
pub(crate) fn update_now(world: &mut World, call: &Call) -> Answer {
    let mut job = prepare(world, call, true)?;
    job.run(world, None, &call.node, call).map(|()| Value::Null)
}

/// `POST`: a worker does it.
pub(crate) fn update_later(world: &mut World, call: &Call) -> Answer {
    let job = prepare(world, call, false)?;
    let vmid = job.vmid.to_string();
    let upid = world.spawn(&call.node, "qmconfig", &vmid, &call.caller, Work::Update(job));
    let Some(delay) = call.args.int("background_delay") else { return Ok(Value::from(upid)) };
    match world.wait_for_worker(&upid, delay * 1000) {
        None => Ok(Value::from(upid)),
        Some(status) if status == "OK" => Ok(Value::Null),
        Some(status) => Err(ApiError::plain(format!("failed to update VM {vmid}: {status}"))),
    }
}

/// `PUT unlink` is a deletion by another name.
pub(crate) fn unlink(world: &mut World, call: &Call) -> Answer {
    let mut call = call.clone();
    let ids = call.args.take("idlist").unwrap_or_default();
    call.args.values.insert("delete".into(), ids);
    update_now(world, &call)
}

/// Checks a change; `at_once` if the call itself carries it out.
fn prepare(world: &mut World, call: &Call, at_once: bool) -> Result<UpdateJob, ApiError> {
    let vmid = call.vmid();
    let mut settings = call.args.values.clone();
    settings.retain(|key, _| !NOT_OPTIONS.contains(&key.as_str()));
    let words = words_of(call);
    if call.args.flag("skiplock") && !call.caller.is_root() {
        return Err(ApiError::parameter("skiplock", "Only root may use this option."));
    }
    if let Some(cdrom) = settings.remove("cdrom") {
        settings.insert("ide2".into(), cdrom);
    }
    let (delete, revert) = (call.args.text("delete").to_owned(), call.args.text("revert").to_owned());
    check_ssh_keys(&settings)?;
    clamp_cpu_units(&mut settings);
    if settings.is_empty() && delete.is_empty() && revert.is_empty() {
        return Err(ApiError::plain("no options specified"));
    }
    check_drives(world, &mut settings)?;
    let delete = removals(&settings, &delete, "delete")?;
    let revert = removals(&settings, &revert, "revert")?;
    world.add_macs(&mut settings);
    check_rights(world, call, &delete, &settings)?;
    world.vm_on(&call.node, vmid)?.check_lock().map_err(ApiError::Plain)?;
    if at_once || !world.has(Change::LockInWorker) {
        world.wait_for_lock(vmid)?;
    }
    check_current(world, call, vmid, &settings)?;
    if at_once {
        world.wait_for_storages(&call.node, &allocations(&settings, None))?;
    }
    if !revert.is_empty() {
        world.need_writable(&call.node, vmid, 123).map_err(ApiError::Plain)?;
    }
    if let Some(vm) = world.vms.get_mut(&vmid) {
        for key in &revert {
            vm.pending.remove(key);
            vm.pending_delete.remove(key);
        }
    }
    world.note(&call.node, 100, &call.caller.id(), format!("update VM {vmid}: {words}"));
    Ok(UpdateJob { vmid, settings, delete, force: call.args.flag("force"), words })
}

fn words_of(call: &Call) -> String {
    let shown = call.args.values.iter().filter(|(key, _)| {
        !matches!(key.as_str(), "node" | "vmid" | "digest" | "background_delay" | "import-working-storage")
    });
    let words = shown.map(|(key, value)| {
        let value = if key == "cipassword" { "<hidden>" } else { value };
        format!("-{key} {value}")
    });
    words.collect::<Vec<_>>().join(" ")
}

fn removals(settings: &BTreeMap<String, String>, list: &str, name: &str) -> Result<Vec<String>, ApiError> {
    let mut keys = Vec::new();
    for key in split_list(list) {
        let key = if key == "cdrom" { "ide2" } else { key };
        if settings.contains_key(key) {
            let quote = if name == "revert" { "'" } else { "" };
            let text = format!("you can't use '-{key}' and {quote}-{name} {key}' at the same time");
            return Err(ApiError::parameter(name, text));
        }
        if vm_option(key).is_none() {
            return Err(ApiError::parameter(name, format!("unknown option '{key}'")));
        }
        keys.push(key.to_owned());
    }
    Ok(keys)
}

fn check_rights(
    world: &World,
    call: &Call,
    delete: &[String],
    settings: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let subject = Subject { caller: &call.caller, vmid: call.vmid(), pool: None };
    delete.iter().chain(settings.keys()).try_for_each(|key| world.check_option(&subject, key))?;
    for (key, text) in settings.iter().filter(|(key, _)| is_drive(key) && !key.starts_with("unused")) {
        world.check_drive_access(&subject, &Drive::parse(key, text), None)?;
    }
    check_storages_of(world, &subject, settings)?;
    settings.iter().try_for_each(|(key, text)| world.check_bridge(&call.caller, key, text))
}

/// A drive's kind decides who may touch it.
fn check_drive_right(world: &World, subject: &Subject<'_>, drive: &Drive) -> Result<(), ApiError> {
    if drive.is_cloudinit() {
        world.need_vm(subject, &["VM.Config.Cloudinit"])?;
    }
    world.need_vm(subject, &[if drive.is_cdrom() { "VM.Config.CDROM" } else { "VM.Config.Disk" }])
}

fn check_current(
    world: &World,
    call: &Call,
    vmid: u32,
    settings: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    let vm = world.vm_on(&call.node, vmid)?;
    vm.check_lock().map_err(ApiError::Plain)?;
    vm.check_digest(call.args.get("digest")).map_err(ApiError::Plain)?;
    let number = |key: &str| -> Option<u64> {
        settings
            .get(key)
            .cloned()
            .or_else(|| vm.merged().get(key).cloned())
            .and_then(|text| text.parse().ok())
    };
    let touched = settings.contains_key("balloon") || settings.contains_key("memory");
    if touched && number("balloon").unwrap_or_default() > number("memory").unwrap_or(512) {
        return Err(ApiError::plain("balloon value too large (must be smaller than assigned memory)"));
    }
    Ok(())
}

impl UpdateJob {
    pub(crate) fn allocations(&self) -> Allocations {
        allocations(&self.settings, None)
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        world.vm_for_job(&job.node, self.vmid)?.check_lock()?;
        world.log(job, format!("update VM {}: {}", self.vmid, self.words));
        let call = Call::of_job(job, self.vmid);
        let node = job.node.clone();
        self.run(world, Some(job), &node, &call).map_err(|error| error.text())?;
        Ok(world.timing.small)
    }

    fn run(&mut self, world: &mut World, job: Option<&Job>, node: &str, call: &Call) -> Result<(), ApiError> {
        let caller = &call.caller;
        let pid = job.map_or(123, |job| world.tasks[job.task].pid);
        world.need_writable(node, self.vmid, pid).map_err(ApiError::Plain)?;
        let subject = Subject { caller, vmid: self.vmid, pool: None };
        self.check_values(world, &subject, node)?;
        let mut touched = self.delete.clone();
        for key in &self.delete {
            self.mark_deleted(world, &subject, node, key)?;
        }
        // Disks come last: making one may fail, and what was written before stays written.
        let (drives, plain): (Vec<_>, Vec<_>) = self.settings.iter().partition(|(key, _)| is_drive(key));
        for (key, text) in plain.into_iter().filter(|(key, _)| *key != "boot") {
            set_plain(world, self.vmid, key, text)?;
        }
        for (key, text) in drives {
            set_drive(world, job, &subject, node, key, text)?;
        }
        if let Some(boot) = self.settings.get("boot") {
            set_plain(world, self.vmid, "boot", boot)?;
        }
        touched.extend(self.settings.keys().cloned());
        let errors = world.apply_pending(node, self.vmid, &touched);
        world.devices_changed(self.vmid);
        let regenerated = drives_cloudinit(&self.settings);
        if let (Some(job), true, true) = (job, regenerated, errors.is_empty()) {
            world.log(job, "generating cloud-init ISO");
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Parameter(errors)) }
    }

    /// Rights that depend on what is there and on what shall be.
    fn check_values(&self, world: &World, subject: &Subject<'_>, node: &str) -> Result<(), ApiError> {
        let vm = world.vm_on(node, self.vmid)?;
        let now = |key: &str| vm.config.get(key).map(String::as_str);
        for key in self.delete.iter().filter(|key| now(key).is_some()) {
            world.check_value(subject, Verb::Delete, key, [now(key), None])?;
        }
        let mut settings = self.settings.iter();
        settings
            .try_for_each(|(key, text)| world.check_value(subject, Verb::Modify, key, [now(key), Some(text)]))
    }

    fn mark_deleted(
        &self,
        world: &mut World,
        subject: &Subject<'_>,
        node: &str,
        key: &str,
    ) -> Result<(), ApiError> {
        let vm = world.vm_on(node, self.vmid)?;
        let Some(value) = vm.config.get(key).or_else(|| vm.pending.get(key)).cloned() else { return Ok(()) };
        if key.starts_with("unused") {
            let drive = Drive::parse(key, &value);
            vm.check_protection(&format!("can't remove unused disk '{}'", drive.file()))
                .map_err(ApiError::Plain)?;
            world.need_vm(subject, &["VM.Config.Disk"])?;
            // Only volumes of its own are freed; another's is just let go.
            if world.name_of(drive.file()).is_ok_and(|name| name.vmid == Some(self.vmid)) {
                let volume = world.volume_key(node, drive.file());
                world.volumes.remove(&volume);
            }
            let vm = world.vm_mut(self.vmid).map_err(ApiError::Plain)?;
            vm.config.remove(key);
            return Ok(());
        }
        if is_drive(key) {
            vm.check_protection(&format!("can't remove drive '{key}'")).map_err(ApiError::Plain)?;
            check_drive_right(world, subject, &Drive::parse(key, &value))?;
        }
        let vm = world.vm_mut(self.vmid).map_err(ApiError::Plain)?;
        vm.pending.remove(key);
        let order = vm.boot_order();
        if order.iter().any(|device| device == key) {
            let left: Vec<String> = order.into_iter().filter(|device| device != key).collect();
            vm.pending.insert("boot".into(), print_boot_order(&left));
        }
        if vm.config.contains_key(key) {
            vm.pending_delete.insert(key.to_owned(), self.force);
        }
        Ok(())
    }
}

fn drives_cloudinit(settings: &BTreeMap<String, String>) -> bool {
    settings.iter().any(|(key, text)| is_drive(key) && Drive::parse(key, text).is_cloudinit())
}

fn set_plain(world: &mut World, vmid: u32, key: &str, text: &str) -> Result<(), ApiError> {
    let text = match key {
        "tags" => world.normal_tags(text),
        "description" => text.trim_end().to_owned(),
        "vmgenid" if text == "1" => world.random.uuid(),
        // Kept as a hash, whose value nobody can foresee.
        "cipassword" => format!("$5${}${}", world.random.hex(8), world.random.hex(43)),
        _ => text.to_owned(),
    };
    let vm = world.vm_mut(vmid).map_err(ApiError::Plain)?;
    let text = if key == "boot" { checked_boot(vm, &text)? } else { text };
    vm.pending.insert(key.to_owned(), text);
    vm.pending_delete.remove(key);
    Ok(())
}

/// A boot order may only name devices that are there.
fn checked_boot(vm: &Vm, text: &str) -> Result<String, ApiError> {
    let order = boot_order_of(Some(text));
    let config = vm.merged();
    if let Some(missing) = order.iter().find(|device| !config.contains_key(*device)) {
        return Err(ApiError::plain(format!("invalid bootorder: device '{missing}' does not exist'")));
    }
    Ok(if order.is_empty() { text.to_owned() } else { print_boot_order(&order) })
}

fn set_drive(
    world: &mut World,
    job: Option<&Job>,
    subject: &Subject<'_>,
    node: &str,
    key: &str,
    text: &str,
) -> Result<(), ApiError> {
    let vmid = subject.vmid;
    let drive = Drive::parse(key, text);
    if let Some(old) = world.vm_on(node, vmid)?.config.get(key) {
        check_drive_right(world, subject, &Drive::parse(key, old))?;
    }
    check_drive_right(world, subject, &drive)?;
    let config = world.vm_on(node, vmid)?.merged();
    if let Some(pending) = world.vm_on(node, vmid)?.pending.get(key).cloned() {
        world.retire_drive(node, vmid, &Drive::parse(key, &pending), false);
    }
    let wanted = Wanted { node, vmid, default_storage: None, config: &config };
    let is_new_cd = drive.is_cdrom() && !config.contains_key(key);
    let printed = world.make_disk(job, &wanted, drive).map_err(ApiError::Plain)?;
    let vm = world.vm_mut(vmid).map_err(ApiError::Plain)?;
    let mut order = vm.boot_order();
    if is_new_cd && !order.is_empty() && !order.iter().any(|device| device == key) {
        order.push(key.to_owned());
        vm.pending.insert("boot".into(), print_boot_order(&order));
    }
    vm.pending.insert(key.to_owned(), printed);
    vm.pending_delete.remove(key);
    Ok(())
}
