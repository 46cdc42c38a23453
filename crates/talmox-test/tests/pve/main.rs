//! The Proxmox client against the Proxmox simulator, in one thread on a paused clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod failures;
mod repeat;
mod support;
