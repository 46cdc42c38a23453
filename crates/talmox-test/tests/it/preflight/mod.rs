//! The preflight on simulated clusters: what it finds, and that the rights it asks for are the rights that are needed.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

pub(crate) mod bed;
mod blind;
mod hostile;
mod least;
mod matrix;
mod paste;
mod reports;
mod templates;
