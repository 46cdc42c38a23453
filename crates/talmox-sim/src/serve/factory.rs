//! The simulated Image Factory's door: plain HTTP on loopback, as a mirror in a place without internet would be.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{ServeError, Shared, stopped};
use crate::factory::{FactoryReply, FactoryRequest};

/// A schematic is a page of text at most.
const LARGEST_BODY: usize = 1 << 20;
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
/// A connection that says nothing for so long is closed.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

type Body = BoxBody<Bytes, std::io::Error>;

/// Serves until the server stops. Everything it starts ends with it.
pub(super) async fn run(
    listener: TcpListener,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) -> Result<(), ServeError> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(stream, Arc::clone(&shared)));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    connections.shutdown().await;
    Ok(())
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(LONGEST_IDLE);
    // Whatever ended it, the client is gone or was told.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
    let (head, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, LARGEST_BODY)
        .collect()
        .await
        .map_err(|_| std::io::ErrorKind::InvalidData)?;
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let request = FactoryRequest {
        method: head.method.to_string(),
        authority: host.to_owned(),
        target: head.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        body: body.to_bytes().to_vec(),
    };
    // A dead factory breaks the connection without a word.
    let reply = shared.ask_factory(&request).await.ok_or(std::io::ErrorKind::ConnectionAborted)?;
    respond(reply)
}

fn respond(reply: FactoryReply) -> Result<Response<Body>, std::io::Error> {
    let FactoryReply { status, content_type, location, body, length, delay: _, cut } = reply;
    let cut = cut.and_then(|cut| usize::try_from(cut).ok()).filter(|cut| *cut < body.len());
    let bytes = Bytes::from(body);
    let body = match cut {
        Some(cut) => cut_off(bytes.slice(..cut)),
        None => http_body_util::Full::new(bytes).map_err(|never: Infallible| match never {}).boxed(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).map_err(std::io::Error::other)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(location) = location {
        headers.insert(LOCATION, HeaderValue::from_str(&location).map_err(std::io::Error::other)?);
    }
    Ok(response)
}

/// A body that breaks after these bytes.
fn cut_off(bytes: Bytes) -> Body {
    struct Broken {
        bytes: Option<Bytes>,
        flushed: bool,
    }
    impl http_body::Body for Broken {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            use std::task::Poll;
            if let Some(bytes) = self.bytes.take().filter(|bytes| !bytes.is_empty()) {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.flushed {
                return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionAborted.into())));
            }
            // Waits once, so that what there is goes out first.
            self.flushed = true;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    BoxBody::new(Broken { bytes: Some(bytes), flushed: false })
}
