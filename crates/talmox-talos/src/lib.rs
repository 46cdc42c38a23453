//! A client of the Talos API.
//!
//! ```text
//!  Client ── typed calls, one node ──▶ Transport ── bytes ──▶ GrpcTransport (HTTP/2, TLS) · anything in memory
//! ```
//!
//! A node is spoken to directly, never through another: a proxied call waits in somebody else's back-off, and a failure
//! inside a reply that says OK is easily missed. Where a reply has entries with an error inside, that is an error here.
//! Every call has a deadline, because etcd calls before the bootstrap hang without one.

mod access;
mod api;
mod client;
mod error;
mod grpc;
mod status;
mod transport;

pub use access::{Access, Fingerprint, Identity, InvalidIdentity};
pub use api::*;
pub use client::{Client, Deadlines};
pub use error::{Error, Kind};
pub use grpc::{DialMap, GrpcTransport};
pub use status::{Code, Status};
pub use transport::{BoxFuture, BoxStream, Call, Messages, Replies, Transport, TransportError};
