//! A client of the Kubernetes API, as small as bringing up and looking after nodes needs it.
//!
//! ```text
//!  Client ── typed calls ──▶ Transport ── request, status and body ──▶ HttpsTransport (HTTP/1, TLS) · anything in memory
//!    └── Lock (a lease) · apply (manifests) · evict
//! ```
//!
//! Who calls is a client certificate, as Talos writes it into a kubeconfig. Every call has a deadline and is tried once.
//! An error says what the caller can do about it ([`Kind`]); where a disruption budget stands in the way, which.

mod access;
mod api;
mod client;
mod error;
mod https;
mod status;
mod time;
mod transport;
mod yaml;

pub use access::{Access, Identity, InvalidAccess, Server};
pub use api::*;
pub use client::Client;
pub use error::{Cause, Error, Kind};
pub use https::{DialMap, HttpsTransport};
pub use status::Status;
pub use time::Time;
pub use transport::{BoxFuture, Method, Request, Response, Transport, TransportError};
pub use yaml::InvalidYaml;
