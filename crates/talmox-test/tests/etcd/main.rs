//! Snapshots of etcd, clusters that begin with one, and members that are looked after.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../bringup/bed.rs"]
#[expect(dead_code, reason = "shared with the bring-up, which uses all of it")]
mod bed;

mod members;
mod quorum;
mod restore;
mod snapshots;
