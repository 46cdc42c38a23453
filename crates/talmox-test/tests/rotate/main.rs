//! Authorities of a cluster that lives are replaced by others.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../bringup/bed.rs"]
#[expect(dead_code, reason = "shared with the bring-up, which uses all of it")]
mod bed;
mod cluster;
mod trouble;
mod turn;
