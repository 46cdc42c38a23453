//! What becomes of a configuration that is applied: by mode, version and what is in force.

use std::time::Duration;

use talmox_machine::validate::Mode as Platform;
use talmox_machine::{Config, Source, Value};
use talmox_proto::machine::ApplyConfigurationRequest;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_types::Contract;

use super::{decode, diff, validate};
use crate::wire::{Code, Status};

/// How long a configuration is tried if nobody says.
const TRIAL: Duration = Duration::from_mins(1);

/// What is known of the node.
pub(crate) struct Circumstances<'a> {
    /// `1.13.9`.
    pub(crate) version: &'a str,
    pub(crate) platform: Platform,
    pub(crate) maintenance: bool,
    /// What is in force, as far as there is something.
    pub(crate) active: Option<&'a str>,
}

/// What is done, and what is said of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) mode: i32,
    pub(crate) details: String,
    pub(crate) deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// It was only asked what would be.
    Nothing,
    Immediately,
    Try(Duration),
    Stage,
    Reboot,
}

/// A change that wants a reboot, and the part of the configuration it is in.
const IMMEDIATE: &str = "this config change can't be applied in immediate mode\ndiff:\n";

/// Parts of `machine` a node takes over without a reboot, up to 1.13. `cluster` and all other documents are among them.
/// The rest (`type`, `token`, `env`, `files`, `disks`, `udev`, …) wants one: facts, observed §3.
const IN_PLACE: [&str; 18] = [
    "acceptedCAs",
    "ca",
    "certSANs",
    "controlPlane",
    "features",
    "install",
    "kubelet",
    "logging",
    "network",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
    "pods",
    "registries",
    "seccompProfiles",
    "sysctls",
    "sysfs",
    "time",
];

