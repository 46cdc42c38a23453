//! The little DER that certificates need.

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const INTEGER: u8 = 0x02;
pub(super) const BOOLEAN: u8 = 0x01;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OBJECT: u8 = 0x06;
pub(super) const NULL: u8 = 0x05;
pub(super) const PRINTABLE: u8 = 0x13;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERALIZED_TIME: u8 = 0x18;

/// `[number]`, constructed.
pub(super) const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// `[number]`, primitive.
pub(super) const fn context_primitive(number: u8) -> u8 {
    0x80 | number
}

/// A value with its tag and length.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(content.len().to_le_bytes()[0]);
    } else {
        let bytes = content.len().to_be_bytes();
        let significant = &bytes[bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len() - 1)..];
        out.push(0x80 | significant.len().to_le_bytes()[0]);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// A positive number from its big-endian bytes.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len().saturating_sub(1));
    let mut content = Vec::with_capacity(bytes.len() + 1);
    if bytes.get(start).is_none_or(|byte| byte & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(&bytes[start..]);
    tagged(INTEGER, &content)
}

/// An object identifier, already encoded.
pub(super) fn object(encoded: &[u8]) -> Vec<u8> {
    tagged(OBJECT, encoded)
}

/// Bytes as a bit string without unused bits.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    tagged(BIT_STRING, &[&[0], bytes].concat())
}

/// Reads values one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

/// A value: its tag, its content, and all of it as it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element<'a> {
    pub tag: u8,
    pub content: &'a [u8],
    pub whole: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn next(&mut self) -> Option<Element<'a>> {
        let input = self.0;
        let (tag, first) = (*input.first()?, *input.get(1)?);
        let (length, header) = if first < 0x80 {
            (usize::from(first), 2)
        } else {
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let bytes = input.get(2..2 + count)?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), 2 + count)
        };
        let end = header.checked_add(length)?;
        let element = Element { tag, content: input.get(header..end)?, whole: input.get(..end)? };
        self.0 = &input[end..];
        Some(element)
    }

    /// The next value, if it has that tag.
    pub(super) fn expect(&mut self, tag: u8) -> Option<Element<'a>> {
        self.next().filter(|element| element.tag == tag)
    }

    /// The next value if it has that tag; otherwise nothing is read.
    pub(super) fn optional(&mut self, tag: u8) -> Option<Element<'a>> {
        if self.0.first() == Some(&tag) { self.next() } else { None }
    }
}

impl<'a> Element<'a> {
    pub(super) fn reader(self) -> Reader<'a> {
        Reader(self.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_and_read() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let value = tagged(OCTET_STRING, &vec![7; length]);
            let element = Reader(&value).expect(OCTET_STRING).unwrap();
            assert_eq!(element.content.len(), length);
            assert_eq!(element.whole, value);
        }
    }

    #[test]
    fn broken_values_are_none() {
        for bytes in [
            &[][..],
            &[0x30],
            &[0x30, 5, 0],
            &[0x30, 0x80],
            &[0x30, 0x85, 1, 1, 1, 1, 1],
            &[0x30, 0x84, 255, 255, 255, 255],
        ] {
            assert!(Reader(bytes).next().is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn numbers_stay_positive() {
        assert_eq!(unsigned(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(unsigned(&[0]), [2, 1, 0]);
    }
}
