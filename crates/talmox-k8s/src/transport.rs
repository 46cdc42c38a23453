//! The seam between the client and the network.
//!
//! Everything above sees a status and a body, so it runs over real TLS as well as over a simulated cluster in memory, on one
//! thread and with a paused clock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{Identity, Server, Time};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// As it goes over the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request to one server.
#[derive(Clone)]
pub struct Request {
    pub server: Server,
    pub identity: Arc<Identity>,
    pub method: Method,
    /// `/api/v1/nodes`.
    pub path: String,
    /// Not encoded yet.
    pub query: Vec<(String, String)>,
    /// None with an empty body.
    pub content_type: Option<&'static str>,
    pub body: Bytes,
    pub deadline: Duration,
}

/// Bodies may hold secrets: they are not shown.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("server", &self.server)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// What the server said, whether it liked the request or not.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// What time the server had when it answered, if it said so.
    pub date: Option<Time>,
    pub body: Bytes,
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Makes requests.
pub trait Transport: Send + Sync {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>>;
}

/// How a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nobody listens, or not yet: nothing was sent.
    #[error("{reason}")]
    NotReached { reason: String },
    /// The server's certificate is not of the cluster's authority. Nothing was sent.
    #[error("{reason}")]
    NotTrusted { reason: String },
    /// The connection ended after the request had left; what became of it nobody knows.
    #[error("{reason}")]
    Lost { reason: String },
    /// We gave up waiting.
    #[error("no answer within {} s", .after.as_secs())]
    Deadline { after: Duration },
}
