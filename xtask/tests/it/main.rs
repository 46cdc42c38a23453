//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod features;
mod golden;
mod mutations;
mod properties;
mod schema;
mod truth;
mod truth_talos;
