//! The engine's hands on the simulator, in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod change;
mod create;
mod observe;
mod order;
mod remove;
mod support;
