//! The seam between the client and the network.
//!
//! Everything above sees encoded messages and how a call ended, so it runs over real TLS as well as over a simulated node
//! in memory, on one thread and with a paused clock.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;

use crate::{Access, Fingerprint, Status};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type BoxStream<T> = Pin<Box<dyn Stream<Item = T> + Send>>;

/// What is sent.
pub enum Messages {
    One(Bytes),
    Many(BoxStream<Bytes>),
}

/// One call to one node.
pub struct Call {
    pub node: IpAddr,
    pub access: Access,
    /// `/PACKAGE.SERVICE/METHOD`.
    pub path: &'static str,
    pub messages: Messages,
    /// How long the server may work on it; a stream that is followed has none.
    pub deadline: Option<Duration>,
}

/// The replies to a call. Its end without an error is a call that ended well.
pub type Replies = BoxStream<Result<Bytes, TransportError>>;

/// Makes calls.
pub trait Transport: Send + Sync {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Replies, TransportError>>;

    /// The fingerprint of the certificate a node shows to everybody, with which it can be held to it in the calls that follow
    /// ([`Access::Maintenance`]). None: this transport has no certificates.
    fn fingerprint(&self, _node: IpAddr) -> BoxFuture<'_, Result<Option<Fingerprint>, TransportError>> {
        Box::pin(async { Ok(None) })
    }
}

/// How a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Nobody listens, or not yet: nothing was sent.
    #[error("{reason}")]
    Connect { reason: String },
    /// The node's certificate is not of the authority, or has none of the fingerprints. Nothing was sent.
    #[error("{reason}")]
    Certificate { reason: String },
    /// The node does not take our certificate. It says so before it looks at anything, and nothing was sent.
    #[error("{reason}")]
    Refused { reason: String },
    /// The node hung up before it had said a word. That may be a refusal whose words got lost, or a node that goes down; nothing was
    /// sent.
    #[error("{reason}")]
    Closed { reason: String },
    /// The connection ended after the request had left; what became of it nobody knows.
    #[error("{reason}")]
    Lost { reason: String },
    /// The node, or we, gave up waiting.
    #[error("no answer within {} s", .after.as_secs())]
    Deadline { after: Duration },
    /// The node answered with a failure.
    #[error("{0}")]
    Status(Status),
}
