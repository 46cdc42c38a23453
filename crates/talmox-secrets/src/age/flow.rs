//! Files that are larger than what anybody wants in memory, chunk by chunk.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

use super::header::Header;
use super::stream::{CHUNK, Chunks, TAG};
use super::{DecryptError, Identity, Recipient, begin, file_key, wrap};
use crate::random::Random;

/// The first line of a file that is no text.
const MAGIC: &[u8] = b"age-encryption.org/v1\n";
/// More than any header takes.
const MAX_HEADER: u64 = 1 << 20;

/// Encrypts what is written to it. Without [`Sealer::finish`] the file is cut off, and everybody who reads it sees that.
pub struct Sealer<W> {
    out: W,
    chunks: Chunks,
    /// What is not sealed yet: whether a chunk is the last is known only when more comes.
    open: Zeroizing<Vec<u8>>,
}

impl<W: Write> Sealer<W> {
    pub fn new(mut out: W, recipients: &[Recipient], random: &mut dyn Random) -> io::Result<Self> {
        let (head, key) = begin(recipients, random).map_err(io::Error::other)?;
        out.write_all(&head)?;
        let open = Zeroizing::new(Vec::with_capacity(CHUNK + TAG));
        Ok(Self { out, chunks: Chunks::new(&key), open })
    }

    fn seal(&mut self, last: bool) -> io::Result<()> {
        self.chunks.seal(&mut self.open, last);
        self.out.write_all(&self.open)?;
        self.open.clear();
        Ok(())
    }

    /// Ends the file; gives what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.seal(true)?;
        Ok(self.out)
    }
}

impl<W: Write> Write for Sealer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.open.len() == CHUNK && !bytes.is_empty() {
            self.seal(false)?;
        }
        let room = CHUNK - self.open.len();
        let taken = bytes.len().min(room);
        self.open.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Decrypts what is read from it. Text of a chunk comes out only if nobody has changed it; one that was, or a file that is cut
/// off, is an error.
pub struct Opener<R> {
    from: R,
    chunks: Chunks,
    /// The chunk after the one that is being read; empty at the end.
    next: Vec<u8>,
    text: Zeroizing<Vec<u8>>,
    at: usize,
    ended: bool,
}

impl<R: Read> Opener<R> {
    /// Whether a file that begins so is one of age, not armored.
    pub fn begins(first: &[u8]) -> bool {
        first.starts_with(MAGIC)
    }

    /// The error has a [`DecryptError`] inside where it is not about reading.
    pub fn new(mut from: R, identities: &[Identity]) -> io::Result<Self> {
        let head = head(&mut from)?;
        let key = Header::parse(&head).and_then(|(header, _)| file_key(&header, identities));
        let key = key.map_err(io::Error::other)?;
        let mut nonce = [0; 16];
        from.read_exact(&mut nonce)?;
        let mut opener = Self {
            from,
            chunks: Chunks::new(&wrap::payload_key(&key, &nonce)),
            next: Vec::new(),
            text: Zeroizing::default(),
            at: 0,
            ended: false,
        };
        opener.next = opener.piece()?;
        Ok(opener)
    }

    /// As much of a chunk as there is.
    fn piece(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = Vec::with_capacity(CHUNK + TAG);
        self.from.by_ref().take((CHUNK + TAG) as u64).read_to_end(&mut piece)?;
        Ok(piece)
    }

    fn advance(&mut self) -> io::Result<()> {
        let after = self.piece()?;
        let last = after.is_empty();
        let mut chunk = Zeroizing::new(std::mem::replace(&mut self.next, after));
        let text = self.chunks.open(&mut chunk[..], last).map(<[u8]>::len);
        let changed = || io::Error::new(io::ErrorKind::InvalidData, DecryptError::Payload);
        chunk.truncate(text.ok_or_else(changed)?);
        (self.text, self.at, self.ended) = (chunk, 0, last);
        Ok(())
    }
}

impl<R: Read> Read for Opener<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.text.len() {
            if self.ended {
                return Ok(0);
            }
            self.advance()?;
        }
        let taken = into.len().min(self.text.len() - self.at);
        into[..taken].copy_from_slice(&self.text[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

/// The header alone: what follows it is no text.
fn head(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut line = 0;
    let mut from = from.take(MAX_HEADER);
    let mut byte = [0];
    // One at a time: what follows the header is not ours to take.
    while from.read(&mut byte)? == 1 {
        head.push(byte[0]);
        if head.ends_with(b"\n") {
            if head[line..].starts_with(b"---") {
                break;
            }
            line = head.len();
        }
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::SystemRandom;
    use crate::age::{decrypt, encrypt};

    fn sealed(plain: &[u8], recipient: &Recipient, piece: usize) -> Vec<u8> {
        let mut sealer = Sealer::new(Vec::new(), std::slice::from_ref(recipient), &mut SystemRandom).unwrap();
        plain.chunks(piece).for_each(|piece| sealer.write_all(piece).unwrap());
        sealer.finish().unwrap()
    }

    fn opened(file: &[u8], identity: &Identity) -> io::Result<Vec<u8>> {
        let mut opener = Opener::new(file, std::slice::from_ref(identity))?;
        let mut plain = Vec::new();
        opener.read_to_end(&mut plain)?;
        Ok(plain)
    }

    #[test]
    fn chunk_by_chunk_is_the_same_file() {
        let identity = Identity::generate(&mut SystemRandom).unwrap();
        let recipient = identity.recipient();
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 77] {
            let plain: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let file = sealed(&plain, recipient, 1000);
            assert!(Opener::<&[u8]>::begins(&file));
            let whole = decrypt(&file, std::slice::from_ref(&identity)).unwrap();
            assert_eq!(whole.expose_secret(), plain, "{length}");
            assert_eq!(opened(&file, &identity).unwrap(), plain, "{length}");
            let other = encrypt(&plain, std::slice::from_ref(recipient), &mut SystemRandom).unwrap();
            assert_eq!(opened(&other, &identity).unwrap(), plain, "{length}");
        }
    }

    #[test]
    fn what_was_changed_or_cut_off_is_noticed() {
        let identity = Identity::generate(&mut SystemRandom).unwrap();
        let file = sealed(&vec![7; 2 * CHUNK + 9], identity.recipient(), 5000);
        for cut in [file.len() - 1, file.len() - 25, file.len() - 25 - CHUNK - TAG, 150, 20] {
            assert!(opened(&file[..cut], &identity).is_err(), "{cut}");
        }
        let mut changed = file.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(opened(&changed, &identity).is_err());
        let other = Identity::generate(&mut SystemRandom).unwrap();
        let error = opened(&file, &other).unwrap_err();
        assert!(error.to_string().contains("none of the keys"), "{error}");
    }
}
