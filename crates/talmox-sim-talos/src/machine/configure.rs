//! A configuration arrives: by the API, or when a trial ends.

use talmox_machine::validate::{Mode, Severity};
use talmox_machine::{Config, Source};
use talmox_types::Contract;

use super::sequence::{After, REBOOT};
use super::settings::Settings;
use super::{Active, Port, Trial};
use crate::disk::State;
use crate::hardware::{MachineId, Platform};
use crate::nodes::{Event, Nodes};

/// What becomes of a configuration that was found good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// It is kept, and in force at once.
    Effect,
    /// It is kept, and in force after the next boot.
    Later,
    /// It is kept, and the machine restarts.
    Reboot,
    /// It is in force for so many milliseconds.
    Trial(u64),
}

impl Settings {
    /// Everybody whose certificates are taken, in PEM.
    pub(crate) fn authorities(&self) -> String {
        std::iter::once(&self.authority).chain(&self.accepted).map(String::as_str).collect()
    }

    /// Everybody whose certificates Kubernetes takes, in PEM.
    pub(crate) fn kubernetes_authorities(&self) -> Vec<&str> {
        let own = self.kubernetes.as_ref().map(|signer| signer.certificate.as_str());
        own.into_iter().chain(self.kubernetes_accepted.iter().map(String::as_str)).collect()
    }

    /// Whether another node is of the same cluster, in the middle of a change of authorities as well.
    pub(crate) fn is_kin(&self, other: &Self) -> bool {
        let of = |one: &Self| -> Vec<String> {
            std::iter::once(&one.authority).chain(&one.accepted).cloned().collect()
        };
        let (own, theirs) = (of(self), of(other));
        own.iter().any(|authority| !authority.is_empty() && theirs.contains(authority))
    }
}

impl Nodes {
    /// Reads a configuration as this machine's Talos would; what is wrong with it otherwise.
    pub(crate) fn judge(&self, id: MachineId, text: &str) -> Result<Config, String> {
        let config = Config::parse(Source { name: "config", text }).map_err(|faults| faults.to_string())?;
        let Some(run) = self.run(id) else { return Ok(config) };
        let mode = match run.image.platform {
            Platform::Nocloud => Mode::Cloud,
            Platform::Metal => Mode::Metal,
            Platform::Container => Mode::Container,
        };
        let problems = config.validate(mode, Contract { major: 1, minor: run.minor() });
        let errors: Vec<String> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(ToString::to_string)
            .collect();
        if errors.is_empty() { Ok(config) } else { Err(errors.join("\n")) }
    }

    /// Carries out what was decided about a configuration. One without `machine` and `cluster` leaves a machine that has no
    /// other in maintenance.
    pub(crate) fn take_config(&mut self, id: MachineId, text: &str, config: &Config, takes: Takes) {
        match takes {
            Takes::Effect => {
                self.confirm_trial(id);
                self.persist(id, text);
                self.put_in_force(id, text, config);
            }
            Takes::Later => self.persist(id, text),
            Takes::Reboot => {
                self.confirm_trial(id);
                self.persist(id, text);
                self.go(id, REBOOT, "", After::default());
            }
            Takes::Trial(length) => self.begin_trial(id, text, config, length),
        }
        self.settle(id);
    }

    /// What is there now is there to stay: nothing returns when the time of a trial is up.
    fn confirm_trial(&mut self, id: MachineId) {
        if let Some(run) = self.run_mut(id) {
            run.trial = None;
        }
    }

    /// Two trials in a row: the second goes back to the first one's configuration.
    fn begin_trial(&mut self, id: MachineId, text: &str, config: &Config, length: u64) {
        let Some(run) = self.run_mut(id) else { return };
        run.trials += 1;
        let number = run.trials;
        let before = run.active.as_ref().map(|active| active.text.clone());
        run.trial = Some(Trial { number, before });
        self.put_in_force(id, text, config);
        self.schedule(id, length, Event::TrialEnds(number));
    }

    /// A trial that began in maintenance goes back to nothing: the machine has no configuration, and nobody listens.
    pub(crate) fn end_trial(&mut self, id: MachineId, number: u64) {
        let Some(run) = self.run_mut(id) else { return };
        let Some(trial) = run.trial.take_if(|trial| trial.number == number) else { return };
        match trial.before {
            Some(text) => {
                if let Ok(config) = self.judge(id, &text) {
                    self.put_in_force(id, &text, &config);
                }
            }
            None => {
                run.active = None;
                run.port = Port::Closed;
                for service in ["cri", "etcd", "kubelet", "trustd"] {
                    run.services.remove(service);
                }
            }
        }
    }

    pub(crate) fn persist(&mut self, id: MachineId, text: &str) {
        let now = self.clock;
        if let Some(run) = self.run_mut(id) {
            run.persistent = Some(text.to_owned());
            run.persisted += 1;
            run.persisted_at = now;
        }
        let identity = self.random.hex(32);
        // Before Talos is on a disk there is nothing to keep it on; the installation does.
        if let Some(disk) = self.system_disk_mut(id) {
            let state = disk.state.get_or_insert(State { config: None, identity });
            state.config = Some(text.to_owned());
        }
    }

    pub(crate) fn set_active(&mut self, id: MachineId, text: &str, config: &Config) {
        let now = self.clock;
        let Some(settings) = Settings::read(config) else { return };
        let Some(run) = self.run_mut(id) else { return };
        let before = run.active.take();
        let version = before.as_ref().map_or(1, |active| active.version + 1);
        let components = &settings.components;
        let (versions, renewal) = before.map_or_else(Default::default, |active| {
            let old = &active.settings.components;
            (active.versions.after(old, components), old.renewed(components))
        });
        run.active = Some(Active { text: text.to_owned(), settings, versions, version, since: now });
        self.configure_network(id);
        for pod in renewal.pods {
            self.renew_pod(id, pod);
        }
        if renewal.kubelet && self.run(id).is_some_and(|run| run.services.contains_key("kubelet")) {
            self.restart_kubelet(id);
        }
    }

    fn put_in_force(&mut self, id: MachineId, text: &str, config: &Config) {
        if Settings::read(config).is_none() {
            if let Some(run) = self.run_mut(id) {
                run.partial = Some(text.to_owned());
            }
            self.configure_network(id);
            return;
        }
        let first = self.run(id).is_some_and(|run| run.active.is_none());
        self.set_active(id, text, config);
        if first {
            self.leave_maintenance(id);
        }
        self.renew_certificate(id);
    }

    /// Maintenance is torn down after the reply: the port closes, and opens again for those with a certificate.
    fn leave_maintenance(&mut self, id: MachineId) {
        self.leave_initialize(id);
        if let Some(run) = self.run_mut(id) {
            run.port = Port::Closed;
        }
    }
}
