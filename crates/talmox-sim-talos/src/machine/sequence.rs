//! Going down: reboot, shutdown, reset, upgrade, and who gives way to whom.

use serde::{Deserialize, Serialize};

use super::journal::{Action, Failure, Happened};
use super::{Port, Sequence, Stage};
use crate::disk::Written;
use crate::hardware::{DiskId, Image, MachineId};
use crate::nodes::{Event, News, Nodes};
use crate::wire::{Code, Status as Outcome};

/// What is done when everything has stopped, and what follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct After {
    pub(crate) wipe: Vec<Wipe>,
    /// Put into the other place of the system disk, to be booted next.
    pub(crate) install: Option<Image>,
    /// The entry that was booted before is booted again.
    pub(crate) roll_back: bool,
    pub(crate) power_off: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wipe {
    /// A partition of the system disk, by its label.
    Partition(String),
    SystemDisk,
    Disk(DiskId),
}

/// A way down: its name, the stage it shows, and its phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    stage: Stage,
    phases: &'static [(&'static str, &'static [&'static str])],
}

pub(crate) const REBOOT: Way = Way { name: "reboot", stage: Stage::Rebooting, phases: DOWN };
pub(crate) const SHUTDOWN: Way = Way { name: "shutdown", stage: Stage::ShuttingDown, phases: DOWN };
pub(crate) const RESET: Way = Way { name: "reset", stage: Stage::Resetting, phases: RESETTING };
pub(crate) const UPGRADE: Way = Way { name: "upgrade", stage: Stage::Upgrading, phases: UPGRADING };

type Phases = &'static [(&'static str, &'static [&'static str])];

const DOWN: Phases = &[
    ("cleanup", &["stopAllPods"]),
    ("dbus", &["stopDBus"]),
    ("stopServices", &["stopServicesForUpgrade"]),
    ("umount", &["unmountPodMounts"]),
    ("unmountBind", &["unmountSystemDiskBindMounts"]),
    ("unmountSystem", &["unmountEphemeralPartition"]),
    ("volumeFinalize", &["teardownLifecycle"]),
    ("kexec", &["kexecPrepare"]),
    ("stopEverything", &["stopAllServices"]),
];

const RESETTING: Phases = &[
    ("cleanup", &["stopAllPods"]),
    ("dbus", &["stopDBus"]),
    ("preReset", &["sendResetSignal"]),
    ("stopServices", &["stopServicesForUpgrade"]),
    ("umount", &["unmountPodMounts"]),
    ("unmountBind", &["unmountSystemDiskBindMounts"]),
    ("unmountSystem", &["unmountEphemeralPartition"]),
    ("volumeFinalize", &["teardownLifecycle"]),
    ("kexec", &["kexecPrepare"]),
    ("stopEverything", &["stopAllServices"]),
];

const UPGRADING: Phases = &[
    ("drain", &["cordonAndDrainNode"]),
    ("cleanup", &["stopAllPods"]),
    ("dbus", &["stopDBus"]),
    ("stopServices", &["stopServicesForUpgrade"]),
    ("unmount", &["unmountPodMounts"]),
    ("unmountBind", &["unmountSystemDiskBindMounts"]),
    ("unmountSystem", &["unmountEphemeralPartition"]),
    ("volumeFinalize", &["teardownLifecycle"]),
    ("upgrade", &["upgrade"]),
    ("meta", &["reloadMeta"]),
    ("kexec", &["kexecPrepare"]),
    ("stopEverything", &["stopAllServices"]),
];

/// What the cancelled half of a takeover says.
fn cancelled(sequence: &str) -> String {
    let phase = if sequence == "boot" { 8 } else { 1 };
    format!(
        "sequence failed: error running phase {phase} in {sequence} sequence: task 1/1: failed, context canceled"
    )
}

/// Whether a sequence gives way to another.
fn gives_way(running: &str, next: &str) -> bool {
    match next {
        "shutdown" | "rollback" => true,
        "reboot" => matches!(running, "initialize" | "boot" | "reboot" | "reset"),
        "reset" | "upgrade" => running == "boot",
        _ => false,
    }
}

impl Nodes {
    /// Begins to go down, unless something else is on its way: then only an event tells, without saying to whom.
    pub(crate) fn go(&mut self, id: MachineId, way: Way, actor: &str, after: After) {
        let Some(run) = self.run(id) else { return };
        if let Some(running) = run.sequence.clone() {
            if !gives_way(&running.name, way.name) {
                let error = Some((Failure::Locked, "sequence not started: locked".to_owned()));
                let what = Happened::Sequence { name: way.name.to_owned(), action: Action::Noop, error };
                self.note_by(id, String::new(), what);
                return;
            }
            self.cancel(id, &running);
        }
        self.begin(id, way, actor, after);
    }

