//! The checks of a cluster's health, on nodes and a Kubernetes that say what a script says.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod checks;
mod script;