impl Circumstances<'_> {
    fn contract(&self) -> Contract {
        Contract::parse(self.version.split('-').next().unwrap_or(self.version))
            .unwrap_or(Contract::new(1, 13))
    }

    pub(crate) fn judge(&self, request: &ApplyConfigurationRequest) -> Result<Verdict, Status> {
        let talos = self.contract();
        let mode = Mode::try_from(request.mode).ok();
        if self.maintenance && talos.minor < 13 {
            return self.judge_before_113(request, mode);
        }
        if talos.minor >= 14 && mode.is_none() {
            let words = format!("incorrect mode '{}' specified for the apply config call", request.mode);
            return Err(Status::new(Code::InvalidArgument, words));
        }
        if talos.minor >= 14 && mode == Some(Mode::Reboot) && !self.maintenance {
            let words = "the REBOOT mode is not supported, please use AUTO or NO_REBOOT modes instead";
            return Err(Status::new(Code::Unimplemented, words));
        }
        let refused = |words: String| Status::new(Code::InvalidArgument, words);
        let text = String::from_utf8_lossy(&request.data);
        let config = decode::decode(&text, talos).map_err(refused)?;
        if !self.maintenance && config.document("").is_none() {
            let words = "the applied machine configuration doesn't contain v1alpha1 config, \
                         did you mean to patch the machine config instead?";
            return Err(refused(words.to_owned()));
        }
        let wrong = validate::check(&config, self.platform, talos)
            .or_else(|| validate::check_versions(&config, self.version, talos))
            .or_else(|| validate::check_rest(&config, self.platform, talos));
        if let Some(words) = wrong {
            return Err(refused(words));
        }
        self.decide(request, mode, &config)
    }

    fn decide(
        &self,
        request: &ApplyConfigurationRequest,
        mode: Option<Mode>,
        config: &Config,
    ) -> Result<Verdict, Status> {
        let active = self.active.and_then(|text| Config::parse(Source { name: "active", text }).ok());
        let everything = self.maintenance || self.contract().minor >= 14;
        let reboot =
            if everything { None } else { active.as_ref().and_then(|active| wants_reboot(active, config)) };
        let trial = request.try_mode_timeout.and_then(|time| Duration::try_from(time).ok()).unwrap_or(TRIAL);
        let (mode, deed) = match mode {
            Some(Mode::Auto | Mode::Reboot) if self.maintenance => (Some(Mode::NoReboot), Deed::Immediately),
            Some(Mode::Auto) if reboot.is_some() => (Some(Mode::Reboot), Deed::Reboot),
            Some(Mode::Auto) => (Some(Mode::NoReboot), Deed::Immediately),
            Some(Mode::Staged) => (mode, Deed::Stage),
            Some(Mode::NoReboot | Mode::Try) if reboot.is_some() => {
                let words = format!("{IMMEDIATE}{}", reboot.unwrap_or_default());
                return Err(Status::new(Code::InvalidArgument, words));
            }
            Some(Mode::NoReboot) => (mode, Deed::Immediately),
            Some(Mode::Try) => (mode, Deed::Try(trial)),
            Some(Mode::Reboot) | None => (mode, Deed::Reboot),
        };
        let number = mode.map_or(request.mode, i32::from);
        let asked_to_decide = request.mode == i32::from(Mode::Auto);
        let mut details = match deed {
            Deed::Nothing | Deed::Immediately | Deed::Try(_) => {
                "Applied configuration without a reboot".to_owned()
            }
            Deed::Stage => "Staged configuration to be applied after the next reboot".to_owned(),
            Deed::Reboot => "Applied configuration with a reboot".to_owned(),
        };
        if request.dry_run {
            let before = active.map(|active| active.to_yaml()).unwrap_or_default();
            let difference = diff::unified(&before, &config.to_yaml());
            let difference = if difference.is_empty() { "No changes." } else { &difference };
            let details =
                format!("Dry run summary:\n{details} (skipped in dry-run).\nConfig diff:\n\n{difference}");
            return Ok(Verdict { mode: number, details, deed: Deed::Nothing });
        }
        if let Deed::Try(time) = deed {
            details.push_str(&format!(
                "\nThe config is applied in 'try' mode and will be automatically reverted back in {}",
                duration(time)
            ));
        }
        if let (Deed::Reboot, true, Some(difference)) = (deed, asked_to_decide, &reboot) {
            details.push_str(&format!(": {IMMEDIATE}{difference}"));
        }
        Ok(Verdict { mode: number, details, deed })
    }

    /// Up to 1.12 maintenance is a small server of its own.
    fn judge_before_113(
        &self,
        request: &ApplyConfigurationRequest,
        mode: Option<Mode>,
    ) -> Result<Verdict, Status> {
        let talos = self.contract();
        let unsupported = match mode {
            Some(Mode::Reboot | Mode::Auto | Mode::Try) => None,
            Some(Mode::NoReboot) => Some("no-reboot".to_owned()),
            Some(Mode::Staged) => Some("staged".to_owned()),
            None => Some(request.mode.to_string()),
        };
        if let Some(name) = unsupported {
            let words = format!("apply configuration --mode='{name}' is not supported in maintenance mode");
            return Err(Status::new(Code::Unimplemented, words));
        }
        let text = String::from_utf8_lossy(&request.data);
        let config = decode::decode(&text, talos)
            .map_err(|words| Status::new(Code::Unknown, format!("failed to parse config: {words}")))?;
        let refused = |words: String| Status::new(Code::InvalidArgument, words);
        if let Some(words) = validate::check(&config, self.platform, talos) {
            return Err(refused(format!("configuration validation failed: {words}")));
        }
        if let Some(words) = validate::check_versions(&config, self.version, talos) {
            return Err(refused(format!("runtime configuration validation failed: {words}")));
        }
        if let Some(words) = validate::check_rest(&config, self.platform, talos) {
            return Err(refused(format!("configuration validation failed: {words}")));
        }
        if request.dry_run {
            let details =
                "Dry run summary:\nNode is running in maintenance mode and does not have a config yet."
                    .to_owned();
            return Ok(Verdict { mode: 0, details, deed: Deed::Nothing });
        }
        Ok(Verdict { mode: 0, details: String::new(), deed: Deed::Immediately })
    }
}

/// What differs that no running node takes over.
fn wants_reboot(before: &Config, after: &Config) -> Option<String> {
    let (before, after) = (before.document("")?.to_value(), after.document("")?.to_value());
    let mut mixed = after.clone();
    let top = mixed.as_map_mut()?;
    for key in ["cluster", "debug"] {
        replace(top, before.as_map()?, key);
    }
    let machine = top.get_mut("machine").and_then(Value::as_map_mut)?;
    for key in IN_PLACE {
        replace(machine, before.at(&["machine"])?.as_map()?, key);
    }
    let [before, mixed] = [before, mixed].map(|value| arranged(&value));
    let difference = diff::unified(&before?, &mixed?);
    (!difference.is_empty()).then_some(difference)
}

fn replace(map: &mut talmox_machine::Map, by: &talmox_machine::Map, key: &str) {
    match by.get(key) {
        Some(value) => map.set(key, value.clone()),
        None => {
            map.remove(key);
        }
    }
}

/// As Talos prints it, fields in its order.
fn arranged(value: &Value) -> Option<String> {
    let text = talmox_machine::print(value);
    Some(Config::parse(Source { name: "config", text: &text }).ok()?.to_yaml())
}

/// `1m0s`, `1h0m0s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}
