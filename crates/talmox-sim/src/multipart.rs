//! Uploads: the fields before the file, and what can be known of the file while it passes by.
//!
//! The real server reads an upload while it comes and is strict about it: fields first, each part's first header its
//! disposition, the file last. Bytes of the file are counted and digested; the first of them tell what it is.

use std::collections::BTreeMap;

use sha2::Digest as _;

use crate::contents::LOOKED_AT;
use crate::files::{FileFacts, hex};
use crate::wire::Body;

/// More than the fields of any upload, and a stop for a part that never ends.
const LARGEST_FIELDS: usize = 64 * 1024;

/// An upload that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse the upload: fields first, each with its disposition, and the file last")]
pub struct BadUpload;

impl Body {
    /// An upload whose bytes are all there. Of the file only what it is stays.
    pub fn upload(content_type: &str, bytes: &[u8]) -> Result<Self, BadUpload> {
        let mut reader = Reader::new(boundary(content_type).ok_or(BadUpload)?);
        reader.push(bytes)?;
        let Upload { fields, filename, file } = reader.finish()?;
        Ok(Self::Upload { fields, filename, file })
    }
}

/// The boundary a content type names.
pub(crate) fn boundary(content_type: &str) -> Option<&str> {
    let rest = content_type.strip_prefix("multipart/form-data")?;
    let value = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then_some(value)
}

#[derive(Debug, PartialEq)]
pub(crate) struct Upload {
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) filename: String,
    pub(crate) file: FileFacts,
}

/// Reads an upload piece by piece.
pub(crate) struct Reader {
    /// `--boundary` as it begins a part.
    opening: Vec<u8>,
    /// Line feed and boundary: what ends a part.
    closing: Vec<u8>,
    buffer: Vec<u8>,
    fields: BTreeMap<String, String>,
    filename: Option<String>,
    file: Digests,
    ended: bool,
}

