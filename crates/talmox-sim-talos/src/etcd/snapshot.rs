//! Snapshots: a file of pages as etcd's store writes it, with its checksum behind.
//!
//! Only what a reader needs is written: two meta pages, an empty list of free pages, one leaf with the buckets etcd expects,
//! and one leaf for each bucket.

use sha2::{Digest as _, Sha256};

/// Bytes of a page.
const PAGE: usize = 4096;

const MAGIC: u32 = 0xed0c_daed;
const FORMAT: u32 = 2;

/// Kinds of pages.
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREE: u16 = 0x10;

/// An entry that is a bucket.
const BUCKET: u32 = 1;

const HEAD: usize = 16;
const ELEMENT: usize = 16;

struct Entry {
    flags: u32,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What a cluster holds, as far as a snapshot tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Keys and values in the order of their names.
    pub(crate) keys: Vec<(String, Vec<u8>)>,
    pub(crate) term: u64,
    pub(crate) index: u64,
}

/// The file, with the checksum.
pub(crate) fn write(contents: &Contents) -> Vec<u8> {
    let plain = |key: &[u8], value: &[u8]| Entry { flags: 0, key: key.to_vec(), value: value.to_vec() };
    let keys = contents.keys.iter().enumerate().map(|(at, (key, value))| {
        let revision = at as u64 + 2;
        let mut name = revision.to_be_bytes().to_vec();
        name.push(b'_');
        name.extend(0_u64.to_be_bytes());
        Entry { flags: 0, key: name, value: key_value(key, value, revision) }
    });
    let buckets: Vec<(&str, Vec<Entry>)> = vec![
        ("alarm", Vec::new()),
        ("auth", Vec::new()),
        ("authRoles", Vec::new()),
        ("authUsers", Vec::new()),
        ("cluster", vec![plain(b"clusterVersion", b"3.6.0")]),
        ("key", keys.collect()),
        ("lease", Vec::new()),
        ("members", Vec::new()),
        ("members_removed", Vec::new()),
        (
            "meta",
            vec![
                plain(b"confState", br#"{"voters":[1],"auto_leave":false}"#),
                plain(b"consistent_index", &contents.index.to_be_bytes()),
                plain(b"storageVersion", b"3.6.0"),
                plain(b"term", &contents.term.to_be_bytes()),
            ],
        ),
    ];
    pages(buckets)
}

/// Pages 0 and 1 are meta, 2 lists free pages, 3 is the root, the rest are buckets.
fn pages(buckets: Vec<(&str, Vec<Entry>)>) -> Vec<u8> {
    let mut leaves: Vec<u8> = Vec::new();
    let mut root: Vec<Entry> = Vec::new();
    let mut next = 4_u64;
    for (name, entries) in buckets {
        let leaf = leaf(next, &entries);
        let mut value = next.to_le_bytes().to_vec();
        value.extend(0_u64.to_le_bytes());
        root.push(Entry { flags: BUCKET, key: name.as_bytes().to_vec(), value });
        next += (leaf.len() / PAGE) as u64;
        leaves.extend(leaf);
    }
    let mut file = meta(0, 0, next);
    file.extend(meta(1, 1, next));
    let mut free = page_head(2, FREE, 0, 0);
    free.resize(PAGE, 0);
    file.extend(free);
    file.extend(leaf(3, &root));
    file.extend(leaves);
    let sum = Sha256::digest(&file);
    file.extend_from_slice(&sum);
    file
}

fn page_head(number: u64, kind: u16, count: u16, overflow: u32) -> Vec<u8> {
    let mut head = number.to_le_bytes().to_vec();
    head.extend(kind.to_le_bytes());
    head.extend(count.to_le_bytes());
    head.extend(overflow.to_le_bytes());
    head
}

fn meta(number: u64, transaction: u64, pages: u64) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [MAGIC, FORMAT, u32::try_from(PAGE).unwrap_or_default(), 0] {
        body.extend(word.to_le_bytes());
    }
    // The root's page and its counter, the page of the free list, how many pages there are, the transaction.
    for word in [3, 0, 2, pages, transaction] {
        body.extend(u64::to_le_bytes(word));
    }
    let sum = body.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut page = page_head(number, META, 0, 0);
    page.extend(body);
    page.extend(sum.to_le_bytes());
    page.resize(PAGE, 0);
    page
}

