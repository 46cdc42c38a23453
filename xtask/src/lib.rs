//! Chores of the workspace that are programs of their own.

pub mod truth;
