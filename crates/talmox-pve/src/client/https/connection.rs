//! One connection, driven by whoever uses it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::ext::ReasonPhrase;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use super::body::Outgoing;
use crate::client::{HttpResponse, TransportError};

/// Proxmox closes a connection that was idle for five seconds; a request must not meet that on its way.
const LONGEST_IDLE: Duration = Duration::from_secs(4);
/// Proxmox answers a hundred requests on one connection and closes it.
const MOST_REQUESTS: u32 = 100;
/// Far above any list of a large cluster, and a stop for a host that never ends.
const LARGEST_REPLY: usize = 32 << 20;

type Driver = http1::Connection<TokioIo<TlsStream<TcpStream>>, Outgoing>;

pub(super) struct Connection {
    sender: SendRequest<Outgoing>,
    /// What moves the bytes; none once the connection has ended.
    driver: Option<Pin<Box<Driver>>>,
    requests: u32,
    idle_since: Instant,
}

/// A failed exchange.
pub(super) enum Failure {
    /// The connection was dead before anything was written.
    NeverSent(String),
    Sent(TransportError),
}

impl Connection {
    pub(super) async fn over(stream: TlsStream<TcpStream>) -> Result<Self, TransportError> {
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| TransportError::Connect { reason: error.to_string() })?;
        Ok(Self { sender, driver: Some(Box::pin(driver)), requests: 0, idle_since: Instant::now() })
    }

    /// Whether the host is still sure to take another request.
    pub(super) fn is_fresh(&self) -> bool {
        self.idle_since.elapsed() < LONGEST_IDLE
    }

    pub(super) fn is_reusable(&self) -> bool {
        self.requests < MOST_REQUESTS && self.driver.is_some() && !self.sender.is_closed()
    }

    /// One request and its whole reply. Dropping the future drops the connection with it.
    pub(super) async fn exchange(
        mut self,
        request: Request<Outgoing>,
    ) -> Result<(HttpResponse, Self), Failure> {
        let Self { sender, driver, requests, .. } = &mut self;
        if *requests > 0 {
            // Lets the runtime look at the socket, so that a close which came while it lay idle is seen now and not
            // after the request was written into nothing.
            tokio::task::yield_now().await;
        }
        drive(driver, sender.ready()).await.map_err(|error| Failure::NeverSent(words(&error)))?;
        let sending = sender.try_send_request(request);
        let response = drive(driver, sending).await.map_err(|mut error| match error.take_message() {
            Some(_) => Failure::NeverSent(words(error.error())),
            None => Failure::Sent(lost(&words(error.error()))),
        })?;
        let status = response.status();
        let reason = reason_phrase(&response);
        let body = drive(driver, Limited::new(response.into_body(), LARGEST_REPLY).collect()).await;
        let body = body.map_err(|error| Failure::Sent(lost(cut_off(&*error))))?;
        self.requests += 1;
        self.idle_since = Instant::now();
        Ok((HttpResponse { status: status.as_u16(), reason, body: body.to_bytes() }, self))
    }
}

/// Polls the connection along with what happens on it. When it ends, the work hears of it through hyper.
async fn drive<F: Future>(driver: &mut Option<Pin<Box<Driver>>>, work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    poll_fn(|context| {
        if let Some(running) = driver
            && running.as_mut().poll(context).is_ready()
        {
            *driver = None;
        }
        work.as_mut().poll(context)
    })
    .await
}

/// The reason phrase as it was sent: hyper keeps it apart when it is not the usual one.
fn reason_phrase(response: &Response<Incoming>) -> String {
    match response.extensions().get::<ReasonPhrase>() {
        Some(phrase) => String::from_utf8_lossy(phrase.as_bytes()).into_owned(),
        None => response.status().canonical_reason().unwrap_or_default().to_owned(),
    }
}

fn cut_off(error: &(dyn std::error::Error + 'static)) -> &'static str {
    if error.is::<LengthLimitError>() { "the reply is larger than 32 MiB" } else { "the reply was cut off" }
}

fn lost(reason: &str) -> TransportError {
    TransportError::Lost { reason: reason.to_owned() }
}

const CLOSED: &str = "the connection was closed before a reply came";

/// Whether the connection just ended. A host that dies says no farewell in TLS either, which rustls makes much of.
fn is_end(error: &(dyn std::error::Error + 'static)) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind.is_some_and(|kind| [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof].contains(&kind))
}

/// What a person understands of hyper's errors.
fn words(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        return CLOSED.to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) if is_end(source) => CLOSED.to_owned(),
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}
