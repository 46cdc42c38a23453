//! Power: start, stop, shutdown and their kin.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::{check_machine, machine_on};
use super::view::nic_bridge;
use crate::api::Call;
use crate::jobs::{Wish, Work};
use crate::reply::{Answer, ApiError};
use crate::schema;
use crate::storage::split_volid;
use crate::tasks::{Job, Stage};
use crate::vm::{Vm, no_config, not_found};
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    Start,
    Stop,
    Shutdown,
    Reboot,
    Reset,
    Suspend,
    Resume,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PowerJob {
    vmid: u32,
    action: Action,
    timeout: Option<u64>,
    force: bool,
    overrule: bool,
    /// The guest did not react in time.
    late: bool,
    /// Devices it is going to have.
    #[serde(default)]
    devices: Vec<String>,
}

/// How long the server waits for an agent's sign of life, in milliseconds.
const AGENT_PING: u64 = 3000;

impl PowerJob {
    pub(crate) fn start(vmid: u32) -> Self {
        Self {
            vmid,
            action: Action::Start,
            timeout: None,
            force: false,
            overrule: false,
            late: false,
            devices: Vec::new(),
        }
    }

    /// What ends it in any case.
    pub(crate) fn forced_shutdown(vmid: u32) -> Self {
        Self { action: Action::Shutdown, force: true, ..Self::start(vmid) }
    }

    pub(crate) fn vmid(&self) -> u32 {
        self.vmid
    }

    pub(crate) fn devices(&self) -> &[String] {
        &self.devices
    }

    /// The type of the task.
    pub(crate) fn kind(&self) -> &'static str {
        match self.action {
            Action::Start => "qmstart",
            Action::Stop => "qmstop",
            Action::Shutdown => "qmshutdown",
            Action::Reboot => "qmreboot",
            Action::Reset => "qmreset",
            Action::Suspend => "qmpause",
            Action::Resume => "qmresume",
        }
    }

    pub(crate) fn lock(&self) -> Option<(u32, bool)> {
        (self.action != Action::Reset).then_some((self.vmid, true))
    }
}

pub(crate) fn act(world: &mut World, call: &Call, action: Action) -> Answer {
    let vmid = call.vmid();
    let here = world.vms.get(&vmid).filter(|vm| vm.node == call.node);
    for name in ["skiplock", "keepActive", "stateuri", "migratedfrom", "migration_type", "force-cpu"] {
        if call.args.get(name).is_some_and(|value| value != "0") && !call.caller.is_root() {
            return Err(ApiError::parameter(name, "Only root may use this option."));
        }
    }
    let running = here.is_some_and(|vm| vm.run.is_some());
    match action {
        Action::Start => world.need_quorum()?,
        Action::Stop | Action::Shutdown => {}
        Action::Reboot | Action::Reset | Action::Suspend | Action::Resume => {
            here.ok_or_else(|| ApiError::plain(not_found(&call.node, vmid)))?;
            if !running {
                return Err(ApiError::plain(format!("VM {vmid} not running")));
            }
        }
    }
    if action == Action::Shutdown && here.and_then(|vm| vm.run.as_ref()).is_some_and(|run| run.paused) {
        return Err(ApiError::plain("VM is paused - cannot shutdown"));
    }
    if let Some(asked) = ask_ha(world, call, action) {
        return Ok(asked);
    }
    let job = PowerJob {
        vmid,
        action,
        timeout: call.args.int("timeout"),
        force: call.args.flag("forceStop"),
        overrule: call.args.flag("overrule-shutdown"),
        ..PowerJob::start(vmid)
    };
    let kind = if call.args.flag("todisk") { "qmsuspend" } else { job.kind() };
    Ok(Value::from(world.spawn(&call.node, kind, &vmid.to_string(), &call.caller, Work::Power(job))))
}

