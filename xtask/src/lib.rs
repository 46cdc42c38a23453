//! Chores of the workspace that are programs of their own.

pub mod bench;
pub mod bench_render;
pub mod conformance;
pub mod docs;
pub mod fuzz_seeds;
pub mod golden;
mod own_program;
pub mod parameters;
pub mod recorded;
pub mod sabotage;
mod scratch;
mod side_by_side;
mod simulator;
pub mod talhelper;
pub mod talos;
pub mod talosctl;
pub mod truth;
