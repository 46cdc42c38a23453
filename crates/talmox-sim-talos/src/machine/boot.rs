//! From power to a node that runs, and back.

use super::journal::{Action, Happened};
use super::sequence::{After, REBOOT, UPGRADE};
use super::settings::Role;
use super::status::Status;
use super::{Port, Run, Sequence, Stage};
use crate::disk::{Ephemeral, State};
use crate::hardware::{Content, DiskId, Drive, Image, MachineId, Platform};
use crate::nocloud;
use crate::nodes::{Event, News, Nodes};
use crate::wire::{Code, Status as Outcome};

type Phases = &'static [(&'static str, &'static [&'static str])];

const INITIALIZE: Phases = &[
    ("systemRequirements", &["enforceKSPPRequirements"]),
    (
        "earlyServices",
        &["startContainerd", "startUdevd", "startMachined", "startApid", "startAuditd", "startSyslogd"],
    ),
    ("usb", &["waitForUSB"]),
    ("meta", &["reloadMeta"]),
];

const INITIALIZE_CONTAINER: Phases = &[("machined", &["startContainerd", "startApid", "startMachined"])];

const BOOT: Phases = &[
    ("memorySizeCheck", &["memorySizeCheck"]),
    ("diskSizeCheck", &["diskSizeCheck"]),
    ("env", &["setUserEnvVars"]),
    ("dbus", &["startDBus"]),
    ("ephemeral", &["mountEphemeralPartition"]),
    ("udevSetup", &["writeUdevRules"]),
    ("userDisks", &["mountUserDisks"]),
    ("userSetup", &["writeUserFiles"]),
];

