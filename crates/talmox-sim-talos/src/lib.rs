//! Talos nodes that live in memory.
//!
//! ```text
//!  power, disks, network ─▶ Nodes ─▶ replies of the Talos API, of Kubernetes
//!   (a hypervisor)            │
//!                             └─ advance_to(now): boot, install, etcd, kubelet, in the time they take
//! ```
//!
//! The core does no I/O. Whoever simulates the hypervisor says when a machine is switched on and what is in it
//! ([`Hardware`]); shells bring calls ([`ApiCall`], [`KubeCall`]) and carry replies away, and fetch what machines want from
//! web servers ([`Wanted`]). The nodes know only the wire:
//! messages are those of `talmox-proto`, and a machine configuration is read and judged by `talmox-machine`, which is held
//! to Talos' own library elsewhere. Nothing of the client, the planner or the executor is used here.

mod api;
pub mod behaviours;
mod disk;
mod etcd;
mod faults;
mod hardware;
mod images;
pub mod kube;
mod machine;
mod nocloud;
mod nodes;
mod peer;
pub mod proxmox;
mod random;
#[cfg(feature = "serve")]
pub mod serve;
mod services;
mod timing;
mod wire;

pub use etcd::{Quorum, SavedDisks};
pub use faults::{CallFault, Faults, Flapping, Trouble};
pub use hardware::{Content, Disk, DiskId, Drive, Hardware, Image, MachineId, Nic, Platform};
pub use machine::fetch::{Fetched, Wanted};
pub use nodes::{News, Nodes, Standing};
pub use timing::Timing;
pub use wire::{
    ApiCall, ApiReply, Code, KubeCall, KubeReply, KubeWatch, Listener, Peer, Status, StreamId, Streamed,
    only_looks,
};
