//! One connection: its requests one after another, and when it ends.
//!
//! ```text
//! Idle ──request──▶ Busy ──reply written──▶ Idle ──5 s──▶ closed
//!                                            └──told to──▶ closed
//! ```
//! A request that stops in the middle is idleness too: 5 s for its head, and for each piece of its body.
//! A reply of 400 and above, and the hundredth, say that they are the last. A fault breaks the connection instead.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{HOST, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::{Shared, exchange, stopped};

/// The real server closes a connection that lay idle for so long.
pub(super) const LONGEST_IDLE: Duration = Duration::from_secs(5);
/// The real server's handshake must be done in this time.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How many requests one connection is good for.
pub(super) const MOST_REQUESTS: u32 = 100;
/// Header lines that are read: more than the real server takes, so that a request of too many is known as one.
const READ_HEADERS: usize = 1024;
/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Busy,
    Idle { close: bool },
}

/// What a connection's requests share.
pub(super) struct Talk {
    pub(super) shared: Arc<Shared>,
    pub(super) host: String,
    requests: AtomicU32,
    activity: watch::Sender<Activity>,
}

/// A request's time on the connection; the end of it is idleness.
pub(super) struct Turn {
    activity: watch::Sender<Activity>,
    close_after: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.activity.send_replace(Activity::Idle { close: self.close_after });
    }
}

impl Turn {
    /// The connection is closed as soon as this reply is out, without a word before.
    pub(super) fn close_after(&mut self) {
        self.close_after = true;
    }
}

impl Talk {
    /// Begins a request; says whether it is the last one.
    pub(super) fn begin(&self) -> (Turn, bool) {
        self.activity.send_replace(Activity::Busy);
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        (Turn { activity: self.activity.clone(), close_after: false }, number >= MOST_REQUESTS)
    }
}

/// Serves a connection until it ends, or until the server stops and what is under way is answered.
pub(super) async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    shared: Arc<Shared>,
    host: String,
    stop: watch::Receiver<bool>,
) {
    let _opened = shared.opened();
    // Small replies wait for nothing; collecting them in the kernel only costs time.
    let _ = stream.set_nodelay(true);
    let mut first = [0];
    let Ok(Ok(1)) = tokio::time::timeout(HANDSHAKE, stream.peek(&mut first)).await else { return };
    if first[0] != TLS_HANDSHAKE {
        return redirect(stream).await;
    }
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await else { return };
    let (activity, seen) = watch::channel(Activity::Idle { close: false });
    let talk = Arc::new(Talk { shared, host, requests: AtomicU32::new(0), activity });
    let service = service_fn(move |request| exchange::answer(Arc::clone(&talk), request));
    let mut builder = http1::Builder::new();
    builder.max_headers(READ_HEADERS).auto_date_header(true);
    builder.timer(TokioTimer::new()).header_read_timeout(LONGEST_IDLE);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    drive(connection, seen, stop).await;
}

async fn drive<S>(
    connection: http1::Connection<TokioIo<tokio_rustls::server::TlsStream<TcpStream>>, S>,
    mut seen: watch::Receiver<Activity>,
    mut stop: watch::Receiver<bool>,
) where
    S: hyper::service::HttpService<Incoming, ResBody = super::outgoing::Outgoing>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        // Whatever ended it, the client is gone or was told.
        _ = connection.as_mut() => true,
        () = idle(&mut seen) => false,
        () = stopped(&mut stop) => false,
    };
    if !ended {
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            _ = connection => {}
            () = overdue(&mut seen) => {}
        }
    }
}

/// Waits until the connection lay idle for too long, or is to be closed.
async fn idle(seen: &mut watch::Receiver<Activity>) {
    loop {
        let activity = *seen.borrow_and_update();
        let changed = match activity {
            Activity::Idle { close: true } => return,
            Activity::Idle { close: false } => tokio::time::timeout(LONGEST_IDLE, seen.changed()).await,
            Activity::Busy => Ok(seen.changed().await),
        };
        if !matches!(changed, Ok(Ok(()))) {
            return;
        }
    }
}

/// Waits until nothing was under way for too long, told to close or not: what came in is no whole request.
async fn overdue(seen: &mut watch::Receiver<Activity>) {
    loop {
        let activity = *seen.borrow_and_update();
        let changed = match activity {
            Activity::Idle { .. } => tokio::time::timeout(LONGEST_IDLE, seen.changed()).await,
            Activity::Busy => Ok(seen.changed().await),
        };
        if !matches!(changed, Ok(Ok(()))) {
            return;
        }
    }
}

/// Plain HTTP is sent where TLS is spoken.
async fn redirect(stream: TcpStream) {
    let service = service_fn(|request: Request<Incoming>| async move {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let reading = [Method::GET, Method::HEAD].contains(request.method());
        let status = if reading { StatusCode::MOVED_PERMANENTLY } else { StatusCode::PERMANENT_REDIRECT };
        let target = format!("https://{host}{}", request.uri());
        Response::builder()
            .status(status)
            .header(LOCATION, target)
            .body(Full::new(Bytes::new()))
            .map_err(io::Error::other)
    });
    let connection = http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(HANDSHAKE, connection).await;
}