impl Nodes {
    pub(crate) fn begin_boot(&mut self, id: MachineId) {
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.boot += 1;
            machine.run = None;
        }
        if !self.faults.never_boots(id) {
            let kernel = self.timing.kernel;
            self.schedule_about(id, kernel, Event::Kernel);
        }
    }

    /// Memory is lost, streams break.
    pub(crate) fn end_run(&mut self, id: MachineId) {
        self.silence_kubelet(id);
        self.hear_last(id);
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.boot += 1;
            machine.run = None;
        }
        self.end_streams(id, &Outcome::new(Code::Unavailable, "error reading from server: EOF"));
        self.elect_everywhere();
        self.wake_all();
    }

    pub(crate) fn boot_event(&mut self, id: MachineId, event: Event) {
        match event {
            Event::Kernel => self.start_talos(id),
            Event::BootFailed => self.fall_back(id),
            Event::Network => self.bring_network_up(id),
            Event::Config => self.find_config(id),
            Event::Listen => self.listen(id),
            Event::Volumes => self.mount_volumes(id),
            Event::TimeSynced => {
                if let Some(run) = self.run_mut(id) {
                    run.time_synced = true;
                }
            }
            Event::Installed => self.finish_install(id),
            Event::Service { id: service, start, step } => self.service_step(id, &service, start, step),
            Event::Look => {}
            Event::TrialEnds(number) => self.end_trial(id, number),
            Event::Promote => self.promote(id),
            Event::Pods => self.start_pods(id),
            Event::ApiServer => self.start_api_server(id),
            Event::Pod { name, turn, step } => self.pod_step(id, &name, turn, step),
            Event::PodsWithdrawn => self.withdraw_pods(id),
            Event::NodeFlaps => self.node_flaps(id),
            Event::Register => self.register(id),
            Event::NodeReady => self.node_is_ready(id),
            Event::Deaf(descent) => self.go_deaf(id, descent),
            Event::Down { descent, after } => self.go_down(id, descent, after),
            Event::Upgrade { image, actor } => {
                let after = After { install: Some(image), ..After::default() };
                self.go(id, UPGRADE, &actor, after);
            }
            Event::Upgraded { exit_code, image } => self.finish_upgrade(id, exit_code, image),
            Event::Dies => self.die(id),
        }
    }

    /// What the firmware finds to boot: the first drive with Talos on it.
    fn bootable(&self, id: MachineId) -> Option<(Image, Option<DiskId>)> {
        self.machines.get(&id)?.hardware.drives.iter().find_map(|drive| match drive {
            Drive::Disk(disk) => {
                let loader = self.disks.get(&disk.id)?.loader.as_ref()?;
                Some((loader.current.clone(), Some(disk.id)))
            }
            Drive::Cd(Content::Talos(image)) => Some((image.clone(), None)),
            Drive::Cd(_) => None,
        })
    }

    fn start_talos(&mut self, id: MachineId) {
        let Some((image, from)) = self.bootable(id) else { return };
        if self.faults.fails_to_boot(id, &image) {
            let stop = self.timing.stop;
            self.schedule_about(id, stop, Event::BootFailed);
            return;
        }
        let boot_id = self.random.uuid();
        let installed = from.or_else(|| self.installed_disk(id));
        let mut run = Run::new(image, installed, boot_id, self.clock);
        run.sequence = Some(Sequence { name: "initialize".to_owned(), actor: String::new() });
        let container = run.is_container();
        let early_api = run.minor() >= 13;
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.run = Some(run);
        }
        self.print(id, "[talos] task startMachined (1/1): starting");
        self.note_sequence(id, "initialize", Action::Start);
        self.note_phases(id, if container { INITIALIZE_CONTAINER } else { INITIALIZE });
        self.note(id, Happened::Status { status: Status::default(), unknown: true });
        let early: &[&str] = if container {
            &["containerd", "machined"]
        } else {
            &["auditd", "containerd", "machined", "syslogd", "udevd"]
        };
        for service in early {
            self.start_service(id, service);
        }
        if early_api {
            self.start_service(id, "apid");
        }
        if from.is_none() && installed.is_some() {
            // An ISO does not run over an installation: it waits for somebody to take it out.
            self.print(id, "[talos] Talos is already installed to disk but booted from another media");
            return;
        }
        let network = self.timing.network;
        self.schedule_about(id, network, Event::Network);
    }

    /// A boot that fails before the new entry proved itself goes back to the previous one; else the machine hangs.
    fn fall_back(&mut self, id: MachineId) {
        let from = self.bootable(id).and_then(|(_, from)| from);
        let loader = from.and_then(|disk| self.disks.get_mut(&disk)?.loader.as_mut());
        if loader.is_some_and(|loader| loader.on_trial && loader.roll_back()) {
            self.news.push(News::Rebooted(id));
            self.begin_boot(id);
        }
    }

    /// The disk that has a META partition, if one has.
    fn installed_disk(&self, id: MachineId) -> Option<DiskId> {
        self.machines.get(&id)?.hardware.drives.iter().find_map(|drive| match drive {
            Drive::Disk(disk) => self.disks.get(&disk.id)?.meta.as_ref().map(|_| disk.id),
            Drive::Cd(_) => None,
        })
    }

    fn bring_network_up(&mut self, id: MachineId) {
        self.use_platform(id);
        let (config, time) = (self.timing.config, self.timing.time_sync);
        self.schedule_about(id, config, Event::Config);
        if !self.faults.clock_is_off(id) {
            self.schedule_about(id, time, Event::TimeSynced);
        }
    }

    /// Takes name and network from what the platform has by now.
    pub(crate) fn use_platform(&mut self, id: MachineId) {
        let platform = self.read_platform(id);
        if let Some(run) = self.run_mut(id) {
            run.platform = platform;
        }
        self.configure_network(id);
    }

    fn read_platform(&self, id: MachineId) -> nocloud::PlatformNetwork {
        let (Some(machine), Some(run)) = (self.machines.get(&id), self.run(id)) else {
            return nocloud::PlatformNetwork::default();
        };
        if run.image.platform != Platform::Nocloud {
            return nocloud::PlatformNetwork {
                hostname: host_of_container(run, &machine.hardware.serial),
                ..nocloud::PlatformNetwork::default()
            };
        }
        let seed = nocloud::Seed::of(&machine.hardware, &self.disks, &self.sites_of(id));
        seed.network(&machine.hardware)
    }

    /// STATE comes first, then what the platform has.
    pub(crate) fn find_config(&mut self, id: MachineId) {
        let stored = self.system_disk(id).and_then(|disk| disk.config().map(str::to_owned));
        if let Some(text) = stored {
            self.use_config(id, &text, true);
            return;
        }
        if self.waits_for_files(id) {
            return;
        }
        match self.platform_config(id) {
            Ok(Some(text)) => self.use_config(id, &text, false),
            Ok(None) => self.enter_maintenance(id),
            Err(reason) => self.fail_to_load(id, reason),
        }
    }

    fn platform_config(&self, id: MachineId) -> Result<Option<String>, String> {
        let (Some(machine), Some(run)) = (self.machines.get(&id), self.run(id)) else { return Ok(None) };
        if run.image.platform != Platform::Nocloud {
            return Ok(None);
        }
        let sites = self.sites_of(id);
        nocloud::Seed::of(&machine.hardware, &self.disks, &sites).config(&sites)
    }

    /// A configuration that cannot be used never leads to maintenance: the node tries again and again, and nobody listens.
    fn fail_to_load(&mut self, id: MachineId, reason: String) {
        self.print(id, format!("[talos] failed to load config: {reason}"));
        self.note(id, Happened::ConfigLoadError(reason));
    }

    /// A configuration found at boot.
    fn use_config(&mut self, id: MachineId, text: &str, stored: bool) {
        match self.judge(id, text) {
            Ok(config) => {
                self.set_active(id, text, &config);
                if let Some(run) = self.run_mut(id) {
                    run.persistent = Some(text.to_owned());
                    run.persisted += 1;
                }
                if !stored {
                    self.persist(id, text);
                }
                self.leave_initialize(id);
            }
            Err(reason) => self.fail_to_load(id, reason),
        }
    }

    fn enter_maintenance(&mut self, id: MachineId) {
        self.note(id, Happened::Phase { name: "config".to_owned(), begins: true });
        self.note(id, Happened::Task { name: "loadConfig".to_owned(), begins: true });
        self.note(id, Happened::Task { name: "runningMaintenance".to_owned(), begins: true });
        self.print(id, "[talos] this machine is reachable at:");
        if let Some(run) = self.run_mut(id) {
            run.stage = Stage::Maintenance;
        }
        self.listen(id);
    }

    /// With a configuration: install where Talos is not on a disk yet, boot where it is.
    pub(crate) fn leave_initialize(&mut self, id: MachineId) {
        self.note_sequence(id, "initialize", Action::Stop);
        if self.wants_install(id) { self.begin_install(id) } else { self.boot(id) }
    }

    fn wants_install(&self, id: MachineId) -> bool {
        let Some(run) = self.run(id) else { return false };
        let meta = self.system_disk(id).is_some_and(|disk| disk.meta.is_some());
        // Since 1.14 a configuration without a word about installing does not install.
        let told = run.minor() < 14 || run.settings().is_some_and(|settings| settings.install.is_some());
        !meta && !run.is_container() && told
    }

    fn begin_install(&mut self, id: MachineId) {
        let Some(run) = self.run_mut(id) else { return };
        run.stage = Stage::Installing;
        run.sequence = Some(Sequence { name: "install".to_owned(), actor: String::new() });
        let early_api = run.minor() >= 13;
        self.note_sequence(id, "install", Action::Start);
        if early_api {
            let transition = self.transition(id);
            self.schedule(id, transition, Event::Listen);
        }
        let install = self.install_time(id);
        self.schedule_about(id, install, Event::Installed);
        if self.faults.dies_in_install(id) {
            self.schedule(id, install / 2, Event::Dies);
        }
    }

    fn finish_install(&mut self, id: MachineId) {
        let Some((disk, image)) = self.install_target(id) else {
            self.print(id, "[talos] install failed: no disk to install to");
            self.restart(id);
            return;
        };
        let config = self.run(id).and_then(|run| run.persistent.clone());
        let identity = self.random.hex(32);
        if let Some(written) = self.disks.get_mut(&disk) {
            written.install(image);
            written.state = Some(State { config, identity });
        }
        self.note_sequence(id, "install", Action::Stop);
        self.restart(id);
    }

    /// What Talos does by itself gives way to nobody.
    fn restart(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.sequence = None;
        }
        self.go(id, REBOOT, "", After::default());
    }

    /// The disk the configuration names, else the first one; and what the installer it names puts there.
    fn install_target(&self, id: MachineId) -> Option<(DiskId, Image)> {
        let machine = self.machines.get(&id)?;
        let run = machine.run.as_ref()?;
        let install = run.settings().and_then(|settings| settings.install.clone());
        let disk = machine.hardware.drives.iter().find_map(|drive| match drive {
            Drive::Disk(disk) => {
                let wanted = install.as_ref().is_none_or(|install| install.takes(disk));
                wanted.then_some(disk.id)
            }
            Drive::Cd(_) => None,
        })?;
        let image = match install.and_then(|install| install.image) {
            Some(reference) => self.installer_image(run, &reference),
            None => Image { installed: true, ..run.image.clone() },
        };
        Some((disk, image))
    }

    /// What an installer puts on a disk: its tag is the version, its path may name a schematic and a platform.
    pub(crate) fn installer_image(&self, run: &Run, reference: &str) -> Image {
        let bare = reference.split('@').next().unwrap_or(reference);
        let (path, tag) = bare.rsplit_once(':').unwrap_or((bare, ""));
        let last = path.rsplit('/').next().unwrap_or_default();
        let is_schematic = last.len() == 64 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        let schematic = if is_schematic { last.to_owned() } else { String::new() };
        let extensions = if schematic == run.image.schematic {
            run.image.extensions.clone()
        } else {
            self.schematics.get(&schematic).cloned().unwrap_or_default()
        };
        let platform = if path.contains("nocloud-installer") {
            Platform::Nocloud
        } else if path.contains("metal-installer") {
            Platform::Metal
        } else {
            run.image.platform
        };
        let version = tag.strip_prefix('v').filter(|version| !version.is_empty());
        let version = version.map_or_else(|| run.image.version.clone(), str::to_owned);
        Image { version, schematic, extensions, platform, installed: true }
    }

    /// The boot sequence.
    fn boot(&mut self, id: MachineId) {
        let now = self.clock;
        let Some(run) = self.run_mut(id) else { return };
        run.stage = Stage::Booting;
        run.sequence = Some(Sequence { name: "boot".to_owned(), actor: String::new() });
        run.configured = Some(now);
        let (role, early_api, container) = (run.is_control_plane(), run.minor() >= 13, run.is_container());
        let agents: Vec<String> = run
            .image
            .extensions
            .iter()
            .filter(|name| name.ends_with("qemu-guest-agent"))
            .map(|_| "ext-qemu-guest-agent".to_owned())
            .collect();
        self.note_sequence(id, "boot", Action::Start);
        self.note_phases(id, BOOT);
        self.note(id, Happened::Phase { name: "startEverything".to_owned(), begins: true });
        self.note(id, Happened::Task { name: "startAllServices".to_owned(), begins: true });
        let formatted = self.system_disk(id).is_some_and(|disk| disk.ephemeral.is_some());
        let partition = if formatted || container { 1 } else { self.timing.partition };
        self.schedule_about(id, partition, Event::Volumes);
        let transition = self.transition(id);
        self.schedule(id, transition, Event::Listen);
        let mut services = vec!["cri", "kubelet"];
        if !early_api {
            services.insert(0, "apid");
        }
        if role {
            services.extend(["etcd", "trustd"]);
        }
        if !container {
            services.push("dashboard");
        }
        for service in services {
            self.start_service(id, service);
        }
        for service in agents {
            self.start_service(id, &service);
        }
    }

    /// How long nobody listens from now on.
    fn transition(&self, id: MachineId) -> u64 {
        let Some(run) = self.run(id) else { return 0 };
        let streams = self.streams.values().any(|stream| stream.machine == id);
        if run.stage == Stage::Maintenance || matches!(run.port, Port::Maintenance(_)) || streams {
            match (run.minor() >= 13, streams) {
                (false, _) => self.timing.transition_before_113,
                (true, true) => self.timing.transition_with_streams,
                (true, false) => self.timing.transition,
            }
        } else {
            self.timing.transition
        }
    }

    fn mount_volumes(&mut self, id: MachineId) {
        let identity = self.random.hex(32);
        let config = self.run(id).and_then(|run| run.persistent.clone());
        if let Some(disk) = self.system_disk_mut(id) {
            let state = disk.state.get_or_insert_with(State::default);
            if state.identity.is_empty() {
                state.identity = identity;
            }
            if state.config.is_none() {
                state.config = config;
            }
            disk.ephemeral.get_or_insert_with(Ephemeral::default);
        }
        if let Some(run) = self.run_mut(id) {
            run.volumes = true;
        }
    }

    /// Opens the port for whom it is due: everybody in maintenance, those with a certificate after. A worker without a
    /// certificate of its own waits for a control plane to sign one.
    pub(crate) fn listen(&mut self, id: MachineId) {
        let Some(run) = self.run(id) else { return };
        let port = match (run.stage, run.active.is_some()) {
            (Stage::Maintenance, _) => self.maintenance_pair(id).map(Port::Maintenance),
            (Stage::Booting | Stage::Installing | Stage::Running, true) => {
                self.secure_pair(id).map(Port::Secure)
            }
            _ => None,
        };
        // Streams that were left open in maintenance kept the port closed until now.
        if self.run(id).is_some_and(|run| matches!(run.port, Port::Closed)) {
            self.end_streams(id, &Outcome::new(Code::Unavailable, "error reading from server: EOF"));
        }
        if let (Some(port), Some(run)) = (port, self.run_mut(id)) {
            run.port = port;
        }
    }

    /// Whether the API should be there and is not.
    pub(crate) fn waits_to_listen(&self, id: MachineId) -> bool {
        self.run(id).is_some_and(|run| {
            let worker = run.settings().is_some_and(|settings| settings.role == Role::Worker);
            let due = run.configured.is_some_and(|at| self.clock >= at + self.timing.transition);
            worker && due && matches!(run.port, Port::Closed) && !run.is_going_down()
        })
    }

    /// The first boot that reaches `running` and `ready` is the one to keep.
    pub(crate) fn pass_trial(&mut self, id: MachineId) {
        if let Some(loader) = self.system_disk_mut(id).and_then(|disk| disk.loader.as_mut()) {
            loader.on_trial = false;
        }
    }

    /// Everybody who waits for something elsewhere looks again.
    pub(crate) fn wake_all(&mut self) {
        let waiting: Vec<MachineId> =
            self.machines.keys().copied().filter(|id| self.is_waiting(*id)).collect();
        for id in waiting {
            let retry = self.timing.retry;
            self.schedule_about(id, retry, Event::Look);
        }
    }

    /// A node without a configuration waits for nobody but its master.
    fn is_waiting(&self, id: MachineId) -> bool {
        self.run(id).is_some_and(|run| run.active.is_some() && !run.is_going_down())
    }
}

/// The name a container was given, if this is one. From 1.14 on it is no longer taken over.
fn host_of_container(run: &Run, serial: &str) -> Option<String> {
    let name = serial.split(';').find_map(|part| part.strip_prefix("h="))?;
    (run.is_container() && run.minor() < 14).then(|| name.to_owned())
}
