//! Services of a node, as `ServiceList` shows them.

use serde::{Deserialize, Serialize};

/// How far a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    Starting,
    Waiting,
    Preparing,
    Running,
    Stopping,
    Finished,
    Failed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Waiting => "Waiting",
            Self::Preparing => "Preparing",
            Self::Running => "Running",
            Self::Stopping => "Stopping",
            Self::Finished => "Finished",
            Self::Failed => "Failed",
        }
    }
}

/// Something a service said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) at: u64,
    pub(crate) state: State,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Health {
    Unknown,
    Healthy,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) state: State,
    pub(crate) said: Vec<Said>,
    pub(crate) health: Health,
    /// Words of the last health check; `Unknown` between the process and the first of them.
    pub(crate) health_message: String,
    /// When its health changed last, if ever.
    pub(crate) health_changed: Option<u64>,
    /// Counts starts: what was scheduled for an earlier one is void.
    pub(crate) started: u32,
    pub(crate) pid: u32,
    /// Its process ended by itself and is started again, with nothing prepared anew.
    #[serde(default)]
    pub(crate) restarts: bool,
}

/// Events of a service that are kept.
const KEPT: usize = 64;

impl Service {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Starting,
            said: Vec::new(),
            health: Health::Unknown,
            health_message: String::new(),
            health_changed: None,
            started: 0,
            pid: 0,
            restarts: false,
        }
    }

    pub(crate) fn say(&mut self, at: u64, state: State, message: impl Into<String>) {
        self.state = state;
        self.said.push(Said { at, state, message: message.into() });
        if self.said.len() > KEPT {
            self.said.remove(0);
        }
    }

    /// Its process runs, and there is nothing against it: a health check that has not come yet is not.
    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Running && self.health == Health::Healthy
    }

    /// It had a process at some time.
    pub(crate) fn has_run(&self) -> bool {
        self.said.iter().any(|said| said.state == State::Running)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, State::Finished | State::Failed)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state == State::Running
    }
}

/// What a service waits for before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Service(&'static str),
    Time,
    Network,
    /// Volumes, by the places they are mounted at.
    Volumes(&'static str),
    Certificates,
    Config,
    EtcdSpec,
}

impl Need {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Service(name) => format!("service \"{name}\" to be \"up\""),
            Self::Time => "time sync".to_owned(),
            Self::Network => "network".to_owned(),
            Self::Volumes(places) => format!("volumes {places} to be mounted"),
            Self::Certificates => "api certificates".to_owned(),
            Self::Config => "config to be ready".to_owned(),
            Self::EtcdSpec => "etcd spec".to_owned(),
        }
    }
}

/// What a service waits for, in the order in which it says so.
pub(crate) fn needs(service: &str) -> &'static [Need] {
    match service {
        "apid" => &[Need::Service("containerd"), Need::Certificates, Need::Config],
        "cri" => &[
            Need::Volumes("/var/lib, /var/lib/cni, /var/lib/containerd, /var/run, /var/run/lock"),
            Need::Network,
        ],
        "etcd" => &[
            Need::Volumes("/var/lib, ETCD"),
            Need::Service("cri"),
            Need::Time,
            Need::Network,
            Need::EtcdSpec,
        ],
        "kubelet" => &[
            Need::Volumes(
                "/var/lib, /var/lib/kubelet, /var/log, /var/log/audit, /var/log/containers, /var/log/pods, \
                 /var/lib/kubelet/seccomp, /var/lib/kubelet/seccomp/profiles, /var/log/audit/kube, /var/mnt",
            ),
            Need::Service("cri"),
            Need::Time,
            Need::Network,
        ],
        "trustd" => &[Need::Service("containerd"), Need::Time, Need::Network],
        "syslogd" => &[Need::Service("machined")],
        _ if service.starts_with("ext-") => &[Need::Service("containerd")],
        _ => &[],
    }
}

/// What a service says when its process runs.
pub(crate) fn started(service: &str, pid: u32) -> String {
    let process = |arguments: &str| format!("Process Process([{arguments}]) started with PID {pid}");
    match service {
        "machined" | "dashboard" | "auditd" | "syslogd" => "Service started as goroutine".to_owned(),
        "containerd" => process(
            "\"/bin/containerd\" \"--address\" \"/system/run/containerd/containerd.sock\" \"--state\" \
             \"/system/run/containerd\" \"--root\" \"/system/var/lib/containerd\"",
        ),
        "cri" => process(
            "\"/bin/containerd\" \"--address\" \"/run/containerd/containerd.sock\" \"--config\" \
             \"/etc/cri/containerd.toml\"",
        ),
        "udevd" => process("\"/sbin/systemd-udevd\" \"--resolve-names=never\""),
        _ => format!("Started task {service} (PID {pid}) for container {service}"),
    }
}

/// Whether its health is ever checked.
pub(crate) fn has_health(service: &str) -> bool {
    service != "dashboard" && !service.starts_with("ext-")
}
