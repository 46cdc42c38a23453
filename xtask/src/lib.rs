//! Chores of the workspace that are programs of their own.

pub mod conformance;
pub mod docs;
pub mod golden;
pub mod parameters;
pub mod recorded;
pub mod sabotage;
mod simulator;
pub mod talos;
pub mod truth;
