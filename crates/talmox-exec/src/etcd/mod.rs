//! etcd as its members tell it, and what can be done with it: snapshots, defragmentation, recovery.

mod defragment;
mod look;
mod snapshot;

pub use defragment::{DefragmentError, Defragmented, defragment};
pub use look::{Etcd, look};
pub use snapshot::{SnapshotError, choose, take};

pub(crate) use snapshot::upload;
