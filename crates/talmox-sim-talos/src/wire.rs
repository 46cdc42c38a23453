//! What goes in and comes out, as shells see it.

use std::net::IpAddr;

use bytes::Bytes;

use crate::kube::watch::Watch;

/// One call of the Talos API.
#[derive(Clone, Debug)]
pub struct ApiCall {
    /// The address that was dialled.
    pub to: IpAddr,
    pub peer: Peer,
    /// `/PACKAGE.SERVICE/METHOD`.
    pub path: String,
    /// Of gRPC, in order: `node`, `nodes`, `talos-role`.
    pub metadata: Vec<(String, String)>,
    /// One, or all that a stream of requests held.
    pub messages: Vec<Bytes>,
}

/// Calls that only look, by their names.
const LOOKS: &[&str] = &[
    "Containers",
    "Copy",
    "CPUFreqStats",
    "CPUInfo",
    "Disks",
    "DiskStats",
    "DiskUsage",
    "Dmesg",
    "EtcdAlarmList",
    "EtcdMemberList",
    "EtcdSnapshot",
    "EtcdStatus",
    "Events",
    "Get",
    "HealthCheck",
    "Hostname",
    "Inspect",
    "Kubeconfig",
    "List",
    "LoadAvg",
    "Logs",
    "LogsContainers",
    "Memory",
    "Mounts",
    "Netstat",
    "NetworkDeviceStats",
    "Processes",
    "Read",
    "ServiceList",
    "Stats",
    "SystemStat",
    "Time",
    "TimeCheck",
    "Verify",
    "Version",
    "Watch",
];

/// Whether a call of the Talos API, by its path, leaves everything as it is.
pub fn only_looks(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| LOOKS.contains(&name))
}

impl ApiCall {
    /// Whether it leaves everything as it is.
    pub fn only_looks(&self) -> bool {
        only_looks(&self.path)
    }
}

/// Who calls, as TLS knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// No certificate was shown.
    Nobody,
    /// A certificate; the authority that signed it, in DER, and the organisations of its subject.
    Certificate { authority: Vec<u8>, organisations: Vec<String> },
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum ApiReply {
    /// Nobody listens.
    Refused,
    /// TLS ends it: the certificate is missing or of another authority.
    NotTrusted { reason: String },
    /// The same, and the connection is closed before the caller has read why.
    HungUp,
    /// All replies and the end, so many milliseconds from now.
    Done { after: u64, messages: Vec<Bytes>, end: Status },
    /// Replies come bit by bit: [`Nodes::poll`](crate) them until the end.
    Stream(StreamId),
    /// Silence until the caller gives up.
    Silence,
    /// The connection breaks after the call was taken; what became of it the caller cannot know.
    Lost { after: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What a stream brought since it was last looked at.
#[derive(Clone, Debug, Default)]
pub struct Streamed {
    pub messages: Vec<Bytes>,
    /// None while it goes on.
    pub end: Option<Status>,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: Code,
    pub message: String,
}

impl Status {
    pub fn ok() -> Self {
        Self::new(Code::Ok, "")
    }

    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// The codes of gRPC, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    Ok = 0,
    Canceled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    const ALL: [Self; 17] = [
        Self::Ok,
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The code with that name, such as `Unavailable`.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| *code != Self::Ok && format!("{code:?}") == name)
    }

    /// The code with that number; unknown if there is none.
    pub fn from_number(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Unknown)
    }
}

/// What a TLS server at an address has to show, in PEM. It changes with the node's state.
#[derive(Clone, PartialEq, Eq)]
pub enum Listener {
    Closed,
    /// A certificate of its own making; nobody is asked for one.
    Maintenance {
        certificate: String,
        key: String,
    },
    /// A certificate of the cluster's authority; the client needs one of `authorities`.
    Secure {
        certificate: String,
        key: String,
        authorities: String,
    },
}

/// One request to a Kubernetes API server.
#[derive(Clone, Debug)]
pub struct KubeCall {
    /// The address that was dialled: a control plane's, or one they share.
    pub to: IpAddr,
    pub peer: Peer,
    /// `GET`, `POST`, `PUT`, `PATCH`, `DELETE`.
    pub method: String,
    /// `/api/v1/nodes`.
    pub path: String,
    /// Decoded, in order.
    pub query: Vec<(String, String)>,
    pub content_type: Option<String>,
    pub body: Bytes,
}

/// A watch of the Kubernetes API that goes on: [`Nodes::follow_kube`](crate) it until nobody listens any more.
#[derive(Clone, Debug)]
pub struct KubeWatch {
    /// Of etcd, by number.
    pub(crate) cluster: u64,
    pub(crate) watch: Watch,
    /// What was there when it began.
    pub(crate) told: Vec<Bytes>,
}

impl KubeWatch {
    /// After so many seconds the server ends it, if anything was said of that.
    pub fn seconds(&self) -> Option<u64> {
        self.watch.seconds
    }
}

#[derive(Clone, Debug)]
pub enum KubeReply {
    /// Nobody listens.
    Refused,
    NotTrusted {
        reason: String,
    },
    Answer {
        after: u64,
        status: u16,
        body: Bytes,
    },
    /// Lines come whenever something changes.
    Watch(Box<KubeWatch>),
    Silence,
    Lost {
        after: u64,
    },
}
