//! Typed calls to one node.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use talmox_proto::machine::machine_service as calls;
use talmox_proto::{Message, Method};

use crate::{
    Access, BoxStream, Call, Code, Error, Fingerprint, Identity, Messages, Replies, Status, Transport,
    TransportError,
};

/// A bound for what is read into memory: no file or list talmox reads is near it.
pub(crate) const LARGEST: usize = 64 << 20;

/// How long calls may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Of calls that only look or start something.
    pub quick: Duration,
    /// Of calls that work before they answer: pulling an image, leaving etcd, a snapshot.
    pub long: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { quick: Duration::from_secs(15), long: Duration::from_mins(10) }
    }
}

/// A node, and how it is approached.
#[derive(Clone)]
pub struct Client {
    transport: Arc<dyn Transport>,
    node: IpAddr,
    access: Access,
    deadlines: Deadlines,
}

impl Client {
    pub fn new(transport: Arc<dyn Transport>, node: IpAddr, access: Access) -> Self {
        Self { transport, node, access, deadlines: Deadlines::default() }
    }

    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// The same node in maintenance mode, held to the certificate it shows now: what is asked and sent goes to one machine, or
    /// nowhere. Gives the certificate's fingerprint too, which the machine prints on its console.
    pub async fn pinned(&self) -> Result<(Self, Option<Fingerprint>), Error> {
        let shown = self.transport.fingerprint(self.node).await;
        let shown = shown.map_err(|cause| Error { node: self.node, method: "handshake", cause })?;
        let access = Access::Maintenance { fingerprints: shown.into_iter().collect() };
        Ok((Self { access, ..self.clone() }, shown))
    }

    pub fn node(&self) -> IpAddr {
        self.node
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.deadlines
    }

