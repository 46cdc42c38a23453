//! From descriptions to configurations.

mod keys;
mod network;
mod patches;
mod snapshots;
mod support;
