//! Nodes that leave a cluster that lives, are built anew, or are carried over from a host that is gone.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "counts are part of what is shown")]

mod crash;
mod down;
mod hosts;
mod kept;
mod replace;
mod support;

use talmox_test::bed;
