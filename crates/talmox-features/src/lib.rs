//! Holds no code. Its `Cargo.toml` names the features that other crates are built with, so that every selection of packages
//! (`cargo run -p talmox`, `cargo test --workspace`, `cargo test -p talmox-plan`) shares one build of them.
//!
//! `xtask/tests/it/features.rs` names what is missing from that list.
