//! What the worker of a migration does, and what it writes into its log.
//!
//! ```text
//! look at devices, storages, the way ──▶ lock, look at disks, copy those nobody writes to ──▶ stopped: configuration moves
//!        │                                  │                                             └─▶ running: starts there, mirrors
//!        └── migration aborted ◀────────────┘                                                 disks and memory, then moves
//!                                               migration problems ◀── does not start there ──┘
//! ```

use serde::{Deserialize, Serialize};

use super::resources::Resources;
use super::volumes::{Moved, Route, StorageMap};
use crate::api::Call;
use crate::calendar::Date;
use crate::qemu::machine::check_machine;
use crate::qemu::view::nic_bridge;
use crate::release::Change;
use crate::tasks::Job;
use crate::vm::Vm;
use crate::world::{Reach, World};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MigrateJob {
    pub(crate) vmid: u32,
    target: String,
    #[serde(default)]
    online: bool,
    with_disks: bool,
    #[serde(default)]
    force: bool,
    #[serde(default)]
    map: StorageMap,
    /// What is on its way.
    #[serde(default)]
    moved: Moved,
    /// Devices it will have there.
    #[serde(default)]
    devices: Vec<String>,
}

/// How a migration fails: before anything moved, or on the other side.
enum Failure {
    Aborted(String),
    Problems(String),
}

impl MigrateJob {
    pub(super) fn new(vmid: u32, target: &str) -> Self {
        Self {
            vmid,
            target: target.to_owned(),
            online: false,
            with_disks: false,
            force: false,
            map: StorageMap::default(),
            moved: Moved::default(),
            devices: Vec::new(),
        }
    }

    /// Of a VM that may run.
    pub(super) fn online(mut self) -> Self {
        self.online = true;
        self
    }

    /// As a call asks for it.
    pub(super) fn with(self, call: &Call, map: StorageMap) -> Self {
        Self {
            online: call.args.flag("online"),
            with_disks: call.args.flag("with-local-disks"),
            force: call.args.flag("force"),
            map,
            ..self
        }
    }

