//! gRPC over HTTP/2 and TLS, straight to each node.

mod frame;
mod listening;
mod replies;
mod tls;

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{self, Connection, SendRequest};
use hyper::{Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::listening::{FirstWord, Listening};
use crate::{Access, BoxFuture, Call, Fingerprint, Identity, Messages, Replies, Transport, TransportError};

/// Where Talos listens.
const PORT: u16 = 50_000;
/// A node that is there answers the first packets at once; one that is not should not be waited for.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

type Outgoing = UnsyncBoxBody<Bytes, Infallible>;
type Driver = Connection<TokioIo<Listening<TlsStream<TcpStream>>>, Outgoing, TokioExecutor>;

/// Where nodes are really found; whoever is not in it, at its own address and Talos' port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialMap(pub HashMap<IpAddr, SocketAddr>);

impl DialMap {
    fn find(&self, node: IpAddr) -> SocketAddr {
        self.0.get(&node).copied().unwrap_or_else(|| SocketAddr::new(node, PORT))
    }
}

/// Calls over the network. Connections are kept, one for each node and way of approaching it.
#[derive(Debug, Default)]
pub struct GrpcTransport {
    map: DialMap,
    connections: Mutex<HashMap<(IpAddr, Approach), SendRequest<Outgoing>>>,
    /// What nodes last showed whoever asked for their fingerprint.
    shown: Mutex<HashMap<IpAddr, Fingerprint>>,
    /// What moves the bytes of each connection; they end with the transport.
    drivers: Mutex<JoinSet<()>>,
}

/// An access, as far as connections must not be mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Approach {
    Secure(SameIdentity),
    Maintenance(Vec<crate::Fingerprint>),
}

/// An identity that is compared by where it is in memory. The connection's key keeps it there: if it were freed, another identity
/// could get its address, and with that its connection.
#[derive(Clone)]
struct SameIdentity(Arc<Identity>);

impl PartialEq for SameIdentity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SameIdentity {}

impl Hash for SameIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl fmt::Debug for SameIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SameIdentity")
    }
}

impl From<&Access> for Approach {
    fn from(access: &Access) -> Self {
        match access {
            Access::Secure(identity) => Self::Secure(SameIdentity(Arc::clone(identity))),
            Access::Maintenance { fingerprints } => Self::Maintenance(fingerprints.clone()),
        }
    }
}

impl GrpcTransport {
    pub fn new(map: DialMap) -> Self {
        Self { map, ..Self::default() }
    }

    /// A connection that lives, or a new one.
    async fn connection(
        &self,
        node: IpAddr,
        access: &Access,
    ) -> Result<SendRequest<Outgoing>, TransportError> {
        let key = (node, Approach::from(access));
        if let Some(sender) = self.living(&key) {
            return Ok(sender);
        }
        let (sender, _) = self.connect(node, access).await?;
        self.keep(key, &sender);
        Ok(sender)
    }

    /// A connection that was made before and is still there.
    fn living(&self, key: &(IpAddr, Approach)) -> Option<SendRequest<Outgoing>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|_, sender| !sender.is_closed());
        connections.get(key).cloned()
    }

    fn keep(&self, key: (IpAddr, Approach), sender: &SendRequest<Outgoing>) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).insert(key, sender.clone());
    }

    /// A new connection, and the fingerprint of whoever is at its other end.
    async fn connect(
        &self,
        node: IpAddr,
        access: &Access,
    ) -> Result<(SendRequest<Outgoing>, Option<Fingerprint>), TransportError> {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, async {
            let (sender, driver, first, shown) = connect(self.map.find(node), node, access).await?;
            self.drive(driver);
            first.heard().await.map(|()| (sender, shown))
        });
        connecting.await.unwrap_or_else(|_| {
            Err(TransportError::Connect { reason: format!("{node} does not answer on port {PORT}") })
        })
    }

    /// What a node shows. The connection that told is kept as one to exactly that certificate, so that calls which are held to it
    /// go over the same.
    async fn look_at_certificate(&self, node: IpAddr) -> Result<Option<Fingerprint>, TransportError> {
        let held_to = |shown| (node, Approach::Maintenance(vec![shown]));
        let before = self.shown.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied();
        if before.is_some_and(|shown| self.living(&held_to(shown)).is_some()) {
            return Ok(before);
        }
        let (sender, shown) = self.connect(node, &Access::maintenance()).await?;
        if let Some(shown) = shown {
            self.keep(held_to(shown), &sender);
            self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(node, shown);
        }
        Ok(shown)
    }

    /// Whoever waits for a reply hears of a connection's end, so nobody else has to.
    fn drive(&self, driver: Driver) {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        while drivers.try_join_next().is_some() {}
        drivers.spawn(async move { drop(driver.await) });
    }

    async fn exchange(&self, call: Call) -> Result<Replies, TransportError> {
        let Call { node, access, path, messages, deadline } = call;
        let mut sender = self.connection(node, &access).await?;
        sender.ready().await.map_err(|error| TransportError::Connect { reason: words(&error) })?;
        let request = request(node, path, messages, deadline)?;
        let response = sender.try_send_request(request).await.map_err(|mut error| {
            let reason = words(error.error());
            match error.take_message() {
                Some(_) => TransportError::Connect { reason },
                None => TransportError::Lost { reason },
            }
        })?;
        replies::of(response)
    }
}

