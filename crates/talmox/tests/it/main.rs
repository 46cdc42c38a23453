//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod cli;
mod configs;
mod convert;
mod documents;
mod doing;
mod init;
mod render_vm;
mod schema;
mod schematic;
mod secrets;
mod sim;
mod support;
mod trust;
