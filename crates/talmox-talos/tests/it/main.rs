//! All integration tests of the crate: one program, since each would be linked with everything it tests.

mod grpc;
mod hostile;