    /// A cancelled boot shows `running` for an instant.
    fn cancel(&mut self, id: MachineId, running: &Sequence) {
        let error = Some((Failure::Canceled, cancelled(&running.name)));
        let what = Happened::Sequence { name: running.name.clone(), action: Action::Noop, error };
        self.note_by(id, running.actor.clone(), what);
        if running.name == "boot" {
            if let Some(run) = self.run_mut(id) {
                run.stage = Stage::Running;
            }
            self.note_status(id);
        }
    }

    fn begin(&mut self, id: MachineId, way: Way, actor: &str, after: After) {
        if way == UPGRADE || way == SHUTDOWN {
            self.cordon(id, true);
        }
        let installs = if after.install.is_some() { self.install_time(id) } else { 0 };
        let wipes = if after.wipe.is_empty() { 0 } else { self.timing.wipe };
        let drains = if way == UPGRADE { self.timing.drain } else { 0 };
        let Some(run) = self.run_mut(id) else { return };
        run.stage = way.stage;
        run.sequence = Some(Sequence { name: way.name.to_owned(), actor: actor.to_owned() });
        run.descent += 1;
        let descent = run.descent;
        self.note_sequence(id, way.name, Action::Start);
        self.note_status(id);
        self.note_phases(id, way.phases);
        let (deaf, stop) = (self.timing.last_answers, self.timing.stop);
        self.schedule(id, deaf, Event::Deaf(descent));
        let length = stop.max(deaf + 1) + installs + wipes + drains;
        self.schedule_about(id, length, Event::Down { descent, after });
        if way == UPGRADE && self.faults.dies_in_upgrade(id) {
            self.schedule(id, deaf + 1, Event::Dies);
        }
    }

    pub(crate) fn go_deaf(&mut self, id: MachineId, descent: u64) {
        if self.run(id).is_none_or(|run| run.descent != descent) {
            return;
        }
        if let Some(run) = self.run_mut(id) {
            run.port = Port::Closed;
        }
        self.stop_services(id);
        // Machined ends its own streams in good order; watches end with the connection.
        self.end_watches(id, &Outcome::new(Code::Unavailable, "error reading from server: EOF"));
        self.end_streams(id, &Outcome::ok());
        self.elect_everywhere();
        self.wake_all();
    }

    pub(crate) fn go_down(&mut self, id: MachineId, descent: u64, after: After) {
        if self.run(id).is_none_or(|run| run.descent != descent) {
            return;
        }
        let After { wipe, install, roll_back, power_off } = after;
        for what in wipe {
            self.wipe(id, &what);
        }
        if let Some(loader) = self.system_disk_mut(id).and_then(|disk| disk.loader.as_mut()) {
            if let Some(image) = install {
                loader.upgrade(image);
            } else if roll_back {
                loader.roll_back();
            }
        }
        self.end_run(id);
        if power_off {
            self.switch_off(id);
        } else {
            self.news.push(News::Rebooted(id));
            self.begin_boot(id);
        }
    }

    pub(crate) fn switch_off(&mut self, id: MachineId) {
        self.end_run(id);
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.on = false;
        }
        self.news.push(News::PoweredOff(id));
    }

    fn wipe(&mut self, id: MachineId, what: &Wipe) {
        let system = self.run(id).and_then(|run| run.system);
        let disk = match what {
            Wipe::Disk(disk) => Some(*disk),
            Wipe::Partition(_) | Wipe::SystemDisk => system,
        };
        let Some(written) = disk.and_then(|disk| self.disks.get_mut(&disk)) else { return };
        match what {
            Wipe::SystemDisk | Wipe::Disk(_) => *written = Written::default(),
            Wipe::Partition(label) => match label.as_str() {
                "EPHEMERAL" => written.ephemeral = None,
                "STATE" => written.state = None,
                "META" => written.meta = None,
                "EFI" | "BOOT" | "BIOS" => written.loader = None,
                _ => {}
            },
        }
    }

    /// Connections break without a word: power is gone.
    pub(crate) fn die(&mut self, id: MachineId) {
        self.end_streams(id, &Outcome::new(Code::Unavailable, "error reading from server: EOF"));
        self.switch_off(id);
    }

    pub(crate) fn install_time(&self, id: MachineId) -> u64 {
        self.timing.install * self.faults.install_factor(id)
    }
}
