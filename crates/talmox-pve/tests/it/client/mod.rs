//! The client over a scripted transport, on one thread with a paused clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authentication;
mod calls;
mod failures;
mod fake;
mod secrets;
mod tasks;
mod threads;
