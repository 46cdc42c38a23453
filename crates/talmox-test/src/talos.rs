//! The way to the Talos API of simulated nodes.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use talmox_sim_talos::{ApiCall, ApiReply, Listener, Peer, StreamId, only_looks};
use talmox_talos::{
    Access, BoxFuture, Call, Code, Fingerprint, Messages, Replies, Status, Transport, TransportError,
};
use tokio::time::{Instant, timeout_at};

use crate::transport::{DEAD, Departed, pause};
use crate::trust::{Trust, key_digest};
use crate::{ClientId, End, Fault, MemoryTransport};

/// Carries calls to simulated nodes. What a call costs and what goes wrong with it is the cluster's: one log, one plan.
pub struct TalosMemory {
    cluster: Arc<MemoryTransport>,
    client: ClientId,
    trust: Trust,
}

impl TalosMemory {
    pub(crate) fn new(cluster: Arc<MemoryTransport>, client: ClientId) -> Self {
        Self { cluster, client, trust: Trust::default() }
    }

    async fn exchange(&self, call: Call) -> Result<Replies, TransportError> {
        let Call { node, access, path, messages, deadline: _ } = call;
        let messages = match messages {
            Messages::One(message) => vec![message],
            Messages::Many(messages) => messages.collect().await,
        };
        let method = if only_looks(path) { "GET" } else { "CALL" };
        let sent = messages.concat();
        let departed = self.cluster.depart(
            self.client,
            &node.to_string(),
            method,
            &shown_path(path, &sent, &access),
            &sent,
        );
        let answer = self.travel(node, &access, path, messages, &departed).await;
        let at = self.cluster.now();
        let end = match &answer {
            Ok(_) => End::Answered { status: 200, at },
            Err(error) => End::Failed { reason: error.to_string(), at },
        };
        self.cluster.note_end(departed.number, b"", end);
        answer
    }

    async fn travel(
        &self,
        node: IpAddr,
        access: &Access,
        path: &str,
        messages: Vec<Bytes>,
        departed: &Departed,
    ) -> Result<Replies, TransportError> {
        if self.cluster.dies(departed) == Some(false) {
            return Err(TransportError::Connect { reason: DEAD.to_owned() });
        }
        pause(departed.there).await;
        match &departed.fault {
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::Hang { reached: false }) => return std::future::pending().await,
            Some(Fault::Status { code, message }) => {
                pause(departed.back).await;
                return Err(TransportError::Status(Status::new(*code, message.clone())));
            }
            _ => {}
        }
        let peer = self.handshake(node, access)?;
        let call = ApiCall { to: node, peer, path: path.to_owned(), metadata: Vec::new(), messages };
        let fault = departed.node_fault();
        let reply =
            self.cluster.nodes(|nodes, now| nodes.call_with(&call, fault, now)).ok_or_else(refused)?;
        let several = matches!(&reply, ApiReply::Done { messages, .. } if messages.len() > 1);
        let replies = self.receive(reply, departed).await?;
        match &departed.fault {
            Some(Fault::Hang { .. }) => std::future::pending().await,
            // A stream that stops in the middle and says that all is well.
            Some(Fault::ReplyShortened) if several => Ok(Box::pin(replies.take(1))),
            Some(Fault::ReplyLost | Fault::BodyCut | Fault::ReplyShortened) => {
                Err(lost("the connection was closed before the reply had come"))
            }
            Some(Fault::KillClient { .. }) => Err(lost(DEAD)),
            _ => Ok(replies),
        }
    }

    /// The certificate a node shows.
    fn certificate(&self, node: IpAddr) -> Result<String, TransportError> {
        match self.cluster.nodes(|nodes, _| nodes.listener(node)) {
            Some(Listener::Maintenance { certificate, .. } | Listener::Secure { certificate, .. }) => {
                Ok(certificate)
            }
            Some(Listener::Closed) | None => Err(refused()),
        }
    }

    /// What each side makes of the other's certificate.
    fn handshake(&self, node: IpAddr, access: &Access) -> Result<Peer, TransportError> {
        let now = self.cluster.world(|world| world.epoch() + world.clock());
        let certificate = self.certificate(node)?;
        match access {
            Access::Secure(identity) => {
                self.trust
                    .server(&certificate, identity.authorities(), node, now)
                    .map_err(|reason| TransportError::Certificate { reason })?;
                Ok(self.trust.client(identity.certificate(), identity.authorities(), now))
            }
            Access::Maintenance { fingerprints } => {
                let shown = key_digest(&certificate).map(Fingerprint::from_digest);
                if fingerprints.is_empty() || shown.is_some_and(|shown| fingerprints.contains(&shown)) {
                    return Ok(Peer::Nobody);
                }
                let reason = "the node's certificate has none of the fingerprints".to_owned();
                Err(TransportError::Certificate { reason })
            }
        }
    }

    async fn receive(&self, reply: ApiReply, departed: &Departed) -> Result<Replies, TransportError> {
        match reply {
            ApiReply::Refused => Err(refused()),
            ApiReply::NotTrusted { reason } => Err(TransportError::Refused { reason }),
            ApiReply::HungUp => Err(TransportError::Closed {
                reason: "the connection was closed before anything was said in it".to_owned(),
            }),
            ApiReply::Silence => std::future::pending().await,
            ApiReply::Lost { after } => {
                pause(after).await;
                Err(lost("the connection was closed before the reply had come"))
            }
            ApiReply::Done { after, messages, end } => {
                pause(after + departed.back).await;
                let end = failure(&end);
                if messages.is_empty() {
                    return end.map_or_else(|| Ok(Box::pin(stream::empty()) as Replies), Err);
                }
                for message in &messages {
                    self.cluster.note_bytes(departed.number, message);
                }
                Ok(Box::pin(stream::iter(messages.into_iter().map(Ok).chain(end.map(Err)))))
            }
            ApiReply::Stream(stream) => {
                pause(departed.back).await;
                let cluster = Arc::clone(&self.cluster);
                let number = departed.number;
                let followed = Followed { cluster, stream, number, ready: VecDeque::new(), end: None };
                Ok(Box::pin(stream::unfold(Some(followed), |followed| async move {
                    let mut followed = followed?;
                    let next = followed.next().await?;
                    let more = next.is_ok();
                    Some((next, more.then_some(followed)))
                })))
            }
        }
    }
}

