//! Chores of the workspace that are programs of their own.

pub mod bench;
pub mod conformance;
pub mod docs;
pub mod golden;
pub mod parameters;
pub mod recorded;
mod simulator;
pub mod talos;
pub mod truth;