    /// A call with one reply.
    pub(crate) async fn ask<Request: Message, Reply: Message + Default + 'static>(
        &self,
        method: Method<Request, Reply>,
        request: Request,
        deadline: Duration,
    ) -> Result<Reply, Error> {
        let messages = Messages::One(Bytes::from(request.encode_to_vec()));
        let replies = self.send(method, messages, Some(deadline)).await?;
        self.only(method.name(), replies).await
    }

    /// A call with many replies. Without a deadline it is followed until somebody ends it.
    pub(crate) async fn stream<Request: Message, Reply: Message + Default + 'static>(
        &self,
        method: Method<Request, Reply>,
        request: Request,
        deadline: Option<Duration>,
    ) -> Result<BoxStream<Result<Reply, Error>>, Error> {
        self.send(method, Messages::One(Bytes::from(request.encode_to_vec())), deadline).await
    }

    /// A call with many replies that are kept: all of them together may not be larger than [`LARGEST`].
    pub(crate) async fn bounded_stream<Request: Message, Reply: Message + Default + 'static>(
        &self,
        method: Method<Request, Reply>,
        request: Request,
        deadline: Duration,
    ) -> Result<BoxStream<Result<Reply, Error>>, Error> {
        let mut left = LARGEST;
        let (client, name) = (self.clone(), method.name());
        let stream = self.send(method, Messages::One(Bytes::from(request.encode_to_vec())), Some(deadline));
        let bounded = stream.await?.map(move |reply| {
            let reply = reply?;
            left = left.checked_sub(reply.encoded_len().max(1)).ok_or_else(|| {
                client.error(name, Status::new(Code::ResourceExhausted, "the reply is larger than 64 MiB"))
            })?;
            Ok(reply)
        });
        Ok(Box::pin(bounded))
    }

    /// A call with many requests and one reply.
    pub(crate) async fn pour<Request: Message + 'static, Reply: Message + Default + 'static>(
        &self,
        method: Method<Request, Reply>,
        requests: BoxStream<Request>,
        deadline: Duration,
    ) -> Result<Reply, Error> {
        let messages = requests.map(|request| Bytes::from(request.encode_to_vec()));
        let replies = self.send(method, Messages::Many(Box::pin(messages)), Some(deadline)).await?;
        self.only(method.name(), replies).await
    }

    /// The one reply of a call that has one. What follows is the status, which may still say that it failed.
    async fn only<Reply>(
        &self,
        name: &'static str,
        mut replies: BoxStream<Result<Reply, Error>>,
    ) -> Result<Reply, Error> {
        let none = || self.error(name, Status::new(Code::Internal, "the reply is empty"));
        let reply = replies.next().await.ok_or_else(none)??;
        while let Some(more) = replies.next().await {
            more?;
        }
        Ok(reply)
    }

    async fn send<Request, Reply: Message + Default + 'static>(
        &self,
        method: Method<Request, Reply>,
        messages: Messages,
        deadline: Option<Duration>,
    ) -> Result<BoxStream<Result<Reply, Error>>, Error> {
        let (node, name) = (self.node, method.name());
        let failed = move |cause: TransportError| Error::new(node, name, cause);
        let replies = self.call(method.path, messages, deadline).await.map_err(failed)?;
        Ok(Box::pin(replies.map(move |reply| {
            let reply = reply.map_err(failed)?;
            Reply::decode(reply).map_err(|error| {
                failed(TransportError::Lost { reason: format!("the reply makes no sense: {error}") })
            })
        })))
    }

    /// Makes a call as whoever the node knows us by. While an authority is being replaced that may be one of two, and a node
    /// that does not know the one has looked at nothing before it says so.
    async fn call(
        &self,
        path: &'static str,
        messages: Messages,
        deadline: Option<Duration>,
    ) -> Result<Replies, TransportError> {
        let node = self.node;
        let (identity, message) = match (&self.access, messages) {
            (Access::Secure(identity), Messages::One(message)) => (identity, message),
            (Access::Secure(identity), messages @ Messages::Many(_)) => {
                let access = Access::Secure(self.whom_it_knows(identity).await);
                return self.transport.call(Call { node, access, path, messages, deadline }).await;
            }
            (access @ Access::Maintenance { .. }, messages) => {
                let call = Call { node, access: access.clone(), path, messages, deadline };
                return self.transport.call(call).await;
            }
        };
        let mut first = None;
        for as_whom in identity.in_turn(node) {
            let (access, messages) = (Access::Secure(Arc::clone(&as_whom)), Messages::One(message.clone()));
            let answer = self.transport.call(Call { node, access, path, messages, deadline }).await;
            match answer {
                Err(error) if is_refusal(&error, path) => {
                    first.get_or_insert(error);
                }
                answer => {
                    // Whoever is told that it failed was let in.
                    if matches!(answer, Ok(_) | Err(TransportError::Status(_))) {
                        identity.known_to(node, &as_whom);
                    }
                    return answer;
                }
            }
        }
        Err(first.unwrap_or_else(|| TransportError::Connect { reason: "nobody to be".to_owned() }))
    }

    /// Who the node knows us by. What streams can be sent once only, so it is found out by something that can be asked twice; if
    /// that fails, so will what follows, and it has the better words for it.
    async fn whom_it_knows(&self, identity: &Arc<Identity>) -> Arc<Identity> {
        if identity.in_turn(self.node).len() > 1 {
            let nothing = Messages::One(Bytes::new());
            drop(Box::pin(self.call(calls::VERSION.path, nothing, Some(self.deadlines.quick))).await);
        }
        identity.in_turn(self.node).into_iter().next().unwrap_or_else(|| Arc::clone(identity))
    }

    pub(crate) fn error(&self, method: &'static str, status: Status) -> Error {
        Error::new(self.node, method, TransportError::Status(status))
    }
}

/// Whether a node may have refused our certificate, and may be asked again as somebody else. Nothing was sent to one that said so or
/// closed the connection at once; where something was, only what looks is asked twice.
fn is_refusal(error: &TransportError, path: &str) -> bool {
    match error {
        TransportError::Certificate { .. }
        | TransportError::Refused { .. }
        | TransportError::Closed { .. } => true,
        TransportError::Lost { .. } => path.starts_with("/cosi.resource.State/"),
        TransportError::Connect { .. } | TransportError::Deadline { .. } | TransportError::Status(_) => false,
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("node", &self.node).finish_non_exhaustive()
    }
}
