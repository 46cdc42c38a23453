//! SOPS files with age, natively: what `sops` and `age` write is read here, and what is written here they read.
//!
//! All of it is pure but [`write_secret_file`]: bytes go in and out, keys, time and randomness are arguments. Plaintext comes
//! out in types that do not show it, and errors name places, never values.

pub mod age;
mod keys;
mod random;
mod rules;
pub mod sops;
mod write;

pub use keys::{KeySource, KeysError, gather};
pub use random::{NoRandomness, Random, SystemRandom};
pub use rules::{CreationRules, RulesError};
pub use write::{Overwrite, WriteError, write_secret_file};