impl Transport for GrpcTransport {
    fn call(&self, call: Call) -> BoxFuture<'_, Result<Replies, TransportError>> {
        Box::pin(async move {
            let Some(deadline) = call.deadline else { return self.exchange(call).await };
            let ends = tokio::time::Instant::now() + deadline;
            let late = TransportError::Deadline { after: deadline };
            let replies = tokio::time::timeout_at(ends, self.exchange(call)).await;
            Ok(replies::until(ends, late.clone(), replies.unwrap_or(Err(late))?))
        })
    }

    fn fingerprint(&self, node: IpAddr) -> BoxFuture<'_, Result<Option<Fingerprint>, TransportError>> {
        Box::pin(self.look_at_certificate(node))
    }
}

async fn connect(
    at: SocketAddr,
    node: IpAddr,
    access: &Access,
) -> Result<(SendRequest<Outgoing>, Driver, FirstWord, Option<Fingerprint>), TransportError> {
    let config = tls::configuration(access)?;
    let refused = |error: std::io::Error| TransportError::Connect { reason: error.to_string() };
    let stream = TcpStream::connect(at).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::from(node), stream).await.map_err(|error| {
        let reason = error.to_string();
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => TransportError::Certificate { reason },
            // Before TLS 1.3 a client's certificate is judged here.
            Some(rustls::Error::AlertReceived(alert)) if listening::is_about_certificates(*alert) => {
                listening::refusal(*alert)
            }
            _ => TransportError::Connect { reason },
        }
    })?;
    let shown = tls::shown(stream.get_ref().1);
    // No pings: the server takes more than one in five minutes for an attack and hangs up.
    let (stream, first) = Listening::new(stream);
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    match handshake {
        Ok((sender, driver)) => Ok((sender, driver, first, shown)),
        // The stream is gone by now, and with it went whatever was heard in it.
        Err(error) => {
            first.heard().await?;
            Err(TransportError::Connect { reason: words(&error) })
        }
    }
}

fn request(
    node: IpAddr,
    path: &str,
    messages: Messages,
    deadline: Option<Duration>,
) -> Result<Request<Outgoing>, TransportError> {
    let body: Outgoing = match messages {
        Messages::One(message) => Full::new(frame::framed(&message)).boxed_unsync(),
        Messages::Many(messages) => {
            let frames = messages.map(|message| Ok(Frame::data(frame::framed(&message))));
            StreamBody::new(frames).boxed_unsync()
        }
    };
    let authority = SocketAddr::new(node, PORT);
    let mut builder = Request::post(format!("https://{authority}{path}"))
        .version(Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("talmox/", env!("CARGO_PKG_VERSION")));
    if let Some(deadline) = deadline {
        // At most eight digits.
        let milliseconds = deadline.as_millis().min(99_999_999);
        builder = builder.header("grpc-timeout", format!("{milliseconds}m"));
    }
    builder.body(body).map_err(|error| TransportError::Connect { reason: error.to_string() })
}

/// What a person understands of hyper's errors.
fn words(error: &hyper::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    let mut last = None;
    for cause in causes {
        if is_end(cause) {
            return "the connection was closed before the reply had come".to_owned();
        }
        last = Some(cause);
    }
    last.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Whether the connection just ended. A node that goes down says no farewell in TLS either, which rustls makes much of.
fn is_end(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let of_http = error.downcast_ref::<h2::Error>().and_then(h2::Error::get_io);
    let kind = error.downcast_ref::<std::io::Error>().or(of_http).map(std::io::Error::kind);
    kind.is_some_and(|kind| [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&kind))
}
