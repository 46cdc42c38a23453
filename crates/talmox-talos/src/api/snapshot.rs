//! Whether a snapshot of etcd is one, and whole.
//!
//! ```text
//!  page 0: meta │ page 1: meta │ … pages of the database … │ SHA-256 of all of them
//! ```

use sha2::{Digest as _, Sha256};

/// Checks a snapshot while it comes: that it begins as a database does, that it has as many pages as it says, and the SHA-256
/// of all of them at the end. What is in them is etcd's own business.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    hash: Sha256,
    /// The last bytes, which may be the sum.
    tail: Vec<u8>,
    /// The first bytes, which have both meta pages.
    head: Vec<u8>,
    length: u64,
}

/// A snapshot that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSnapshot {
    #[error("it is cut off: {length} bytes are no whole pages and a checksum")]
    Cut { length: u64 },
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it is no database of etcd: it does not begin as one")]
    NoDatabase,
    #[error("it is cut off: it says that it has {pages} pages, and {length} bytes are fewer")]
    TooShort { pages: u64, length: u64 },
}

impl Snapshot {
    const SUM: usize = 32;
    /// Two pages of the largest size there is.
    const HEAD: usize = 128 << 10;

    pub fn push(&mut self, piece: &[u8]) {
        self.length += piece.len() as u64;
        let room = Self::HEAD - self.head.len();
        self.head.extend_from_slice(&piece[..piece.len().min(room)]);
        self.tail.extend_from_slice(piece);
        if let Some(sure) = self.tail.len().checked_sub(Self::SUM) {
            self.hash.update(&self.tail[..sure]);
            self.tail.drain(..sure);
        }
    }

    /// How many bytes it had.
    pub fn finish(self) -> Result<u64, NoSnapshot> {
        let Self { hash, tail, head, length } = self;
        let sum = Self::SUM as u64;
        if length % 512 != sum || length <= sum {
            return Err(NoSnapshot::Cut { length });
        }
        if hash.finalize().as_slice() != tail {
            return Err(NoSnapshot::Checksum);
        }
        let meta = newest(&head).ok_or(NoSnapshot::NoDatabase)?;
        if meta.pages.saturating_mul(meta.page_size) > length - sum {
            return Err(NoSnapshot::TooShort { pages: meta.pages, length });
        }
        Ok(length)
    }
}

/// What a meta page says.
struct Meta {
    page_size: u64,
    pages: u64,
    transaction: u64,
}

/// The meta page that counts: the second is where the first says that pages end.
fn newest(head: &[u8]) -> Option<Meta> {
    let first = meta(head);
    // With a broken first page the size is not known: it is a power of two.
    let sizes = || (9..=16).map(|power| 1_u64 << power);
    let second =
        |size: u64| meta(head.get(usize::try_from(size).ok()?..)?).filter(|one| one.page_size == size);
    let second = match &first {
        Some(first) => second(first.page_size),
        None => sizes().find_map(second),
    };
    [first, second].into_iter().flatten().max_by_key(|meta| meta.transaction)
}

/// A meta page, if its own checksum (FNV-1a) is right.
fn meta(page: &[u8]) -> Option<Meta> {
    const HEAD: usize = 16;
    const BODY: usize = 56;
    const MAGIC: u32 = 0xed0c_daed;
    const FORMAT: u32 = 2;
    let body = page.get(HEAD..HEAD + BODY)?;
    let word = |at: usize| Some(u32::from_le_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let long = |bytes: &[u8]| Some(u64::from_le_bytes(bytes.try_into().ok()?));
    let sum = long(page.get(HEAD + BODY..HEAD + BODY + 8)?)?;
    let own = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let is_meta = word(0)? == MAGIC && word(4)? == FORMAT && own == sum;
    is_meta.then_some(())?;
    Some(Meta {
        page_size: u64::from(word(8)?),
        pages: long(body.get(40..48)?)?,
        transaction: long(body.get(48..56)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    fn meta_page(pages: u64, transaction: u64) -> Vec<u8> {
        let mut page = vec![0; 16];
        for word in [0xed0c_daed_u32, 2, 4096, 0] {
            page.extend(word.to_le_bytes());
        }
        for word in [3, 0, 2, pages, transaction] {
            page.extend(u64::to_le_bytes(word));
        }
        let sum = page[16..].iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        page.extend(sum.to_le_bytes());
        page.resize(PAGE, 0);
        page
    }

    fn with_sum(mut data: Vec<u8>) -> Vec<u8> {
        let sum = Sha256::digest(&data);
        data.extend_from_slice(&sum);
        data
    }

    fn database(pages: u64) -> Vec<u8> {
        let mut data = [meta_page(pages, 7), meta_page(pages, 6)].concat();
        data.resize(usize::try_from(pages).unwrap() * PAGE, 3);
        data
    }

    fn judged(data: &[u8], size: usize) -> Result<u64, NoSnapshot> {
        let mut snapshot = Snapshot::default();
        data.chunks(size).for_each(|piece| snapshot.push(piece));
        snapshot.finish()
    }

    #[test]
    fn a_whole_one_is_known_in_any_pieces() {
        let data = with_sum(database(40));
        for size in [1, 7, 31, 32, 33, 512, 5000, 1 << 20] {
            assert_eq!(judged(&data, size), Ok(data.len() as u64));
        }
        // One broken meta page is what the other is for.
        let mut data = database(4);
        data[20] ^= 1;
        assert!(judged(&with_sum(data), 512).is_ok());
    }

    #[test]
    fn a_broken_one_is_known() {
        let mut data = with_sum(database(4));
        assert_eq!(judged(&data[..900], 64), Err(NoSnapshot::Cut { length: 900 }));
        assert_eq!(judged(&data[..512 + 32], 64), Err(NoSnapshot::Checksum));
        assert_eq!(judged(&[], 64), Err(NoSnapshot::Cut { length: 0 }));
        data[100] ^= 1;
        assert_eq!(judged(&data, 64), Err(NoSnapshot::Checksum));
    }

    #[test]
    fn a_sum_alone_makes_no_database() {
        assert_eq!(judged(&with_sum(vec![5; 3 * PAGE]), 512), Err(NoSnapshot::NoDatabase));
        let mut cut = database(9);
        cut.truncate(5 * PAGE);
        let length = (5 * PAGE + 32) as u64;
        assert_eq!(judged(&with_sum(cut), 512), Err(NoSnapshot::TooShort { pages: 9, length }));
    }
}
