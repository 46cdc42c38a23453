//! Services start, wait, run and stop.

use super::journal::{Action, Happened};
use super::{Run, Stage};
use crate::hardware::MachineId;
use crate::nodes::{Event, Nodes, Step};
use crate::services::{Health, Need, Service, State, has_health, needs, started};

/// How long a program is there that cannot start, and how long after its end Talos starts it again.
const IN_VAIN: u64 = 400;
const AGAIN: u64 = 5000;

impl Run {
    fn is_met(&self, need: Need) -> bool {
        match need {
            Need::Service(name) => self.is_service_up(name),
            Need::Time => self.time_synced,
            Need::Network => self.network.is_ready(),
            Need::Volumes(_) => self.volumes,
            // Certificates are made as soon as there are names for them.
            Need::Certificates | Need::Config => self.network.up,
            Need::EtcdSpec => self.active.is_some(),
        }
    }

    fn waits_for(&self, service: &str) -> Vec<String> {
        needs(service).iter().filter(|need| !self.is_met(**need)).map(|need| need.words()).collect()
    }
}

impl Nodes {
    /// A service says something, and takes on a state.
    pub(crate) fn say(&mut self, id: MachineId, service: &str, state: State, message: &str) {
        let now = self.clock;
        let Some(one) = self.run_mut(id).and_then(|run| run.services.get_mut(service)) else { return };
        one.say(now, state, message);
        let (health, health_changed) = (one.health, one.health_changed);
        let what = Happened::Service {
            id: service.to_owned(),
            state,
            message: message.to_owned(),
            health,
            health_changed,
        };
        self.note(id, what);
    }

    pub(crate) fn set_health(&mut self, id: MachineId, service: &str, health: Health, message: &str) {
        let now = self.clock;
        let Some(one) = self.run_mut(id).and_then(|run| run.services.get_mut(service)) else { return };
        one.health = health;
        one.health_changed = Some(now);
        one.health_message = match health {
            Health::Healthy => String::new(),
            Health::Failed => message.to_owned(),
            Health::Unknown => "Unknown".to_owned(),
        };
    }

    pub(crate) fn start_service(&mut self, id: MachineId, service: &str) {
        let pid = 100 + u32::try_from(self.random.below(900)).unwrap_or_default();
        let Some(run) = self.run_mut(id) else { return };
        let one = run.services.entry(service.to_owned()).or_insert_with(Service::new);
        one.started += 1;
        one.pid = pid;
        one.restarts = false;
        one.health = Health::Unknown;
        one.health_changed = None;
        one.health_message = String::new();
        self.say(id, service, State::Starting, "Starting service");
        // It says so even if nothing is left to wait for.
        if !needs(service).is_empty() {
            let unmet = self.run(id).map(|run| run.waits_for(service)).unwrap_or_default();
            let all = needs(service).iter().map(|need| need.words()).collect();
            let words = if unmet.is_empty() { all } else { unmet };
            self.say(id, service, State::Waiting, &format!("Waiting for {}", words.join(", ")));
        }
    }

    /// Lets services whose needs are met go on, and the machine with them.
    pub(crate) fn settle(&mut self, id: MachineId) {
        let Some(run) = self.run(id) else { return };
        if run.is_going_down() {
            self.note_status(id);
            return;
        }
        let ready: Vec<String> = run
            .services
            .iter()
            .filter(|(name, one)| {
                let waits = matches!(one.state, State::Starting | State::Waiting) && !one.restarts;
                waits && run.waits_for(name).is_empty()
            })
            .map(|(name, _)| name.clone())
            .collect();
        for service in ready {
            self.prepare(id, &service);
        }
        if self.waits_to_listen(id) {
            self.listen(id);
        }
        self.settle_etcd(id);
        self.settle_kubernetes(id);
        self.report_kubelet(id);
        self.finish_boot(id);
        self.note_status(id);
    }

    fn prepare(&mut self, id: MachineId, service: &str) {
        self.say(id, service, State::Preparing, "Running pre state");
        if service == "etcd" {
            return;
        }
        let pull = if service == "kubelet" && !self.keeps_kubelet_image(id) { self.timing.pull } else { 0 };
        let after = self.timing.service + pull;
        self.schedule_step(id, service, after, Step::Process);
    }

    /// The image a service runs from, if it does not come with Talos.
    fn image_of(&self, id: MachineId, service: &str) -> Option<String> {
        let settings = self.run(id)?.settings()?;
        match service {
            "kubelet" => Some(settings.components.kubelet.image.clone()),
            "etcd" => Some(settings.etcd_image.clone()),
            _ => None,
        }
    }

    /// Whether it was pulled before.
    fn keeps_kubelet_image(&self, id: MachineId) -> bool {
        self.image_of(id, "kubelet").is_some_and(|image| self.stored(id, &image).is_some())
    }

    /// Whether a service has the image it runs from. One that no registry has is asked for over and over.
    fn has_image(&mut self, id: MachineId, service: &str) -> bool {
        let Some(image) = self.image_of(id, service) else { return true };
        self.stored(id, &image).is_some() || self.pull(id, &image).is_ok()
    }

