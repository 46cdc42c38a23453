//! Replies, put together.

use bytes::Bytes;
use talmox_proto::{Message, Timestamp};

use crate::nodes::Nodes;
use crate::wire::{ApiReply, Status};

impl Nodes {
    /// One message, at once.
    pub(crate) fn reply(&self, message: &impl Message) -> ApiReply {
        reply_after(self.timing.call, message)
    }

    /// All messages of a stream that ends by itself.
    pub(crate) fn reply_all<M: Message>(&self, messages: impl IntoIterator<Item = M>) -> ApiReply {
        let messages = messages.into_iter().map(|message| Bytes::from(message.encode_to_vec())).collect();
        ApiReply::Done { after: self.timing.call, messages, end: Status::ok() }
    }

    /// A point of the clock as the time of day.
    pub(crate) fn timestamp(&self, at: u64) -> Timestamp {
        let millis = self.epoch + at;
        Timestamp {
            seconds: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
            nanos: i32::try_from(millis % 1000 * 1_000_000).unwrap_or_default(),
        }
    }
}

/// One message, after so long.
pub(crate) fn reply_after(after: u64, message: &impl Message) -> ApiReply {
    ApiReply::Done { after, messages: vec![Bytes::from(message.encode_to_vec())], end: Status::ok() }
}

/// The beginning of the calendar, which stands for never.
pub(crate) fn never() -> Timestamp {
    Timestamp { seconds: -62_135_596_800, nanos: 0 }
}
