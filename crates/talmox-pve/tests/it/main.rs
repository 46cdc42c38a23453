//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod client;
mod https;
mod replies;
mod round_trip;
mod support;
mod truth;
