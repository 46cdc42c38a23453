//! Volume descriptors and path tables (ECMA-119, 8 and 9.4).

use super::SECTOR;
use super::folder::{self, CURRENT};
use super::numbers::{both_16, both_32, utf16};

/// The last descriptor.
pub(super) const TERMINATOR: [u8; 7] = [255, b'C', b'D', b'0', b'0', b'1', 1];

/// Sixteen digits and a time zone: no time.
const NO_TIME: &[u8; 17] = b"0000000000000000\0";

/// The bytes of a path table that has only the root: a length, no attributes, a place, a parent, a name of one byte, and
/// one to make them even.
const TABLE: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Primary,
    Joliet,
}

/// One of the two views of the same files.
pub(super) struct Volume<'a> {
    pub(super) kind: Kind,
    pub(super) label: &'a str,
    /// Where its path tables are: little endian, then big endian.
    pub(super) tables: u32,
    /// Where its root folder is.
    pub(super) folder: u32,
}

impl Volume<'_> {
    pub(super) fn descriptor(&self, end: u32) -> Vec<u8> {
        let mut text = Vec::with_capacity(SECTOR);
        text.push(if self.kind == Kind::Primary { 1 } else { 2 });
        text.extend_from_slice(b"CD001\x01\0");
        text.extend(self.words("", 32));
        text.extend(self.words(self.label, 32));
        text.extend_from_slice(&[0; 8]);
        text.extend_from_slice(&both_32(end));
        text.extend(self.characters());
        text.extend_from_slice(&both_16(1));
        text.extend_from_slice(&both_16(1));
        text.extend_from_slice(&both_16(2048));
        text.extend_from_slice(&both_32(TABLE));
        text.extend_from_slice(&self.tables.to_le_bytes());
        text.extend_from_slice(&0_u32.to_le_bytes());
        text.extend_from_slice(&(self.tables + 1).to_be_bytes());
        text.extend_from_slice(&0_u32.to_be_bytes());
        text.extend(folder::root_record(self.folder, CURRENT, &[]));
        // Volume set, publisher, preparer, application; then copyright, abstract and bibliographic files.
        for width in [128, 128, 128, 128, 37, 37, 37] {
            text.extend(self.words("", width));
        }
        for _ in 0..4 {
            text.extend_from_slice(NO_TIME);
        }
        text.push(1);
        text
    }

    /// For both ends: a number's bytes are the only difference.
    pub(super) fn path_tables(&self) -> [Vec<u8>; 2] {
        let table = |folder: [u8; 4], parent: [u8; 2]| {
            let mut table = vec![1, 0];
            table.extend_from_slice(&folder);
            table.extend_from_slice(&parent);
            table.extend_from_slice(&[0, 0]);
            table
        };
        [
            table(self.folder.to_le_bytes(), 1_u16.to_le_bytes()),
            table(self.folder.to_be_bytes(), 1_u16.to_be_bytes()),
        ]
    }

    /// Level 3 of UCS-2 is what Joliet writes here.
    fn characters(&self) -> [u8; 32] {
        let mut field = [0; 32];
        if self.kind == Kind::Joliet {
            field[..3].copy_from_slice(b"%/E");
        }
        field
    }

    /// A text filled up with blanks.
    fn words(&self, text: &str, width: usize) -> Vec<u8> {
        let (mut bytes, blank): (Vec<u8>, &[u8]) = match self.kind {
            Kind::Primary => (text.as_bytes().to_vec(), b" "),
            Kind::Joliet => (utf16(text), b"\0 "),
        };
        while bytes.len() + blank.len() <= width {
            bytes.extend_from_slice(blank);
        }
        bytes.resize(width, 0);
        bytes
    }
}
