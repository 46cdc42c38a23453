//! The engine's hands on the simulator, in memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod observe;
mod support;
