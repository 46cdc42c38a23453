//! The Kubernetes of one simulated cluster: its objects, the API server before them, and as much of the controllers and
//! kubelets as health, cordoning, draining and deleting are seen by.
//!
//! ```text
//!  request ─▶ authorize ─▶ path ─▶ read · watch · write · apply · evict ─▶ objects ◀─ settle: kubelets, scheduler, controllers
//!                                                                    ▲
//!                                        report(KubeletFacts) ───────┘
//! ```
//!
//! Everything a client could have said is JSON, kept as it was said. What controllers do takes time and is worked out when
//! somebody looks: [`Store::handle`] first brings the objects up to its `now`. Time is in milliseconds since 1970, as an argument.
//! Known from the sources of Kubernetes 1.36 and held against a real API server by `cargo xtask conformance kubernetes`.

mod apply;
mod authorize;
mod bootstrap;
mod clock;
mod custom;
mod delete;
mod discovery;
mod evict;
mod failure;
mod fields;
mod handle;
mod kinds;
mod kubelet;
mod nodes;
mod object;
mod openapi;
mod patch;
mod path;
mod pods;
mod protobuf;
mod read;
mod selector;
mod settle;
mod volumes;
pub(crate) mod watch;
mod workloads;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use authorize::Caller;
pub use bootstrap::BootstrapManifests;
#[cfg(feature = "serve")]
pub(crate) use clock::http_date;
pub use handle::{Answer, Health};
pub use kubelet::{KubeletFacts, NodeRole, StaticPod};

use failure::Failure;
use object::Object;

/// The objects of one cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// What the API server says it is: `1.36.3`.
    version: String,
    /// Of etcd: every write is one more.
    revision: u64,
    seed: u64,
    /// By `GROUP/PLURAL`, then by `NAMESPACE/NAME`.
    objects: BTreeMap<String, BTreeMap<String, Object>>,
    /// By the name of their node; of those that live.
    kubelets: BTreeMap<String, KubeletFacts>,
    /// Since when the others are silent.
    silent: BTreeMap<String, u64>,
    /// Since when attached volumes are used by nobody, by the name of their attachment.
    #[serde(default)]
    unused: BTreeMap<String, u64>,
    /// The revision of the last removal, by `GROUP/PLURAL`.
    #[serde(default)]
    removed: BTreeMap<String, u64>,
    /// When a controller or kubelet next has something to do; 0 after every change.
    wake: u64,
}

/// A refusal in the server's own form.
pub(crate) fn refusal(code: u16, message: &str) -> bytes::Bytes {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        400..500 => "BadRequest",
        _ => "InternalError",
    };
    Failure::new(code, reason, message).to_json().to_string().into()
}

/// The namespaces every cluster begins with.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

impl Store {
    /// An empty cluster. The seed makes its uids, the version is its API server's.
    pub fn new(seed: u64, version: &str, now: u64) -> Self {
        let mut store = Self {
            version: version.trim_start_matches('v').to_owned(),
            revision: 0,
            seed,
            objects: BTreeMap::new(),
            kubelets: BTreeMap::new(),
            silent: BTreeMap::new(),
            unused: BTreeMap::new(),
            removed: BTreeMap::new(),
            wake: 0,
        };
        for name in NAMESPACES {
            store.ensure("", "namespaces", "", name, custom::namespace(name), now);
        }
        store
    }

    /// The API server was replaced by one of another version.
    pub fn set_version(&mut self, version: &str) {
        version.trim_start_matches('v').clone_into(&mut self.version);
    }

    pub fn version(&self) -> &str {
        &self.version
    }
}
