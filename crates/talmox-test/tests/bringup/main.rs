//! From nothing to a cluster that works: VMs, configurations, the bootstrap, members.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bed;
mod drive;
mod trouble;
mod up;
