//! What the simulator knows of a file: size, digests and what is in it. Bytes are kept only of configurations.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use crate::contents::Content;

/// A file behind a URL, in an upload, or on a storage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileFacts {
    pub size: u64,
    /// Digest by algorithm (`sha256`), lower-case hex.
    pub digests: BTreeMap<String, String>,
    /// `qcow2`, `raw`, `vmdk`; none if nobody said.
    pub format: Option<String>,
    /// Size a guest would see.
    pub virtual_size: Option<u64>,
    pub mimetype: Option<String>,
    /// What whoever boots from it would find.
    #[serde(default)]
    pub content: Content,
}

impl FileFacts {
    /// Looks at real bytes: digests, the header of a qcow2 image, and what could be booted from it.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let mut digests = BTreeMap::new();
        digests.insert("md5".into(), hex(&md5::Md5::digest(bytes)));
        digests.insert("sha1".into(), hex(&sha1::Sha1::digest(bytes)));
        digests.insert("sha224".into(), hex(&sha2::Sha224::digest(bytes)));
        digests.insert("sha256".into(), hex(&sha2::Sha256::digest(bytes)));
        digests.insert("sha384".into(), hex(&sha2::Sha384::digest(bytes)));
        digests.insert("sha512".into(), hex(&sha2::Sha512::digest(bytes)));
        Self { size: bytes.len() as u64, digests, ..Self::of_head(bytes) }
    }

    /// What the beginning of a file tells of it.
    pub(crate) fn of_head(bytes: &[u8]) -> Self {
        let qcow2 = bytes.starts_with(b"QFI\xfb");
        let virtual_size = bytes
            .get(24..32)
            .filter(|_| qcow2)
            .map(|field| field.iter().fold(0_u64, |size, byte| size << 8 | u64::from(*byte)));
        let format = Some(if qcow2 { "qcow2" } else { "raw" }.to_owned());
        Self { format, virtual_size, content: Content::of_bytes(bytes), ..Self::default() }
    }

    /// Compares with the checksum a client gave; the error is what it really is. Bytes that were seen have a digest of every
    /// kind. A file that was only described may lack one, and then nothing is known against it.
    pub(crate) fn verify(&self, algorithm: &str, wanted: &str) -> Result<(), String> {
        match self.digests.get(algorithm) {
            Some(got) if got != wanted => Err(format!("checksum mismatch: got '{got}' != expect '{wanted}'")),
            _ => Ok(()),
        }
    }

    /// What a disk made from this file would measure.
    pub(crate) fn disk_size(&self) -> u64 {
        self.virtual_size.unwrap_or(self.size)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn sha1_hex(text: &str) -> String {
    hex(&sha1::Sha1::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qcow2_header_tells_the_virtual_size() {
        let mut bytes = b"QFI\xfb".to_vec();
        bytes.extend([0; 20]);
        bytes.extend((64_u64 << 20).to_be_bytes());
        let facts = FileFacts::of_bytes(&bytes);
        assert_eq!((facts.format.as_deref(), facts.virtual_size), (Some("qcow2"), Some(64 << 20)));
        assert_eq!(FileFacts::of_bytes(b"x").disk_size(), 1);
    }

    #[test]
    fn digests_are_those_of_the_bytes() {
        let facts = FileFacts::of_bytes(b"");
        assert_eq!(facts.digests["sha1"], "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(facts.digests["md5"], "d41d8cd98f00b204e9800998ecf8427e");
        for algorithm in ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"] {
            assert!(facts.verify(algorithm, "00").is_err(), "{algorithm}");
        }
        assert!(FileFacts::default().verify("md5", "00").is_ok(), "nobody said otherwise");
    }
}
