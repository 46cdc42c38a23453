//! The body of a reply: whole, or cut off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::connection::Turn;

pub(super) struct Outgoing {
    bytes: Option<Bytes>,
    /// What the head of the reply announces.
    announced: u64,
    end: End,
    /// Ends with the body: only then is the connection idle.
    _turn: Turn,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// Waits once, so that what there is goes out, and then breaks.
    Flushing,
    Broken,
}

impl Outgoing {
    pub(super) fn whole(bytes: Bytes, turn: Turn) -> Self {
        Self { announced: bytes.len() as u64, bytes: Some(bytes), end: End::Whole, _turn: turn }
    }

    /// Announces all of it, and breaks after so many bytes.
    pub(super) fn cut(bytes: &Bytes, after: usize, turn: Turn) -> Self {
        // A body that was sent whole would not be cut.
        let kept = bytes.slice(..after.min(bytes.len().saturating_sub(1)));
        Self { announced: bytes.len() as u64, bytes: Some(kept), end: End::Flushing, _turn: turn }
    }
}

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(bytes) = self.bytes.take().filter(|bytes| !bytes.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.end {
            End::Whole => Poll::Ready(None),
            End::Flushing => {
                self.end = End::Broken;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            End::Broken => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.end == End::Whole && self.bytes.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.announced)
    }
}
