//! Kubernetes of a cluster that lives moves to another version.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod trouble;
mod upgrade;

use talmox_test::bed;
