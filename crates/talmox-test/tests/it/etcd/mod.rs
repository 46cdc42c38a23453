//! Snapshots of etcd, clusters that begin with one, and members that are looked after.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod members;
mod quorum;
mod restore;
mod snapshots;

use talmox_test::bed;