/// A leaf, over as many pages as it needs.
fn leaf(number: u64, entries: &[Entry]) -> Vec<u8> {
    let data: usize = entries.iter().map(|entry| entry.key.len() + entry.value.len()).sum();
    let size = (HEAD + ELEMENT * entries.len() + data).next_multiple_of(PAGE);
    let overflow = u32::try_from(size / PAGE - 1).unwrap_or_default();
    let mut page = page_head(number, LEAF, u16::try_from(entries.len()).unwrap_or(u16::MAX), overflow);
    let mut bodies: Vec<u8> = Vec::with_capacity(data);
    for (at, entry) in entries.iter().enumerate() {
        // Counted from the element itself.
        let position = ELEMENT * (entries.len() - at) + bodies.len();
        let words = [
            entry.flags,
            u32::try_from(position).unwrap_or_default(),
            u32::try_from(entry.key.len()).unwrap_or_default(),
            u32::try_from(entry.value.len()).unwrap_or_default(),
        ];
        for word in words {
            page.extend(word.to_le_bytes());
        }
        bodies.extend(&entry.key);
        bodies.extend(&entry.value);
    }
    page.extend(bodies);
    page.resize(size, 0);
    page
}

/// etcd's own message for a key: name, revisions, version, value.
fn key_value(key: &str, value: &[u8], revision: u64) -> Vec<u8> {
    let mut message = Vec::new();
    let mut bytes = |field: u8, bytes: &[u8]| {
        message.push(field << 3 | 2);
        varint(&mut message, bytes.len() as u64);
        message.extend_from_slice(bytes);
    };
    bytes(1, key.as_bytes());
    bytes(5, value);
    for (field, number) in [(2_u8, revision), (3, revision), (4, 1)] {
        message.push(field << 3);
        varint(&mut message, number);
    }
    message
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// The key under which the objects of Kubernetes lie, all in one value.
pub(crate) const STORE: &str = "/registry/talmox.dev/objects";

/// The value of a key, in a file written here.
pub(crate) fn value<'a>(file: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let at = file.windows(key.len()).position(|window| window == key.as_bytes())?;
    let rest = file.get(at + key.len()..)?;
    // The field of the value, its length, and the value.
    let (tag, rest) = rest.split_first()?;
    let (mut length, mut shift, mut used) = (0_usize, 0, 0);
    for byte in rest {
        length |= usize::from(byte & 0x7f) << shift;
        (shift, used) = (shift + 7, used + 1);
        if byte & 0x80 == 0 {
            break;
        }
    }
    (*tag == 5 << 3 | 2).then(|| rest.get(used..used + length))?
}

/// What etcd finds wrong with a file before it restores from it.
pub(crate) fn verify(file: &[u8], skip_hash_check: bool) -> Result<(), String> {
    if file.len() < 2 * PAGE {
        return Err(format!("file size too small {}", file.len()));
    }
    let (pages, sum) = file.split_at(file.len() - if file.len() % 512 == 32 { 32 } else { 0 });
    if !skip_hash_check {
        if sum.is_empty() {
            return Err("snapshot missing hash but --skip-hash-check=false".to_owned());
        }
        if Sha256::digest(pages).as_slice() != sum {
            return Err("expected sha256 of the snapshot differs".to_owned());
        }
    }
    let magic = pages.get(HEAD..HEAD + 4).map(|word| [word[0], word[1], word[2], word[3]]);
    if magic == Some(MAGIC.to_le_bytes()) { Ok(()) } else { Err("invalid database".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let keys = (0..40).map(|at| (format!("/registry/pods/{at:03}"), vec![7; 300])).collect();
        Contents { keys, term: 2, index: 10 }
    }

    #[test]
    fn a_snapshot_is_pages_and_a_checksum() {
        let file = write(&contents());
        assert_eq!(file.len() % 512, 32);
        assert_eq!(verify(&file, false), Ok(()));
        assert_eq!(verify(&write(&Contents::default()), false), Ok(()));
    }

    #[test]
    fn broken_ones_are_refused_as_etcd_does() {
        assert_eq!(verify(&[0; 5000], false), Err("file size too small 5000".to_owned()));
        let mut file = write(&contents());
        file[9000] ^= 1;
        assert!(verify(&file, false).is_err());
        assert_eq!(verify(&file, true), Ok(()));
        file.truncate(file.len() - 32);
        assert!(verify(&file, false).is_err());
        assert!(verify(&vec![0; 3 * PAGE], true).is_err());
    }

    #[test]
    fn every_bucket_is_found_from_the_root() {
        let file = write(&contents());
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        let root = 3 * PAGE;
        let count = usize::from(u16::from_le_bytes(file[root + 10..root + 12].try_into().unwrap()));
        let mut names = Vec::new();
        for at in 0..count {
            let element = root + HEAD + ELEMENT * at;
            let (position, length) = (word(element + 4), word(element + 8));
            let key = &file[element + position..element + position + length];
            let page = u64::from_le_bytes(file[element + position + length..][..8].try_into().unwrap());
            let target = usize::try_from(page).unwrap() * PAGE;
            assert_eq!(file[target..target + 8], page.to_le_bytes());
            names.push(String::from_utf8(key.to_vec()).unwrap());
        }
        assert_eq!(value(&file, "/registry/pods/007"), Some([7; 300].as_slice()));
        assert_eq!(value(&file, "/registry/none"), None);
        assert!(names.is_sorted() && names.contains(&"key".to_owned()) && names.len() == 10);
    }
}
