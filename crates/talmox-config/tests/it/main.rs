//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod edit;
mod faulty;
mod fuzz;
mod many;
mod merge;
mod seeds;
mod support;
