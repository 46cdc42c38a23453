//! The whole line in memory: a description, a cluster, plan, check, apply, and what there is afterwards.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "how much was tried, and how long it took")]

mod adopt;
mod bed;
mod converges;
mod crash;
mod drift;
mod hands;
mod safety;
mod spec;
mod worlds;
