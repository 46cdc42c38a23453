//! Authorities of a cluster that lives are replaced by others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod beside;
mod cluster;
mod joining;
mod trouble;
mod turn;

use talmox_test::bed;
