//! gRPC: frames of messages over HTTP/2, and how a call ended in the trailers.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;

use super::Shared;
use super::door::{Caller, GRACE};
use crate::{ApiCall, ApiReply, Code, Peer, Status, StreamId};

/// What Talos allows in both directions.
const LARGEST_MESSAGE: usize = 32 << 20;
const HEAD: usize = 5;
/// Streams at a time on one connection.
const STREAMS: u32 = 1000;

type Body = UnsyncBoxBody<Bytes, io::Error>;

pub(super) async fn serve(mut caller: Caller, peer: Peer, stream: TlsStream<TcpStream>) {
    let (shared, address) = (Arc::clone(&caller.shared), caller.address);
    let service = service_fn(move |request| answer(Arc::clone(&shared), address, peer.clone(), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(STREAMS);
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
    let messages = match messages(body).await {
        Ok(messages) => messages,
        Err(status) => return head_only(&status),
    };
    let call = ApiCall {
        to: address,
        peer,
        path: head.uri.path().to_owned(),
        metadata: metadata(&head.headers),
        messages,
    };
    let reply = if call.only_looks() {
        shared.handle.look(|_, now| shared.beside.nodes().call(&call, now))
    } else {
        shared.handle.change(|_, now| shared.beside.nodes().call(&call, now))
    };
    shared.beside.stir();
    respond(shared, reply).await
}

async fn respond(shared: Arc<Shared>, reply: ApiReply) -> io::Result<Response<Body>> {
    let wait = |milliseconds| tokio::time::sleep(shared.handle.wall(milliseconds));
    match reply {
        ApiReply::Refused | ApiReply::NotTrusted { .. } | ApiReply::HungUp => {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
        ApiReply::Silence => std::future::pending().await,
        ApiReply::Lost { after } => {
            wait(after).await;
            Err(io::ErrorKind::ConnectionReset.into())
        }
        ApiReply::Done { after, messages, end } => {
            wait(after).await;
            if messages.is_empty() && end.code != Code::Ok {
                return head_only(&end);
            }
            let frames = messages.into_iter().map(|message| Ok(Frame::data(framed(&message))));
            let trailers = Frame::trailers(trailers(&end)?);
            let frames: Vec<_> = frames.chain([Ok(trailers)]).collect();
            Ok(head(StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync()))
        }
        ApiReply::Stream(stream) => {
            let changes = shared.beside.changes();
            let followed =
                Followed { shared, stream, changes, ready: VecDeque::new(), end: None, told: false };
            let frames = futures_util::stream::unfold(followed, |mut followed| async move {
                followed.next().await.map(|frame| (frame, followed))
            });
            Ok(head(StreamBody::new(frames).boxed_unsync()))
        }
    }
}

/// A stream that somebody follows. It is closed when nobody does any more.
struct Followed {
    shared: Arc<Shared>,
    stream: StreamId,
    changes: watch::Receiver<u64>,
    ready: VecDeque<Bytes>,
    end: Option<Status>,
    told: bool,
}

impl Followed {
    async fn next(&mut self) -> Option<io::Result<Frame<Bytes>>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(Ok(Frame::data(framed(&message))));
            }
            if self.told {
                return None;
            }
            if let Some(end) = &self.end {
                self.told = true;
                return Some(trailers(end).map(Frame::trailers));
            }
            self.changes.mark_unchanged();
            let (brought, next) = self.shared.handle.look(|_, now| {
                let mut nodes = self.shared.beside.nodes();
                (nodes.poll(self.stream, now), nodes.next_message(self.stream))
            });
            let waits = brought.messages.is_empty() && brought.end.is_none();
            self.ready.extend(brought.messages);
            self.end = brought.end;
            if waits {
                self.wait(next).await;
            }
        }
    }

    /// Until a message is due, or something happened that may bring one.
    async fn wait(&mut self, next: Option<u64>) {
        let due = next.and_then(|at| self.shared.handle.until(at));
        let due = async {
            match due {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.changes.changed() => {}
            () = due => {}
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.shared.beside.nodes().close(self.stream);
        self.shared.beside.stir();
    }
}

fn head(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A call that failed before anything was answered.
fn head_only(status: &Status) -> io::Result<Response<Body>> {
    let body = Empty::new().map_err(|never: std::convert::Infallible| match never {});
    let mut response = head(body.boxed_unsync());
    response.headers_mut().extend(trailers(status)?);
    Ok(response)
}

fn trailers(status: &Status) -> io::Result<HeaderMap> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(status.code as u16));
    if !status.message.is_empty() {
        let message = HeaderValue::from_str(&encoded(&status.message)).map_err(io::Error::other)?;
        trailers.insert("grpc-message", message);
    }
    Ok(trailers)
}

/// Words as a header may have them.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// What the caller says beside the messages, without what belongs to the wire.
fn metadata(headers: &HeaderMap) -> Vec<(String, String)> {
    let of_wire =
        ["content-type", "te", "user-agent", "grpc-accept-encoding", "grpc-encoding", "grpc-timeout"];
    let own = headers.iter().filter(|(name, _)| !of_wire.contains(&name.as_str()));
    own.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn framed(message: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// All messages of a request.
async fn messages(mut body: Incoming) -> Result<Vec<Bytes>, Status> {
    let broken = |words: &str| Status::new(Code::Internal, words);
    let (mut waiting, mut messages) = (BytesMut::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Status::new(Code::Canceled, "the request broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        waiting.extend_from_slice(&data);
        while let Some([flag, length @ ..]) = waiting.first_chunk::<HEAD>().copied() {
            let length = u32::from_be_bytes(length) as usize;
            if length > LARGEST_MESSAGE {
                let words =
                    format!("grpc: received message larger than max ({length} vs. {LARGEST_MESSAGE})");
                return Err(Status::new(Code::ResourceExhausted, words));
            }
            if waiting.len() < HEAD + length {
                break;
            }
            waiting.advance(HEAD);
            let message = waiting.split_to(length).freeze();
            messages.push(if flag == 0 {
                message
            } else {
                unpacked(&message).ok_or_else(|| broken("grpc: bad gzip"))?
            });
        }
    }
    if waiting.is_empty() { Ok(messages) } else { Err(broken("unexpected EOF")) }
}

fn unpacked(message: &Bytes) -> Option<Bytes> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(LARGEST_MESSAGE).unwrap_or(u64::MAX);
    flate2::read::GzDecoder::new(message.as_ref()).take(limit).read_to_end(&mut bytes).ok()?;
    Some(Bytes::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_travel_as_headers_may() {
        assert_eq!(encoded("a b%\n\u{e9}"), "a b%25%0A%C3%A9");
    }
}
