//! Talos configuration, natively: the secrets bundle, certificates, machine configs, patches, client configs.
//!
//! Given the same bundle and inputs the result says the same as what `talosctl` makes, document by document. Nothing here
//! does I/O: time and randomness come in as arguments, texts go out as values.

pub mod client;
mod diff;
mod document;
mod fault;
pub mod generate;
mod hidden;
mod mask;
pub mod patch;
pub mod pki;
mod print;
mod random;
mod read;
mod resolve;
pub mod sample;
mod scalar;
mod schema;
pub mod secrets;
mod time;
pub mod validate;
mod value;
mod view;

pub use diff::Difference;
pub use document::{Config, Document, read_values};
pub use fault::{Fault, Faults, Place, Source};
pub use generate::{Input, InputError, Options, Role};
pub use hidden::Hidden;
pub use patch::{Patch, PatchError, Patched};
pub use print::print;
pub use random::{NoRandomness, Random, SystemRandom};
pub use secrets::Bundle;
pub use time::Time;
pub use value::{Map, Value};
