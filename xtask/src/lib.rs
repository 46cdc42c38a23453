//! Chores of the workspace that are programs of their own.

pub mod conformance;
pub mod docs;
mod simulator;
pub mod truth;
