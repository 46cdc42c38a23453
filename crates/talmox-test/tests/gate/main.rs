//! Nodes that live are taken down one at a time, without their pods, and only when etcd can do without them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../bringup/bed.rs"]
#[expect(dead_code, reason = "shared with the bring-up, which uses all of it")]
mod bed;
#[path = "../line/chance.rs"]
mod chance;
mod config;
mod drains;
mod etcd;
mod living;
mod safety;
