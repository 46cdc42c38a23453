//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod canonical;
mod client;
mod hostile;
mod install;
mod parse;
mod urls;