    fn route<'a>(&'a self, job: &'a Job, running: bool) -> Route<'a> {
        Route {
            vmid: self.vmid,
            from: &job.node,
            to: &self.target,
            map: &self.map,
            running,
            with_disks: self.with_disks,
        }
    }

    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let vm = world.vm_for_job(&job.node, self.vmid).cloned();
        let entered = vm.map_err(Failure::Aborted).and_then(|vm| self.begin(world, job, &vm));
        match entered {
            Ok(duration) => Ok(duration),
            Err(Failure::Aborted(cause)) => {
                let line = format!("ERROR: migration aborted (duration {}): {cause}", elapsed(world, job));
                world.log_migration(job, &line);
                Err("migration aborted".into())
            }
            Err(Failure::Problems(cause)) => {
                world.log_migration(job, &format!("ERROR: online migrate failure - {cause}"));
                world.log_migration(job, "aborting phase 2 - cleanup resources");
                world.log_migration(job, "migrate_cancel");
                self.give_up(world);
                let duration = elapsed(world, job);
                let line = format!("ERROR: migration finished with problems (duration {duration})");
                world.log_migration(job, &line);
                Err("migration problems".into())
            }
        }
    }

    fn begin(&mut self, world: &mut World, job: &Job, vm: &Vm) -> Result<u64, Failure> {
        self.look(world, job, vm).map_err(Failure::Aborted)?;
        let (target, ip) = (&self.target, address(world, &self.target));
        let line = format!("starting migration of VM {} to node '{target}' ({ip})", self.vmid);
        world.log_migration(job, &line);
        world.set_lock(self.vmid, Some("migrate"));
        let mut moved = Moved::default();
        let prepared = self.route(job, vm.run.is_some()).prepare(world, job, &mut moved);
        self.moved = moved;
        if let Err(cause) = prepared {
            world.log_migration(job, &format!("ERROR: {cause}"));
            world.log_migration(job, "aborting phase 1 - cleanup resources");
            self.give_up(world);
            return Err(Failure::Aborted(cause));
        }
        let copying = self.moved.bytes / world.timing.copy_rate;
        if vm.run.is_none() {
            return Ok(world.timing.small + copying);
        }
        self.devices = self.start_there(world, job, vm).map_err(Failure::Problems)?;
        Ok(world.timing.start + copying + vm.memory_bytes() / world.timing.copy_rate)
    }

    /// What is looked at before anything is touched.
    fn look(&self, world: &mut World, job: &Job, vm: &Vm) -> Result<(), String> {
        vm.check_lock()?;
        let running = vm.run.is_some();
        if running && !self.online {
            return Err("can't migrate running VM without --online".into());
        }
        if running && world.has(Change::NetworkResources) {
            let line =
                "conntrack state migration not supported or disabled, active connections might get dropped";
            world.log_migration(job, line);
        }
        let lines = Resources::of(world, vm).check(world, &self.target, running, self.force)?;
        for line in lines {
            world.log_migration(job, line);
        }
        self.route(job, running).check_storages(world, vm)?;
        self.reach(world, job)
    }

    fn reach(&self, world: &mut World, job: &Job) -> Result<(), String> {
        let target = &self.target;
        // Other daemons live while that of the API is down.
        if world.nodes.get(target).is_some_and(|node| node.reach != Reach::Unreachable) {
            return Ok(());
        }
        let ip = address(world, target);
        let command = format!(
            "# /usr/bin/ssh -e none -o 'BatchMode=yes' -o 'HostKeyAlias={target}' root@{ip} /bin/true"
        );
        world.log_migration(job, &command);
        world.log_migration(job, &format!("ssh: connect to host {ip} port 22: No route to host"));
        Err("Can't connect to destination address using public key".into())
    }

    /// The VM starts on its new host, and waits for what comes; the devices it has there.
    fn start_there(&self, world: &mut World, job: &Job, vm: &Vm) -> Result<Vec<String>, String> {
        let (vmid, target) = (self.vmid, &self.target);
        world.log_migration(job, &format!("starting VM {vmid} on remote node '{target}'"));
        let machine = vm.run.as_ref().map(|run| run.machine.clone()).unwrap_or_default();
        let bridges = vm.config.iter().filter_map(|(key, text)| nic_bridge(key, text));
        let there = world.nodes.get(target).map(|node| node.bridges.clone()).unwrap_or_default();
        let missing = bridges.into_iter().find(|bridge| !there.contains(bridge));
        let started = check_machine(&machine, world.release_of(target), target)
            .and_then(|()| world.choose_devices(target, vmid, &vm.config))
            .and_then(|devices| {
                missing.map_or(Ok(devices), |bridge| Err(format!("bridge '{bridge}' does not exist")))
            });
        let devices = started.map_err(|cause| {
            world.log_migration(job, &format!("[{target}] {cause}"));
            "remote command failed with exit code 255".to_owned()
        })?;
        for (_, old, new) in &self.moved.online {
            world.log_migration(job, &format!("volume '{old}' is '{new}' on the target"));
        }
        world.log_migration(job, "start remote tunnel");
        world.log_migration(job, "ssh tunnel ver 1");
        if !self.moved.online.is_empty() {
            world.log_migration(job, "starting storage migration");
        }
        for (key, _, _) in &self.moved.online {
            let socket = format!("nbd:unix:/run/qemu-server/{vmid}_nbd.migrate:exportname=drive-{key}");
            world.log_migration(job, &format!("{key}: start migration to {socket}"));
        }
        let socket = format!("unix:/run/qemu-server/{vmid}.migrate");
        world.log_migration(job, &format!("starting online/live migration on {socket}"));
        world.log_migration(job, "set migration capabilities");
        Ok(devices)
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) -> Result<(), String> {
        let running = world.vm_for_job(&job.node, self.vmid)?.run.is_some();
        if running {
            world.log_migration(job, "migration status: completed");
        }
        let pairs: Vec<(String, String)> =
            self.moved.pairs().map(|(old, new)| (old.to_owned(), new.to_owned())).collect();
        let vm = world.vm_mut(self.vmid)?;
        rename_volumes(vm, &pairs);
        vm.config.remove("lock");
        vm.node.clone_from(&self.target);
        vm.stat = None;
        if running {
            self.settle(world);
            if !self.moved.online.is_empty() {
                world.log_migration(job, "stopping NBD storage migration server on target.");
            }
        }
        for (old, new) in &pairs {
            let (key, there) = (world.volume_key(&job.node, old), world.volume_key(&self.target, new));
            world.volumes.take_place(&key, &there);
            world.volumes.remove(&key);
        }
        // The copies have arrived: nobody is to take them away any more.
        self.moved = Moved::default();
        let line = format!("migration finished successfully (duration {})", elapsed(world, job));
        world.log_migration(job, &line);
        Ok(())
    }

    /// It is another process there, of the same machine.
    fn settle(&mut self, world: &mut World) {
        let (since, pid) = (world.clock, world.take_pid(&self.target));
        let devices = std::mem::take(&mut self.devices);
        if let Some(run) = world.vms.get_mut(&self.vmid).and_then(|vm| vm.run.as_mut()) {
            (run.since, run.pid, run.devices) = (since, pid, devices);
        }
    }

    /// Takes back what was done so far.
    pub(crate) fn give_up(&self, world: &mut World) {
        for (_, new) in self.moved.pairs() {
            let key = world.volume_key(&self.target, new);
            world.volumes.remove(&key);
        }
        world.set_lock(self.vmid, None);
    }
}

/// Puts new volume ids where the old ones stand, in snapshots as well.
fn rename_volumes(vm: &mut Vm, pairs: &[(String, String)]) {
    for config in std::iter::once(&mut vm.config).chain(vm.snapshots.values_mut()) {
        for (key, text) in config.iter_mut().filter(|(key, _)| crate::drive::is_drive(key)) {
            let mut drive = crate::drive::Drive::parse(key, text);
            if let Some((_, new)) = pairs.iter().find(|(old, _)| old == drive.file()) {
                drive.set("file", new.clone());
                *text = drive.print();
            }
        }
    }
}

fn address(world: &World, node: &str) -> String {
    world.nodes.get(node).map(|node| node.ip.clone()).unwrap_or_default()
}

/// How long the worker has been at it: `00:01:05`.
fn elapsed(world: &World, job: &Job) -> String {
    let seconds = world.unix().saturating_sub(world.tasks[job.task].start);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl World {
    /// A line as migrations write them, with the time before it.
    pub(super) fn log_migration(&mut self, job: &Job, line: &str) {
        let now = Date::of(self.unix()).short();
        self.log(job, format!("{now} {line}"));
    }
}
