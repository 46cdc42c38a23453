//! Messages in frames: a byte that says whether it is compressed, four bytes of length, the message.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

const HEAD: usize = 5;
/// What Talos allows in both directions.
pub(super) const LARGEST_MESSAGE: usize = 32 << 20;

pub(super) fn framed(message: &Bytes) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// Takes pieces of a body as they come, and gives whole messages.
#[derive(Debug, Default)]
pub(super) struct Unframer {
    waiting: BytesMut,
}

/// Bytes that are no frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFrame {
    #[error("the reply is compressed, and that was not asked for")]
    Compressed,
    #[error("a message of the reply is larger than 32 MiB")]
    TooLarge,
    #[error("the reply was cut off")]
    Cut,
}

impl Unframer {
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.waiting.extend_from_slice(piece);
    }

    /// The next whole message; none until more has come.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, BadFrame> {
        let Some((compressed, length)) = self.head() else { return Ok(None) };
        if compressed {
            return Err(BadFrame::Compressed);
        }
        if length > LARGEST_MESSAGE {
            return Err(BadFrame::TooLarge);
        }
        if self.waiting.len() < HEAD + length {
            return Ok(None);
        }
        self.waiting.advance(HEAD);
        Ok(Some(self.waiting.split_to(length).freeze()))
    }

    fn head(&self) -> Option<(bool, usize)> {
        let [flag, length @ ..] = self.waiting.first_chunk::<HEAD>()?;
        Some((*flag != 0, u32::from_be_bytes(*length) as usize))
    }

    /// Whether nothing is left over.
    pub(super) fn end(&self) -> Result<(), BadFrame> {
        if self.waiting.is_empty() { Ok(()) } else { Err(BadFrame::Cut) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_any_cut() {
        let messages = [Bytes::from_static(b""), Bytes::from_static(b"a"), Bytes::from(vec![7; 300])];
        let all: Vec<u8> = messages.iter().flat_map(|message| framed(message).to_vec()).collect();
        for size in 1..all.len() {
            let (mut unframer, mut found) = (Unframer::default(), Vec::new());
            for piece in all.chunks(size) {
                unframer.push(piece);
                while let Some(message) = unframer.next().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, messages, "in pieces of {size}");
            assert_eq!(unframer.end(), Ok(()));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let next = |bytes: &[u8]| {
            let mut unframer = Unframer::default();
            unframer.push(bytes);
            unframer.next().and_then(|message| unframer.end().map(|()| message))
        };
        assert_eq!(next(&[1, 0, 0, 0, 0]), Err(BadFrame::Compressed));
        assert_eq!(next(&[0, 0xff, 0, 0, 0]), Err(BadFrame::TooLarge));
        assert_eq!(next(&[0, 0, 0, 0, 2, 1]), Err(BadFrame::Cut));
        assert_eq!(next(&[0, 0]), Err(BadFrame::Cut));
    }
}
