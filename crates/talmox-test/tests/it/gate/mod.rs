//! Nodes that live are taken down one at a time, without their pods, and only when etcd can do without them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod config;
mod drains;
mod etcd;
mod leases;
mod safety;
mod window;

use talmox_test::bed;
