//! The payload: chunks that cannot be changed, swapped, left out or cut off.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

pub(super) const CHUNK: usize = 64 * 1024;
pub(super) const TAG: usize = 16;

/// Appends the chunks of a text. An empty text is one empty chunk.
pub(super) fn seal(key: &[u8; 32], plain: &[u8], out: &mut Vec<u8>) {
    let mut chunks = Chunks::new(key);
    let count = plain.len().div_ceil(CHUNK).max(1);
    out.reserve(plain.len() + count * TAG);
    for index in 0..count {
        let begin = index * CHUNK;
        let piece = &plain[begin..plain.len().min(begin + CHUNK)];
        let mut sealed = piece.to_vec();
        chunks.seal(&mut sealed, index + 1 == count);
        out.extend_from_slice(&sealed);
    }
}

/// The text of chunks, if they are all there and nobody changed them.
pub(super) fn open(key: &[u8; 32], chunks: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut opening = Chunks::new(key);
    let count = chunks.len().div_ceil(CHUNK + TAG).max(1);
    let mut plain = Zeroizing::new(Vec::with_capacity(chunks.len()));
    for index in 0..count {
        let begin = index * (CHUNK + TAG);
        let piece = &chunks[begin..chunks.len().min(begin + CHUNK + TAG)];
        let mut opened = Zeroizing::new(piece.to_vec());
        plain.extend_from_slice(opening.open(&mut opened[..], index + 1 == count)?);
    }
    Some(plain)
}

/// Seals or opens one chunk after the other.
pub(super) struct Chunks {
    key: LessSafeKey,
    index: usize,
}

impl Chunks {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { key: chunk_key(key), index: 0 }
    }

    pub(super) fn seal(&mut self, chunk: &mut Vec<u8>, last: bool) {
        self.key
            .seal_in_place_append_tag(nonce(self.index, last), Aad::empty(), chunk)
            .expect("a chunk is shorter than the cipher's limit");
        self.index += 1;
    }

    pub(super) fn open<'c>(&mut self, chunk: &'c mut [u8], last: bool) -> Option<&'c [u8]> {
        // Only an empty text ends with an empty chunk.
        if chunk.len() < TAG || (chunk.len() == TAG && (self.index > 0 || !last)) {
            return None;
        }
        let text = self.key.open_in_place(nonce(self.index, last), Aad::empty(), chunk).ok()?;
        self.index += 1;
        Some(text)
    }
}

fn chunk_key(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("32 bytes are a key of this cipher"))
}

/// Eleven bytes of counter and one that says whether this is the last chunk.
fn nonce(index: usize, last: bool) -> Nonce {
    let mut bytes = [0; 12];
    bytes[3..11].copy_from_slice(&(index as u64).to_be_bytes());
    bytes[11] = u8::from(last);
    Nonce::assume_unique_for_key(bytes)
}
