//! What comes back: messages, and at the end how it went.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{HeaderMap, Response, StatusCode};
use tokio::time::{Instant, timeout_at};

use super::frame::Unframer;
use crate::{Code, Replies, Status, TransportError};

/// The replies of a response. One without messages may carry its status in the head.
pub(super) fn of(response: Response<Incoming>) -> Result<Replies, TransportError> {
    let (head, body) = response.into_parts();
    if let Some(status) = status(&head.headers) {
        let went_well = status.code == Code::Ok;
        return if went_well { Ok(Box::pin(stream::empty())) } else { Err(TransportError::Status(status)) };
    }
    if head.status != StatusCode::OK {
        return Err(TransportError::Status(by_http(head.status)));
    }
    Ok(Box::pin(messages(body)))
}

/// The same until a moment; what has not come by then does not.
pub(super) fn until(ends: Instant, late: TransportError, replies: Replies) -> Replies {
    let next = move |state: Option<Replies>| {
        let late = late.clone();
        async move {
            let mut replies = state?;
            match timeout_at(ends, replies.next()).await {
                Ok(reply) => Some((reply?, Some(replies))),
                Err(_) => Some((Err(late), None)),
            }
        }
    };
    Box::pin(stream::unfold(Some(replies), next))
}

struct Reading {
    body: Incoming,
    unframer: Unframer,
}

fn messages(body: Incoming) -> impl Stream<Item = Result<Bytes, TransportError>> + Send {
    let reading = Reading { body, unframer: Unframer::default() };
    stream::unfold(Some(reading), |state| async move {
        let mut reading = state?;
        match reading.next().await {
            Ok(Some(message)) => Some((Ok(message), Some(reading))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Bytes>, TransportError> {
        let lost = |reason: String| TransportError::Lost { reason };
        loop {
            let framed = self.unframer.next().map_err(|error| lost(error.to_string()))?;
            if framed.is_some() {
                return Ok(framed);
            }
            let Some(frame) = self.body.frame().await else {
                return Err(lost("the reply ended without a status".to_owned()));
            };
            let frame = frame.map_err(|error| lost(super::words(&error)))?;
            if let Some(data) = frame.data_ref() {
                self.unframer.push(data);
            } else if let Ok(trailers) = frame.into_trailers() {
                return self.end(&trailers);
            }
        }
    }

    fn end(&self, trailers: &HeaderMap) -> Result<Option<Bytes>, TransportError> {
        let missing = || Status::new(Code::Unknown, "the reply ended without a status");
        let status = status(trailers).unwrap_or_else(missing);
        if status.code != Code::Ok {
            return Err(TransportError::Status(status));
        }
        self.unframer.end().map_err(|error| TransportError::Lost { reason: error.to_string() })?;
        Ok(None)
    }
}

fn status(headers: &HeaderMap) -> Option<Status> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().unwrap_or(-1);
    let message = headers.get("grpc-message").map(|value| decoded(value.as_bytes())).unwrap_or_default();
    Some(Status::new(Code::from_number(code), message))
}

/// Messages are percent-encoded; what is not is taken as it is.
fn decoded(bytes: &[u8]) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let pair = (digit(bytes.get(at + 1)), digit(bytes.get(at + 2)));
        if let (b'%', (Some(high), Some(low))) = (byte, pair) {
            out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            at += 3;
        } else {
            out.push(*byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Somebody in between answered, who speaks no gRPC.
fn by_http(status: StatusCode) -> Status {
    let code = match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Status::new(code, format!("HTTP {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded() {
        assert_eq!(decoded(b"a%20b%0Ac%e2%80%a6"), "a b\nc\u{2026}");
        assert_eq!(decoded(b"100%, %zz %4"), "100%, %zz %4");
    }
}
