//! Requests as hyper wants them.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

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
    body: Body,
}

/// Checks everything that can be wrong with a request before there is a connection.
pub(super) async fn prepare(endpoint: &Endpoint, request: &HttpRequest) -> Result<Prepared, TransportError> {
    if let Body::Multipart { file: FileContent::File { path, length }, .. } = &request.body {
        check_file(path, *length).await?;
    }
    Ok(Prepared { head: head(endpoint, request)?, body: request.body.clone() })
}

/// A file that is not as long as was said would leave the host waiting for the rest.
async fn check_file(path: &Path, length: u64) -> Result<(), TransportError> {
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
        let body = match &self.body {
            Body::Empty => Outgoing::default(),
            Body::Form(bytes) => Outgoing { head: Some(bytes.clone()), ..Outgoing::default() },
            Body::Multipart { head, file, tail, sent, .. } => {
                // A second connection begins at the beginning.
                sent.store(0, Ordering::Relaxed);
                Outgoing {
                    head: Some(head.clone()),
                    left: file.length(),
                    file: Some(open(file).await?),
                    tail: Some(tail.clone()),
                    sent: Arc::clone(sent),
                }
            }
        };
        Ok(Request::from_parts(self.head.clone(), body))
    }
}

async fn open(content: &FileContent) -> Result<Source, TransportError> {
    match content {
        FileContent::Memory(bytes) => Ok(Source::Memory(bytes.clone())),
        FileContent::File { path, .. } => File::open(path)
            .await
            .map(Source::File)
            .map_err(|error| TransportError::Unsendable { reason: format!("{}: {error}", path.display()) }),
    }
}

/// A body of known length: a text, and of an upload the file and what follows it.
#[derive(Default)]
pub(super) struct Outgoing {
    head: Option<Bytes>,
    file: Option<Source>,
    /// Bytes of the file still to come.
    left: u64,
    tail: Option<Bytes>,
    sent: Arc<AtomicU64>,
}

enum Source {
    Memory(Bytes),
    File(File),
}

impl Source {
    /// Some of the next bytes, at most so many.
    fn poll_chunk(&mut self, most: usize, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        match self {
            Self::Memory(bytes) => Poll::Ready(Ok(bytes.split_to(most.min(bytes.len())))),
            Self::File(file) => {
                let mut chunk = vec![0; most];
                let mut buffer = ReadBuf::new(&mut chunk);
                ready!(Pin::new(file).poll_read(context, &mut buffer))?;
                let read = buffer.filled().len();
                chunk.truncate(read);
                Poll::Ready(Ok(Bytes::from(chunk)))
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
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        let most = usize::try_from(self.left).unwrap_or(CHUNK).min(CHUNK);
        if let Some(file) = self.file.as_mut().filter(|_| most > 0) {
            let chunk = ready!(file.poll_chunk(most, context))?;
            if chunk.is_empty() {
                return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
            }
            self.left -= chunk.len() as u64;
            self.sent.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        Poll::Ready(self.tail.take().map(|tail| Ok(Frame::data(tail))))
    }

    fn is_end_stream(&self) -> bool {
        self.head.is_none() && self.left == 0 && self.tail.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let length = |part: &Option<Bytes>| part.as_ref().map_or(0, |bytes| bytes.len() as u64);
        SizeHint::with_exact(length(&self.head) + self.left + length(&self.tail))
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;

    use super::*;

    fn upload(content: Bytes, sent: &Arc<AtomicU64>) -> HttpRequest {
        HttpRequest {
            method: Method::Post,
            path: "/upload".to_owned(),
            headers: Vec::new(),
            body: Body::Multipart {
                boundary: "B".to_owned(),
                head: Bytes::from_static(b"<"),
                file: FileContent::Memory(content),
                tail: Bytes::from_static(b">"),
                sent: Arc::clone(sent),
            },
        }
    }

    #[tokio::test]
    async fn an_upload_is_counted_and_can_be_made_twice() {
        let sent = Arc::new(AtomicU64::new(0));
        let endpoint = Endpoint::parse("pve1").unwrap();
        let content = Bytes::from(vec![b'x'; 3 * CHUNK + 1]);
        let prepared = prepare(&endpoint, &upload(content.clone(), &sent)).await.unwrap();
        for _ in 0..2 {
            let body = prepared.request().await.unwrap().into_body();
            assert_eq!(body.size_hint().exact(), Some(content.len() as u64 + 2));
            let written = body.collect().await.unwrap().to_bytes();
            assert_eq!(written, [b"<", content.as_ref(), b">"].concat());
            assert_eq!(sent.load(Ordering::Relaxed), content.len() as u64);
        }
    }

    #[tokio::test]
    async fn an_empty_file_is_still_an_upload() {
        let endpoint = Endpoint::parse("pve1").unwrap();
        let prepared = prepare(&endpoint, &upload(Bytes::new(), &Arc::default())).await.unwrap();
        let body = prepared.request().await.unwrap().into_body();
        assert_eq!(body.collect().await.unwrap().to_bytes(), "<>");
    }
}