/// A VM under high availability is not started or stopped here: the manager is asked to.
fn ask_ha(world: &mut World, call: &Call, action: Action) -> Option<Value> {
    let vmid = call.vmid();
    let entry = world.ha_resources.get_mut(&format!("vm:{vmid}"))?;
    if entry.get("state").is_some_and(|state| state == "ignored") {
        return None;
    }
    let (kind, verb, state) = match action {
        Action::Start => ("hastart", "start", "started"),
        Action::Stop | Action::Shutdown => ("hastop", "stop", "stopped"),
        Action::Reboot | Action::Reset | Action::Suspend | Action::Resume => return None,
    };
    entry.insert("state".into(), state.into());
    world.ha_tries.remove(&format!("vm:{vmid}"));
    let wish = PowerJob {
        action: if action == Action::Start { action } else { Action::Stop },
        ..PowerJob::start(vmid)
    };
    let work =
        Work::Ask { line: format!("Requesting HA {verb} for VM {vmid}"), wish: Some(Wish::Power(wish)) };
    Some(Value::from(world.spawn(&call.node, kind, &vmid.to_string(), &call.caller, work)))
}

impl PowerJob {
    pub(crate) fn before_lock(&self, world: &mut World, job: &Job) -> Option<String> {
        let here = world.vms.get(&self.vmid).is_some_and(|vm| vm.node == job.node);
        if !here {
            let text = if self.action == Action::Start { no_config } else { not_found };
            return Some(text(&job.node, self.vmid));
        }
        if self.overrule {
            overrule(world, job, self.vmid);
        }
        None
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid)?;
        match self.action {
            Action::Start => {
                self.devices = start_checks(world, job, self.vmid)?;
                Ok(world.timing.start)
            }
            Action::Stop | Action::Shutdown if vm.run.is_none() => Ok(world.timing.fork),
            Action::Stop => Ok(world.timing.stop),
            Action::Shutdown | Action::Reboot => {
                let vm = vm.clone();
                Ok(self.press_button(world, job, &vm))
            }
            Action::Suspend | Action::Resume => {
                vm.check_lock()?;
                Ok(world.timing.small)
            }
            Action::Reset => Ok(world.timing.small),
        }
    }

    /// Asks the guest to go down; answers how long it or the waiting takes.
    fn press_button(&mut self, world: &mut World, job: &Job, vm: &Vm) -> u64 {
        let mut spent = 0;
        let guest = vm.run.as_ref().and_then(|run| run.guest.as_ref());
        let reacts = guest.is_none() && world.reacts(vm);
        if vm.agent_enabled() && guest.unwrap_or(&vm.agent).is_empty() && !reacts {
            let vmid = self.vmid;
            world.log(
                job,
                format!("QEMU Guest Agent is not running - VM {vmid} qga command 'guest-ping' failed - got timeout"),
            );
            spent = AGENT_PING;
        }
        let down = vm.config.get("startup").and_then(|text| startup_down(text));
        let timeout = self.timeout.or(down).unwrap_or(60) * 1000;
        // Of a guest with a mind of its own it is only known when it goes: whoever speaks for it says so.
        self.late = !reacts || world.timing.guest_shutdown > timeout;
        if guest.is_some() {
            world.button_pressed(self.vmid);
        }
        spent + if self.late { timeout } else { world.timing.guest_shutdown }
    }

    /// The guest went by itself while it was waited for.
    pub(crate) fn guest_went(&mut self) -> bool {
        let waits = matches!(self.action, Action::Shutdown | Action::Reboot);
        self.late &= !waits;
        waits
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        match self.action {
            Action::Start => {
                world.apply_all(&job.node, self.vmid);
                let config = world.vm_for_job(&job.node, self.vmid)?.config.clone();
                let run = world.new_run(&job.node, &config, std::mem::take(&mut self.devices));
                world.vm_mut(self.vmid)?.run = Some(run);
                world.switched_on(self.vmid);
            }
            Action::Stop => world.power_off(&job.node, self.vmid),
            Action::Shutdown | Action::Reboot if self.late && !self.force => {
                return Err("VM quit/powerdown failed - got timeout".into());
            }
            Action::Shutdown => {
                if self.late {
                    world.log(job, "VM still running - terminating now with SIGTERM");
                }
                world.power_off(&job.node, self.vmid);
            }
            Action::Reboot => {
                world.switched_off(self.vmid);
                world.apply_all(&job.node, self.vmid);
                let config = world.vm_for_job(&job.node, self.vmid)?.config.clone();
                // Who starts it again says nothing here: a VM that does not start is off.
                let devices = world.choose_devices(&job.node, self.vmid, &config).ok();
                let run = devices.map(|devices| world.new_run(&job.node, &config, devices));
                world.vm_mut(self.vmid)?.run = run;
                world.switched_on(self.vmid);
            }
            Action::Reset => world.was_reset(self.vmid),
            Action::Suspend | Action::Resume => {
                let paused = self.action == Action::Suspend;
                if let Some(run) = &mut world.vm_mut(self.vmid)?.run {
                    run.paused = paused;
                    run.io_error = false;
                }
            }
        }
        Ok(())
    }
}

