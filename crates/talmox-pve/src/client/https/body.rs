//! Requests as hyper wants them.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::Request;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use tokio::fs::File;
use tokio::io::{AsyncRead as _, ReadBuf};

use crate::client::{Body, Endpoint, FileContent, HttpRequest, Method, TransportError};

/// How much of a file is read at a time.
const CHUNK: usize = 64 * 1024;

/// A request that can be made several times, should a connection turn out to be dead.
pub(super) struct Prepared {
    head: hyper::http::request::Parts,
    content: Content,
}

enum Content {
    Memory(Vec<Bytes>),
    File { head: Bytes, path: PathBuf, length: u64, tail: Bytes },
}

/// Checks everything that can be wrong with a request before there is a connection.
pub(super) async fn prepare(endpoint: &Endpoint, request: &HttpRequest) -> Result<Prepared, TransportError> {
    let content = match &request.body {
        Body::Empty => Content::Memory(Vec::new()),
        Body::Form(bytes) => Content::Memory(vec![bytes.clone()]),
        Body::Multipart { head, file: FileContent::Memory(bytes), tail, .. } => {
            Content::Memory(vec![head.clone(), bytes.clone(), tail.clone()])
        }
        Body::Multipart { head, file: FileContent::File { path, length }, tail, .. } => {
            check_file(path, *length).await?;
            Content::File { head: head.clone(), path: path.clone(), length: *length, tail: tail.clone() }
        }
    };
    Ok(Prepared { head: head(endpoint, request)?, content })
}

/// A file that is not as long as was said would leave the host waiting for the rest.
async fn check_file(path: &PathBuf, length: u64) -> Result<(), TransportError> {
    let unsendable = |reason: String| TransportError::Unsendable { reason };
    let found = tokio::fs::metadata(path)
        .await
        .map_err(|error| unsendable(format!("{}: {error}", path.display())))?;
    if found.len() == length {
        return Ok(());
    }
    Err(unsendable(format!("{} has {} bytes, expected {length}", path.display(), found.len())))
}

fn head(endpoint: &Endpoint, request: &HttpRequest) -> Result<hyper::http::request::Parts, TransportError> {
    // A header's value is never part of the reason: it is a secret.
    let unsendable = |what: &str| TransportError::Unsendable { reason: format!("{what} cannot be sent") };
    let method = match request.method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
        Method::Put => hyper::Method::PUT,
        Method::Delete => hyper::Method::DELETE,
    };
    let built =
        Request::builder().method(method).uri(&request.path).header(HOST, endpoint.authority()).body(());
    let (mut head, ()) = built.map_err(|_| unsendable("the path"))?.into_parts();
    for (name, value) in &request.headers {
        let mut value = HeaderValue::from_str(value.expose_secret()).map_err(|_| unsendable(name))?;
        value.set_sensitive(true);
        head.headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unsendable(name))?, value);
    }
    if let Some(kind) = request.body.content_type() {
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_str(&kind).map_err(|_| unsendable("the body"))?);
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.length()));
    }
    Ok(head)
}

impl Prepared {
    pub(super) async fn request(&self) -> Result<Request<Outgoing>, TransportError> {
        let body = match &self.content {
            Content::Memory(parts) => {
                Outgoing { parts: parts.iter().rev().cloned().collect(), file: None, left: 0 }
            }
            Content::File { head, path, length, tail } => {
                let file = File::open(path).await.map_err(|error| TransportError::Unsendable {
                    reason: format!("{}: {error}", path.display()),
                })?;
                Outgoing { parts: vec![tail.clone(), head.clone()], file: Some(file), left: *length }
            }
        };
        Ok(Request::from_parts(self.head.clone(), body))
    }
}

/// A body of known length: parts from memory, and a file before the last of them.
pub(super) struct Outgoing {
    /// What is in memory, last part first.
    parts: Vec<Bytes>,
    file: Option<File>,
    /// Bytes of the file still to come.
    left: u64,
}

impl Outgoing {
    fn poll_file(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(file) = self.file.as_mut() else { return Poll::Ready(None) };
        let wanted = usize::try_from(self.left).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = vec![0; wanted];
        let mut buffer = ReadBuf::new(&mut chunk);
        match Pin::new(file).poll_read(context, &mut buffer) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Ready(Ok(())) => {
                let read = buffer.filled().len();
                if read == 0 {
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
                chunk.truncate(read);
                self.left -= read as u64;
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
            }
        }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left > 0 && self.parts.len() == 1 {
            return self.poll_file(context);
        }
        Poll::Ready(self.parts.pop().map(|part| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left + self.parts.iter().map(|part| part.len() as u64).sum::<u64>())
    }
}
