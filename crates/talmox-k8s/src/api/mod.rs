//! The calls, one module for each kind of thing.

mod apply;
mod config_maps;
mod discovery;
mod evict;
mod lease;
mod meta;
mod nodes;
mod pods;
mod server;
mod storage;
mod workloads;

pub use apply::{Applied, Apply, ApplyError, Change, FIELD_MANAGER, InvalidManifest, Manifest, Standing};
pub use evict::Eviction;
pub use lease::{Holding, Lock, Outcome};
pub use meta::{Condition, Meta, Owner, Selection};
pub use nodes::{CORDONED, INSTALLED, Node, NodeAddress, NodeChange, NodeInfo, NodeSpec, NodeStatus, Taint};
pub use pods::{Container, Pod, PodSpec, PodStatus};
pub use server::Version;
pub use storage::VolumeAttachment;
pub use workloads::{DaemonSet, DaemonSetSpec, Deployment, PodTemplate};

pub(crate) use meta::or_default;
