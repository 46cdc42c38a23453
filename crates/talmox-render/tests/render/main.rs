//! From descriptions to configurations.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says where")]

mod keys;
mod network;
mod patches;
mod snapshots;
mod support;