impl Reader {
    pub(crate) fn new(boundary: &str) -> Self {
        Self {
            opening: format!("--{boundary}\r\n").into_bytes(),
            closing: format!("\r\n--{boundary}").into_bytes(),
            buffer: Vec::new(),
            fields: BTreeMap::new(),
            filename: None,
            file: Digests::default(),
            ended: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), BadUpload> {
        if self.ended {
            return Ok(());
        }
        self.buffer.extend_from_slice(bytes);
        while self.filename.is_none() {
            if !self.take_part()? {
                return if self.buffer.len() > LARGEST_FIELDS { Err(BadUpload) } else { Ok(()) };
            }
        }
        self.take_file();
        Ok(())
    }

    /// Reads one field, or the head of the file; false if it is not all there yet.
    fn take_part(&mut self) -> Result<bool, BadUpload> {
        if self.buffer.len() < self.opening.len() {
            return Ok(false);
        }
        let rest = self.buffer.strip_prefix(self.opening.as_slice()).ok_or(BadUpload)?;
        let Some(end) = find(rest, b"\r\n\r\n") else { return Ok(false) };
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        let name = disposition(&head, "name").ok_or(BadUpload)?;
        let body = self.opening.len() + end + 4;
        if name == "filename" {
            self.filename = Some(disposition(&head, "filename").ok_or(BadUpload)?);
            self.buffer.drain(..body);
            return Ok(true);
        }
        let Some(length) = find(&self.buffer[body..], &self.closing) else { return Ok(false) };
        let value = String::from_utf8_lossy(&self.buffer[body..body + length]).into_owned();
        self.fields.insert(name, value);
        // The line feed belongs to the field, the boundary to the next part.
        self.buffer.drain(..body + length + 2);
        Ok(true)
    }

    fn take_file(&mut self) {
        let end = find(&self.buffer, &self.closing);
        // What could be the beginning of the end stays until more is there.
        let ready = end.unwrap_or_else(|| self.buffer.len().saturating_sub(self.closing.len() - 1));
        self.file.push(&self.buffer[..ready]);
        self.buffer.drain(..ready);
        self.ended = end.is_some();
    }

    pub(crate) fn finish(self) -> Result<Upload, BadUpload> {
        let filename = self.filename.filter(|_| self.ended).ok_or(BadUpload)?;
        Ok(Upload { fields: self.fields, filename, file: self.file.finish() })
    }
}

/// A parameter of the disposition, which must be the part's first header.
fn disposition(head: &str, name: &str) -> Option<String> {
    let line = head.lines().next()?.strip_prefix("Content-Disposition: form-data; ")?;
    let quoted = line.split("; ").find_map(|part| part.strip_prefix(name)?.strip_prefix("=\""))?;
    Some(quoted.strip_suffix('"')?.to_owned())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

#[derive(Default)]
struct Digests {
    size: u64,
    head: Vec<u8>,
    md5: md5::Md5,
    sha1: sha1::Sha1,
    sha224: sha2::Sha224,
    sha256: sha2::Sha256,
    sha384: sha2::Sha384,
    sha512: sha2::Sha512,
}

impl Digests {
    fn push(&mut self, bytes: &[u8]) {
        self.size += bytes.len() as u64;
        let missing = LOOKED_AT - self.head.len();
        self.head.extend_from_slice(&bytes[..bytes.len().min(missing)]);
        self.md5.update(bytes);
        self.sha1.update(bytes);
        self.sha224.update(bytes);
        self.sha256.update(bytes);
        self.sha384.update(bytes);
        self.sha512.update(bytes);
    }

    fn finish(self) -> FileFacts {
        let digests = [
            ("md5", hex(&self.md5.finalize())),
            ("sha1", hex(&self.sha1.finalize())),
            ("sha224", hex(&self.sha224.finalize())),
            ("sha256", hex(&self.sha256.finalize())),
            ("sha384", hex(&self.sha384.finalize())),
            ("sha512", hex(&self.sha512.finalize())),
        ];
        let digests = digests.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        FileFacts { size: self.size, digests, ..FileFacts::of_head(&self.head) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLOAD: &[u8] = b"--B\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n\
        --B\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"x.iso\"\r\nContent-Type: application/octet-stream\r\n\r\n\
        some\r\n--Bytes? no:\r\n-\r\n--B--\r\n";

    fn read(bytes: &[u8], step: usize) -> Result<Upload, BadUpload> {
        let mut reader = Reader::new("B");
        bytes.chunks(step).try_for_each(|chunk| reader.push(chunk))?;
        reader.finish()
    }

    #[test]
    fn pieces_of_any_size_make_the_same_upload() {
        let plain = UPLOAD.to_vec();
        let whole = read(&plain, plain.len()).unwrap();
        // The first thing that looks like the end is the end: a client picks a boundary the file does not hold.
        assert_eq!((whole.filename.as_str(), whole.file.size), ("x.iso", 4));
        assert_eq!(whole.fields, BTreeMap::from([("content".into(), "iso".into())]));
        assert_eq!(whole.file.digests, FileFacts::of_bytes(b"some").digests);
        for step in 1..plain.len() {
            assert_eq!(read(&plain, step).unwrap(), whole, "{step}");
        }
    }

    #[test]
    fn what_comes_otherwise_is_refused() {
        let text = String::from_utf8(UPLOAD.to_vec()).unwrap();
        for bad in [
            text.replace("--B\r\nContent-Disposition: form-data; name=\"content\"", "--C\r\nX"),
            text.replace(
                "Content-Disposition: form-data; name=\"filename\"",
                "X: y\r\nContent-Disposition: form-data; name=\"filename\"",
            ),
            text.replace("; filename=\"x.iso\"", ""),
            text[..text.find("\r\n--Bytes").unwrap()].to_owned(),
        ] {
            assert_eq!(read(bad.as_bytes(), 7), Err(BadUpload), "{bad}");
        }
    }

    #[test]
    fn the_boundary_is_in_the_content_type() {
        assert_eq!(boundary("multipart/form-data; boundary=----x"), Some("----x"));
        assert_eq!(boundary("multipart/form-data; charset=utf-8; boundary=\"a b\""), Some("a b"));
        assert_eq!(boundary("multipart/form-data"), None);
        assert_eq!(boundary("application/json"), None);
    }
}
