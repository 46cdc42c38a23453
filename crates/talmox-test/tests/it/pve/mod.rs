//! The Proxmox client against the Proxmox simulator, in one thread on a paused clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod concurrency;
mod content;
mod crash;
mod factory;
mod failures;
mod fault_plans;
mod life;
mod moves;
mod permissions;
mod recorded;
mod repeat;
mod services;
mod support;
