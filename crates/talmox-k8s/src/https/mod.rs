//! HTTP/1 over TLS.

mod query;
mod tls;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::Request as HttpRequest;
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use crate::{BoxFuture, Identity, Request, Response, Server, Time, Transport, TransportError};

/// A server that is there answers the first packets at once; one that is not should not be waited for.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The server closes a connection that was idle for ninety seconds; a request must not meet that on its way.
const LONGEST_IDLE: Duration = Duration::from_mins(1);
/// Far above the pods of a large cluster, and a stop for a server that never ends.
const LARGEST_REPLY: usize = 256 << 20;

type Sender = SendRequest<Full<Bytes>>;
type Driver = Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// Where servers are really found, by host; whoever is not in it, where it says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialMap(pub HashMap<String, SocketAddr>);

/// Requests over the network. Connections are kept for the next request to the same server by the same identity.
#[derive(Debug, Default)]
pub struct HttpsTransport {
    map: DialMap,
    /// None: [`LARGEST_REPLY`].
    largest_reply: Option<usize>,
    idle: Mutex<Vec<Idle>>,
    /// What moves the bytes of each connection; they end with the transport.
    drivers: Mutex<JoinSet<()>>,
}

/// A connection nobody uses now.
#[derive(Debug)]
struct Idle {
    server: Server,
    identity: Arc<Identity>,
    sender: Sender,
    since: Instant,
}

/// A failed exchange.
enum Failure {
    /// The connection was dead before anything was written.
    NeverSent,
    Sent(TransportError),
}

impl HttpsTransport {
    pub fn new(map: DialMap) -> Self {
        Self { map, ..Self::default() }
    }

    /// Takes no reply that is larger.
    #[must_use]
    pub fn with_largest_reply(self, bytes: usize) -> Self {
        Self { largest_reply: Some(bytes), ..self }
    }

    async fn exchange(&self, request: &Request) -> Result<Response, TransportError> {
        // A kept connection may be dead already; then nothing was sent and the next one, in the end a new one, is tried.
        while let Some(sender) = self.kept(request) {
            match self.over(sender, request).await {
                Ok(response) => return Ok(response),
                Err(Failure::Sent(error)) => return Err(error),
                Err(Failure::NeverSent) => {}
            }
        }
        let sender = self.connect(request).await?;
        self.over(sender, request).await.map_err(|failure| match failure {
            Failure::Sent(error) => error,
            Failure::NeverSent => {
                TransportError::NotReached { reason: "the connection was closed at once".to_owned() }
            }
        })
    }

    fn kept(&self, request: &Request) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|one| !one.sender.is_closed() && one.since.elapsed() < LONGEST_IDLE);
        let fits = |one: &Idle| one.server == request.server && Arc::ptr_eq(&one.identity, &request.identity);
        let index = idle.iter().position(fits)?;
        Some(idle.swap_remove(index).sender)
    }

    fn keep(&self, request: &Request, sender: Sender) {
        let (server, identity) = (request.server.clone(), Arc::clone(&request.identity));
        let one = Idle { server, identity, sender, since: Instant::now() };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(one);
    }

    /// One request and its whole reply; after it the connection is kept.
    async fn over(&self, mut sender: Sender, request: &Request) -> Result<Response, Failure> {
        let http = prepare(request).map_err(Failure::Sent)?;
        sender.ready().await.map_err(|_| Failure::NeverSent)?;
        let response =
            sender.try_send_request(http).await.map_err(|mut error| match error.take_message() {
                Some(_) => Failure::NeverSent,
                None => Failure::Sent(tls::broken(error.error())),
            })?;
        let status = response.status().as_u16();
        let date = response.headers().get("date").and_then(|date| Time::parse_http(date.to_str().ok()?));
        let most = self.largest_reply.unwrap_or(LARGEST_REPLY);
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| {
            let reason = if error.is::<LengthLimitError>() {
                format!("the reply is larger than {} MiB", most >> 20)
            } else {
                "the reply was cut off".to_owned()
            };
            Failure::Sent(TransportError::Lost { reason })
        })?;
        self.keep(request, sender);
        Ok(Response { status, date, body: body.to_bytes() })
    }

    async fn connect(&self, request: &Request) -> Result<Sender, TransportError> {
        let server = &request.server;
        let connecting = async {
            let stream = match self.map.0.get(&server.host) {
                Some(address) => TcpStream::connect(address).await,
                None => TcpStream::connect((server.host.as_str(), server.port)).await,
            };
            let refused = |error: std::io::Error| TransportError::NotReached { reason: error.to_string() };
            let stream = stream.map_err(refused)?;
            stream.set_nodelay(true).map_err(refused)?;
            let stream = tls::handshake(server, &request.identity, stream).await?;
            let opened = http1::handshake(TokioIo::new(stream)).await;
            opened.map_err(|error| TransportError::NotReached { reason: error.to_string() })
        };
        let (sender, driver) =
            tokio::time::timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_| {
                Err(TransportError::NotReached { reason: format!("{server} does not answer") })
            })?;
        self.drive(driver);
        Ok(sender)
    }

    /// Whoever waits for a reply hears of a connection's end, so nobody else has to.
    fn drive(&self, driver: Driver) {
        let mut drivers = self.drivers.lock().unwrap_or_else(PoisonError::into_inner);
        while drivers.try_join_next().is_some() {}
        drivers.spawn(async move { drop(driver.await) });
    }
}

impl Transport for HttpsTransport {
    fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, TransportError>> {
        Box::pin(async move {
            let after = request.deadline;
            let answer = tokio::time::timeout(after, self.exchange(&request)).await;
            answer.unwrap_or(Err(TransportError::Deadline { after }))
        })
    }
}

fn prepare(request: &Request) -> Result<HttpRequest<Full<Bytes>>, TransportError> {
    let mut builder = HttpRequest::builder()
        .method(request.method.name())
        .uri(query::target(&request.path, &request.query))
        .header("host", request.server.to_string())
        .header("accept", "application/json")
        .header("user-agent", concat!("talmox/", env!("CARGO_PKG_VERSION")));
    if let Some(kind) = request.content_type {
        builder = builder.header("content-type", kind);
    }
    let unsendable = |_| TransportError::NotReached { reason: "the request cannot be sent".to_owned() };
    builder.body(Full::new(request.body.clone())).map_err(unsendable)
}
