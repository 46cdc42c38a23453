//! Nodes that leave a cluster that lives, are built anew, or are carried over from a host that is gone.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "counts are part of what is shown")]

#[path = "../bringup/bed.rs"]
#[allow(dead_code, reason = "shared with tests that use more of it")]
mod bed;
mod crash;
mod down;
mod hosts;
mod kept;
mod replace;
mod support;
