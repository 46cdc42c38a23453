//! Nodes driven by encoded messages, as a shell would.

#![expect(clippy::unwrap_used, clippy::panic, clippy::wildcard_enum_match_arm, reason = "tests")]

mod cluster;
mod driven;
mod kube;
mod lab;
mod life;
mod rotation;
mod trouble;
mod upkeep;
