//! Numbers and texts as the format writes them, and where they go.

use super::SECTOR;

/// A number of two bytes, once from the little end and once from the big one.
pub(super) fn both_16(number: u16) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

/// A number of four bytes, likewise.
pub(super) fn both_32(number: u32) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

/// Two bytes for each character, the big end first; names here have no others.
pub(super) fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

/// The image as sectors.
pub(super) struct Sectors<'a>(&'a mut [u8]);

impl<'a> Sectors<'a> {
    pub(super) fn of(image: &'a mut [u8]) -> Self {
        Self(image)
    }

    /// Bytes from the beginning of a sector on.
    pub(super) fn put(&mut self, sector: u32, bytes: &[u8]) {
        let start = sector as usize * SECTOR;
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }
}
