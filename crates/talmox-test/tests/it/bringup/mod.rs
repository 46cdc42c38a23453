//! From nothing to a cluster that works: VMs, configurations, the bootstrap, members.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "counts and times are part of what is shown")]

mod again;
mod drive;
mod early;
mod faults;
mod matrix;
mod rules;
mod scale;
mod settled;
mod standstill;
mod trouble;
mod up;
mod url;

use talmox_test::bed;
