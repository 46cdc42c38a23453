//! A description: read, reported on, explained.

#![no_main]

#[path = "../../crates/talmox-config/tests/it/support/exercise.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
