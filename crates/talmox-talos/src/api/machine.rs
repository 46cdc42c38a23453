//! What a machine is, its configuration and its services.

use std::time::Duration;

use bytes::Bytes;
use talmox_proto::machine::apply_configuration_request::Mode;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{
    ApplyConfigurationRequest, BootstrapRequest, ServiceInfo, ServiceRestartRequest, ServiceStartRequest,
};
use talmox_types::excerpt;

use crate::{Client, Code, Error, Status};

/// How long a node may take to answer a bootstrap: it waits five seconds for its clock before it says that this is not right, and
/// stops an etcd that cannot start before it begins anew.
const BOOTSTRAP: Duration = Duration::from_secs(30);

/// What runs on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// `v1.13.9`.
    pub tag: String,
    pub arch: String,
    pub platform: Platform,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Platform {
    /// `nocloud`.
    pub name: String,
    /// `cloud`, `metal`, `container`.
    pub mode: String,
}

/// How a configuration takes effect. There is no default: what Talos does without being told differs by version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApplyMode {
    NoReboot,
    /// At the next restart.
    Staged,
    /// For so long, and then back, unless something else is applied meanwhile. Never in maintenance mode, where it strands
    /// the node, and never twice in a row: the second goes back to the first.
    Try(Duration),
    /// Restarts the node; Talos 1.14 does not know it.
    Reboot,
}

/// What became of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub warnings: Vec<String>,
    /// Whether the node restarts for it.
    pub reboots: bool,
    pub details: String,
}

/// A service of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    pub id: String,
    /// `Running`, `Preparing`, `Finished`.
    pub state: String,
    /// None until its health is known.
    pub healthy: Option<bool>,
    /// The last thing that was said about it.
    pub message: String,
}

impl Client {
    pub async fn version(&self) -> Result<Release, Error> {
        let reply = self.one(calls::VERSION, (), self.deadlines().quick).await?;
        let version = reply.version.unwrap_or_default();
        let platform = reply.platform.unwrap_or_default();
        Ok(Release {
            tag: excerpt(&version.tag),
            arch: excerpt(&version.arch),
            platform: Platform { name: excerpt(&platform.name), mode: excerpt(&platform.mode) },
        })
    }

    /// Sends a configuration; with `dry_run` it is only judged.
    pub async fn apply_configuration(
        &self,
        config: Bytes,
        mode: ApplyMode,
        dry_run: bool,
    ) -> Result<Applied, Error> {
        let (mode, timeout) = match mode {
            ApplyMode::NoReboot => (Mode::NoReboot, None),
            ApplyMode::Staged => (Mode::Staged, None),
            ApplyMode::Try(timeout) => (Mode::Try, Some(timeout)),
            ApplyMode::Reboot => (Mode::Reboot, None),
        };
        let try_mode_timeout = timeout.map(|timeout| talmox_proto::Duration {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        });
        let request =
            ApplyConfigurationRequest { data: config.to_vec(), mode: mode.into(), dry_run, try_mode_timeout };
        let reply = self.one(calls::APPLY_CONFIGURATION, request, self.deadlines().long).await?;
        // In maintenance mode Talos 1.12 leaves the mode at its zero, which is the word for a restart.
        let reboots = reply.mode == i32::from(Mode::Reboot) && mode == Mode::Reboot;
        let warnings = reply.warnings.iter().map(|warning| excerpt(warning)).collect();
        Ok(Applied { warnings, reboots, details: reply.mode_details })
    }

    /// Makes the first member of a new etcd, or with `recover` one with the data that was uploaded. A good answer does not
    /// mean that etcd runs, nor that this call was the one: watch the service.
    pub async fn bootstrap(&self, recover: bool) -> Result<(), Error> {
        let request = BootstrapRequest { recover_etcd: recover, recover_skip_hash_check: false };
        self.one(calls::BOOTSTRAP, request, self.deadlines().quick.max(BOOTSTRAP)).await.map(drop)
    }

    /// The machine's memory in bytes.
    pub async fn memory(&self) -> Result<u64, Error> {
        let reply = self.one(calls::MEMORY, (), self.deadlines().quick).await?;
        Ok(reply.meminfo.unwrap_or_default().memtotal.saturating_mul(1024))
    }

    pub async fn services(&self) -> Result<Vec<ServiceState>, Error> {
        let reply = self.one(calls::SERVICE_LIST, (), self.deadlines().quick).await?;
        Ok(reply.services.into_iter().map(state).collect())
    }

    /// One service; none if the node has none of that name.
    pub async fn service(&self, id: &str) -> Result<Option<ServiceState>, Error> {
        Ok(self.services().await?.into_iter().find(|service| service.id == id))
    }

    pub async fn start_service(&self, id: &str) -> Result<(), Error> {
        let request = ServiceStartRequest { id: id.to_owned() };
        self.one(calls::SERVICE_START, request, self.deadlines().quick).await.map(drop)
    }

    /// Stops and starts. A call that is given up in between leaves it stopped: look, and start it.
    pub async fn restart_service(&self, id: &str) -> Result<(), Error> {
        let request = ServiceRestartRequest { id: id.to_owned() };
        self.one(calls::SERVICE_RESTART, request, self.deadlines().long).await.map(drop)
    }

    /// An administrator's kubeconfig, made by the node on the spot. It says nothing about whether Kubernetes answers.
    pub async fn kubeconfig(&self) -> Result<secrecy::SecretString, Error> {
        let name = calls::KUBECONFIG.name();
        let archive = self.collect(calls::KUBECONFIG, (), self.deadlines().quick).await?;
        let wrong = |what: &str| self.error(name, Status::new(Code::DataLoss, what));
        super::files::first_file(&archive)
            .ok_or_else(|| wrong("the archive holds no kubeconfig"))
            .and_then(|text| String::from_utf8(text).map_err(|_| wrong("the kubeconfig is no text")))
            .map(secrecy::SecretString::from)
    }
}

fn state(info: ServiceInfo) -> ServiceState {
    let health = info.health.unwrap_or_default();
    let last = info.events.and_then(|events| events.events.into_iter().next_back());
    // Before the first check, and where the process has ended since the last one, only the last event tells what is the matter.
    let is_checked = !health.unknown && info.state == "Running" && !health.last_message.is_empty();
    let event = last.map(|event| event.msg).filter(|text| !text.is_empty() && !is_checked);
    let message = event.unwrap_or(health.last_message);
    ServiceState {
        id: excerpt(&info.id),
        state: excerpt(&info.state),
        healthy: (!health.unknown).then_some(health.healthy),
        message: excerpt(&message),
    }
}
