//! The seam between the client and the network: requests and replies only, so that it runs over real HTTP as well as
//! over anything in memory, with a paused clock.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use super::Address;

/// A boxed future, so that a transport can be chosen at run time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
}

impl Method {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
        }
    }
}

/// A request; only a `POST` has a body.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub address: Address,
    pub body: Bytes,
}

/// The head of a reply, and its body as it comes.
pub struct Response {
    pub status: u16,
    pub location: Option<String>,
    pub content_length: Option<u64>,
    pub body: Box<dyn Chunks>,
}

/// A body in pieces. Dropping it gives up what has not come yet.
pub trait Chunks: Send {
    /// The next piece; none at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>>;
}

/// A body that is there already.
impl Chunks for Option<Bytes> {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        let piece = self.take().filter(|bytes| !bytes.is_empty());
        Box::pin(std::future::ready(Ok(piece)))
    }
}

/// Why there is no reply, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    #[error("{reason}")]
    Connect { reason: String },
    #[error("its certificate is not trusted: {reason}")]
    Certificate { reason: String },
    /// The connection broke on the way.
    #[error("{reason}")]
    Lost { reason: String },
}

/// Carries requests to a server and replies back.
pub trait Transport: Send + Sync {
    /// Sends one request, once, and gives the reply as soon as its head is there.
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>>;
}

/// Carries requests for one host to another place: a factory that is only simulated, or reached by another way.
pub struct Rerouted {
    pub inner: std::sync::Arc<dyn Transport>,
    /// Host and port requests are for.
    pub from: String,
    /// Where they go; its path is ignored.
    pub to: Address,
}

impl Transport for Rerouted {
    fn send<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Response, TransportError>> {
        Box::pin(async move {
            if request.address.authority != self.from {
                return self.inner.send(request).await;
            }
            let Address { secure, authority, target: _ } = self.to.clone();
            let address = Address { secure, authority, target: request.address.target.clone() };
            self.inner.send(&Request { address, ..request.clone() }).await
        })
    }
}