fn startup_down(text: &str) -> Option<u64> {
    schema::split_list(text).find_map(|part| part.strip_prefix("down=")).and_then(|text| text.parse().ok())
}

fn overrule(world: &mut World, job: &Job, vmid: u32) {
    let running = |task: &crate::tasks::Task| {
        task.kind == "qmshutdown" && task.id == vmid.to_string() && task.stage != Stage::Done
    };
    let found: Vec<usize> = (0..world.tasks.len()).filter(|index| running(&world.tasks[*index])).collect();
    if found.is_empty() {
        return;
    }
    let upids: Vec<String> = found.iter().map(|index| world.tasks[*index].upid.clone()).collect();
    // The waiting ones go first, or one of them would be handed the lock.
    found.iter().rev().for_each(|index| world.interrupt(*index));
    world.log(job, format!("overruled qmshutdown tasks: {}", upids.join(", ")));
}

/// Whether a VM can start here; the devices it will have.
fn start_checks(world: &mut World, job: &Job, vmid: u32) -> Result<Vec<String>, String> {
    let vm = world.vm_for_job(&job.node, vmid)?.clone();
    if vm.is_template() {
        return Err("you can't start a vm if it's a template".into());
    }
    vm.check_lock()?;
    if vm.run.is_some() {
        return Err(format!("VM {vmid} already running"));
    }
    check_custom_cloudinit(world, &job.node, &vm)?;
    if vm.drives().iter().any(crate::drive::Drive::is_cloudinit) {
        world.log(job, "generating cloud-init ISO");
    }
    for drive in vm.drives().iter().filter(|drive| !drive.is_none()) {
        if let Some((storage, _)) = split_volid(drive.file()) {
            world.storage_on(storage, &job.node)?;
            if world.volume(&job.node, drive.file()).is_none() {
                return Err(format!("volume '{}' does not exist", drive.file()));
            }
        }
    }
    let config = vm.merged();
    let release = world.release_of(&job.node);
    check_machine(&machine_on(&config, release), release, &job.node)?;
    let devices = world.choose_devices(&job.node, vmid, &config)?;
    for bridge in config.iter().filter_map(|(key, text)| nic_bridge(key, text)) {
        if !world.nodes.get(&job.node).is_some_and(|node| node.bridges.contains(&bridge)) {
            return Err(format!("bridge '{bridge}' does not exist"));
        }
    }
    Ok(devices)
}

fn check_custom_cloudinit(world: &World, node: &str, vm: &Vm) -> Result<(), String> {
    let has_drive = vm.drives().iter().any(crate::drive::Drive::is_cloudinit);
    let custom =
        vm.config.get("cicustom").filter(|_| has_drive).map(|text| schema::parse_as("cicustom", text));
    for volid in custom.iter().flat_map(|parsed| parsed.values()) {
        if world.volume(node, volid).is_none() {
            return Err(format!("volume '{volid}' does not exist"));
        }
    }
    Ok(())
}

impl World {
    pub(crate) fn power_off(&mut self, node: &str, vmid: u32) {
        self.switched_off(vmid);
        if let Some(vm) = self.vms.get_mut(&vmid) {
            vm.run = None;
        }
        self.apply_all(node, vmid);
    }
}
