//! The engine's hands on the simulator, in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod create;
mod observe;
mod remove;
mod support;
