//! What a description can cause: nothing without a grant, and with one exactly what it names.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "files the tests themselves had written")]

mod asking;
mod canaries;
mod confined;
mod lab;
mod matrix;
mod reading;
