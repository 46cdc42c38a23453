//! Talos upgraded under a cluster that lives: three control planes and three workers, and whatever may go wrong.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../bringup/bed.rs"]
#[expect(dead_code, reason = "another target uses the rest of it")]
mod bed;
mod cluster;
mod killed;
mod roll;
mod stale;
mod trouble;
