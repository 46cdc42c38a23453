//! The Kubernetes API: JSON over HTTP/1.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, DATE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::door::{Caller, GRACE};
use crate::kube::http_date;
use crate::{KubeCall, KubeReply, KubeWatch, Peer};

/// More than etcd takes of one object.
const LARGEST_BODY: usize = 8 << 20;
/// A connection that says nothing for so long is closed.
const LONGEST_IDLE: Duration = Duration::from_mins(2);

type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) async fn serve(mut caller: Caller, peer: Peer, stream: TlsStream<TcpStream>) {
    let (shared, address) = (Arc::clone(&caller.shared), caller.address);
    let service = service_fn(move |request| answer(Arc::clone(&shared), address, peer.clone(), request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(LONGEST_IDLE);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Whatever ended it, the client is gone or was told.
        _ = connection.as_mut() => return,
        () = caller.closed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = tokio::time::timeout(GRACE, connection).await;
}

async fn answer(
    shared: Arc<Shared>,
    address: IpAddr,
    peer: Peer,
    request: Request<Incoming>,
) -> io::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_BODY).collect().await.map_err(|_| io::ErrorKind::InvalidData)?;
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let call = KubeCall {
        to: address,
        peer,
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: query(head.uri.query().unwrap_or_default()),
        content_type: content_type.map(str::to_owned),
        body: body.to_bytes(),
    };
    let reply = if call.method == "GET" {
        shared.handle.look(|_, now| shared.beside.nodes().kube(&call, now))
    } else {
        shared.handle.change(|_, now| shared.beside.nodes().kube(&call, now))
    };
    shared.beside.stir();
    // The server's clock is the simulated one, as in what it writes; hyper would name the time of this computer.
    let date = {
        let nodes = shared.beside.nodes();
        http_date(nodes.epoch + nodes.clock())
    };
    let wait = |milliseconds| tokio::time::sleep(shared.handle.wall(milliseconds));
    match reply {
        KubeReply::Refused | KubeReply::NotTrusted { .. } => Err(io::ErrorKind::ConnectionRefused.into()),
        KubeReply::Silence => std::future::pending().await,
        KubeReply::Lost { after } => {
            wait(after).await;
            Err(io::ErrorKind::ConnectionReset.into())
        }
        KubeReply::Answer { after, status, body } => {
            wait(after).await;
            let kind = if body.starts_with(b"{") { "application/json" } else { "text/plain; charset=utf-8" };
            let body = Full::new(body).map_err(|never: std::convert::Infallible| match never {});
            let mut response = response(body.boxed_unsync(), kind);
            *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
            response.headers_mut().insert(DATE, HeaderValue::try_from(date).map_err(io::Error::other)?);
            Ok(response)
        }
        KubeReply::Watch(watch) => {
            let frames =
                futures_util::stream::unfold(Followed::new(shared, *watch), |mut followed| async move {
                    followed.next().await.map(|line| (Ok(Frame::data(line)), followed))
                });
            Ok(response(StreamBody::new(frames).boxed_unsync(), "application/json"))
        }
    }
}

fn response(body: Body, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A watch that somebody follows, until they go or its time is up.
struct Followed {
    shared: Arc<Shared>,
    watch: KubeWatch,
    changes: watch::Receiver<u64>,
    ready: VecDeque<Bytes>,
    end: Option<Instant>,
}

impl Followed {
    fn new(shared: Arc<Shared>, watch: KubeWatch) -> Self {
        // The caller counts by its own clock, whatever the simulated one does.
        let end = watch.seconds().map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let changes = shared.beside.changes();
        Self { shared, watch, changes, ready: VecDeque::new(), end }
    }

    /// The next event; none when the time is up.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            self.changes.mark_unchanged();
            let (news, next) = self
                .shared
                .handle
                .look(|_, now| self.shared.beside.nodes().follow_kube(&mut self.watch, now));
            self.ready.extend(news);
            if self.ready.is_empty() {
                let due = next.and_then(|at| self.shared.handle.until(at)).map(|wait| Instant::now() + wait);
                tokio::select! {
                    changed = self.changes.changed() => changed.ok()?,
                    () = moment(due) => {}
                    () = moment(self.end) => return None,
                }
            }
        }
    }
}

/// Waits until then; without end if there is no such moment.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Pairs of a query, decoded.
fn query(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 2;
            }
            (b'+', _, _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let pairs = query("labelSelector=a%3Db%2Cc&fieldManager=x+y&force");
        let expected = [("labelSelector", "a=b,c"), ("fieldManager", "x y"), ("force", "")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
