//! The engine's hands on the simulator, in memory.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "how much was tried, and how long it took")]

mod apply;
mod change;
mod create;
mod ha;
mod moving;
mod observe;
mod order;
mod remove;
mod support;
mod templates;
