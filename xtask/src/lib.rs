//! Chores of the workspace that are programs of their own.

pub mod docs;
mod simulator;
pub mod truth;