/// A stream that somebody follows. It is closed when nobody does any more.
struct Followed {
    cluster: Arc<MemoryTransport>,
    stream: StreamId,
    number: usize,
    ready: VecDeque<Bytes>,
    end: Option<talmox_sim_talos::Status>,
}

impl Followed {
    async fn next(&mut self) -> Option<Result<Bytes, TransportError>> {
        loop {
            if self.cluster.client_died() {
                return Some(Err(lost(DEAD)));
            }
            if let Some(message) = self.ready.pop_front() {
                self.cluster.note_bytes(self.number, &message);
                return Some(Ok(message));
            }
            if let Some(end) = &self.end {
                return failure(end).map(Err);
            }
            let stirred = self.cluster.stirred(self.stream);
            let brought = self.cluster.peek_nodes(|nodes, now| nodes.poll(self.stream, now))?;
            let waits = brought.messages.is_empty() && brought.end.is_none();
            self.ready.extend(brought.messages);
            self.end = brought.end;
            if waits {
                stirred.await;
            }
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.cluster.nodes(|nodes, _| nodes.close(self.stream));
    }
}

impl Transport for TalosMemory {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Replies, TransportError>> {
        Box::pin(async move {
            let Some(deadline) = call.deadline else { return self.exchange(call).await };
            let ends = Instant::now() + deadline;
            let late = TransportError::Deadline { after: deadline };
            let replies = timeout_at(ends, self.exchange(call)).await.unwrap_or(Err(late.clone()))?;
            Ok(until(ends, late, replies))
        })
    }

    /// A look at the certificate is no call, and costs none.
    fn fingerprint(&self, node: IpAddr) -> BoxFuture<'_, Result<Option<Fingerprint>, TransportError>> {
        let shown = self.certificate(node).map(|shown| key_digest(&shown).map(Fingerprint::from_digest));
        Box::pin(std::future::ready(shown))
    }
}

/// The same until a moment; what has not come by then does not.
fn until(ends: Instant, late: TransportError, replies: Replies) -> Replies {
    Box::pin(stream::unfold(Some(replies), move |replies| {
        let late = late.clone();
        async move {
            let mut replies = replies?;
            match timeout_at(ends, replies.next()).await {
                Ok(reply) => Some((reply?, Some(replies))),
                Err(_) => Some((Err(late), None)),
            }
        }
    }))
}

/// The path, for the log; of resources also which kind of them is asked for, since that is most of what is asked, and
/// whether the machine is taken to be in maintenance mode.
fn shown_path(path: &str, message: &[u8], access: &Access) -> String {
    let kind = kind_of_resource(message).filter(|_| path.starts_with("/cosi.resource.State/"));
    let mode = matches!(access, Access::Maintenance { .. }).then_some("maintenance");
    let query: Vec<&str> = kind.into_iter().chain(mode).collect();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{}", query.join("&")) }
}

/// The second field of a message, if it and the one before it are texts of less than 128 bytes: requests for resources begin
/// with a namespace and a kind.
fn kind_of_resource(message: &[u8]) -> Option<&str> {
    let field = |number: u8, bytes: &[u8]| {
        let (head, rest) = bytes.split_first_chunk::<2>()?;
        let length = usize::from(head[1]);
        (head[0] == (number << 3) | 2 && length < 128 && length <= rest.len()).then_some(length)
    };
    let rest = message.get(2 + field(1, message)?..)?;
    std::str::from_utf8(rest.get(2..2 + field(2, rest)?)?).ok()
}

fn failure(end: &talmox_sim_talos::Status) -> Option<TransportError> {
    let code = Code::from_number(i32::from(end.code as u8));
    (code != Code::Ok).then(|| TransportError::Status(Status::new(code, end.message.clone())))
}

fn refused() -> TransportError {
    TransportError::Connect { reason: "Connection refused".to_owned() }
}

fn lost(reason: &str) -> TransportError {
    TransportError::Lost { reason: reason.to_owned() }
}
