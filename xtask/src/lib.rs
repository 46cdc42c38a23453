//! Chores of the workspace that are programs of their own.

pub mod docs;
pub mod truth;
