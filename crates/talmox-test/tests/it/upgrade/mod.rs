//! Talos upgraded under a cluster that lives: three control planes and three workers, and whatever may go wrong.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod cluster;
mod killed;
mod roll;
mod stale;
mod trouble;
mod unavailable;

use talmox_test::bed;