    pub(crate) fn schedule_step(&mut self, id: MachineId, service: &str, after: u64, step: Step) {
        let Some(start) = self.run(id).and_then(|run| run.services.get(service)).map(|one| one.started)
        else {
            return;
        };
        self.schedule_about(id, after, Event::Service { id: service.to_owned(), start, step });
    }

    pub(crate) fn service_step(&mut self, id: MachineId, service: &str, start: u32, step: Step) {
        let current = self.run(id).and_then(|run| run.services.get(service));
        if current.is_none_or(|one| one.started != start) {
            return;
        }
        match step {
            Step::Process => {
                if !self.has_image(id, service) {
                    self.schedule_step(id, service, self.timing.pull, Step::Process);
                    return;
                }
                if self.faults.crashes(id, service) {
                    self.begin_in_vain(id, service);
                    return;
                }
                if service == "etcd" && !self.start_etcd_process(id) {
                    return;
                }
                self.say(id, service, State::Preparing, "Creating service runner");
                self.set_health(id, service, Health::Unknown, "");
                let pid = self.run(id).and_then(|run| run.services.get(service)).map_or(1, |one| one.pid);
                self.say(id, service, State::Running, &started(service, pid));
                if service == "etcd" {
                    self.elect_everywhere();
                    self.wake_all();
                }
                if has_health(service) {
                    let health = if service == "etcd" { self.timing.etcd_health } else { self.timing.health };
                    self.schedule_step(id, service, health, Step::Healthy);
                }
            }
            Step::Crash => {
                let words = format!(
                    "Error running Containerd({service}), going to restart forever: task \"{service}\" failed: exit code 1"
                );
                self.say(id, service, State::Waiting, &words);
                self.schedule_step(id, service, AGAIN, Step::Process);
            }
            Step::Healthy if service == "etcd" => self.first_etcd_check(id),
            Step::Healthy if service == "kubelet" && self.is_sick(id) => {
                let words = "Get \"http://127.0.0.1:10248/healthz\": dial tcp 127.0.0.1:10248: connect: connection refused";
                self.set_health(id, service, Health::Failed, words);
                self.say(id, service, State::Running, &format!("Health check failed: {words}"));
            }
            Step::Healthy => {
                self.set_health(id, service, Health::Healthy, "");
                self.say(id, service, State::Running, "Health check successful");
                if matches!(service, "trustd") {
                    self.wake_all();
                }
            }
        }
    }

    /// A program that cannot start: its process is there for a moment, and leaves no data.
    fn begin_in_vain(&mut self, id: MachineId, service: &str) {
        let pid = 100 + u32::try_from(self.random.below(900)).unwrap_or_default();
        if let Some(one) = self.run_mut(id).and_then(|run| run.services.get_mut(service)) {
            (one.pid, one.restarts) = (pid, true);
        }
        self.set_health(id, service, Health::Unknown, "");
        self.say(id, service, State::Running, &started(service, pid));
        self.schedule_step(id, service, IN_VAIN, Step::Crash);
    }

    fn is_sick(&self, id: MachineId) -> bool {
        self.run(id).is_some_and(|run| self.faults.is_sick(id, &run.image))
    }

    /// The boot sequence ends when every service is up.
    fn finish_boot(&mut self, id: MachineId) {
        let Some(run) = self.run(id) else { return };
        let booting = run.sequence.as_ref().is_some_and(|sequence| sequence.name == "boot");
        let up = |(name, one): (&String, &Service)| {
            one.is_up() || one.is_running() && !has_health(name) || name == "etcd" && run.etcd_excused
        };
        if run.stage == Stage::Booting && booting && run.services.iter().all(up) {
            self.end_boot_sequence(id);
        }
    }

    pub(crate) fn end_boot_sequence(&mut self, id: MachineId) {
        self.note(id, Happened::Task { name: "startAllServices".to_owned(), begins: false });
        self.note(id, Happened::Phase { name: "startEverything".to_owned(), begins: false });
        self.note_sequence(id, "boot", Action::Stop);
        self.print(id, "[talos] boot sequence: done");
        if let Some(run) = self.run_mut(id) {
            run.stage = Stage::Running;
            run.sequence = None;
        }
    }

    pub(crate) fn stop_services(&mut self, id: MachineId) {
        let names: Vec<String> =
            self.run(id).map(|run| run.services.keys().cloned().collect()).unwrap_or_default();
        for service in names.iter().filter(|name| *name != "machined") {
            self.stop_service(id, service);
        }
    }

    pub(crate) fn stop_service(&mut self, id: MachineId, service: &str) {
        if service == "kubelet" {
            self.silence_kubelet(id);
        }
        if service == "etcd" {
            self.hear_last(id);
        }
        if let Some(one) = self.run_mut(id).and_then(|run| run.services.get_mut(service)) {
            one.started += 1;
            one.health = Health::Unknown;
        }
        let pid = self.run(id).and_then(|run| run.services.get(service)).map_or(1, |one| one.pid);
        let words = format!("Sending SIGTERM to task {service} (PID {pid}, container {service})");
        self.say(id, service, State::Stopping, &words);
        self.say(id, service, State::Finished, "Service finished successfully");
    }
}
