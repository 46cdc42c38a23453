//! Who a certificate says its holder is.

use crate::Peer;

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// A version is tagged, and may be left out.
const VERSION: u8 = 0xa0;
/// `organizationName`, 2.5.4.10.
const ORGANISATION: [u8; 3] = [0x55, 0x04, 0x0a];

impl Peer {
    /// The holder of a certificate in DER that this authority, in DER, has signed. What cannot be read names nobody.
    pub fn of_certificate(certificate: &[u8], authority: &[u8]) -> Self {
        Self::Certificate {
            authority: authority.to_vec(),
            organisations: organisations(certificate).unwrap_or_default(),
        }
    }
}

/// One element and what follows it.
struct Element<'b> {
    tag: u8,
    content: &'b [u8],
    rest: &'b [u8],
}

fn element(bytes: &[u8]) -> Option<Element<'_>> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        long => {
            let (digits, rest) =
                rest.split_at_checked(usize::from(long & 0x7f)).filter(|(all, _)| all.len() <= 4)?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some(Element { tag: *tag, content, rest })
}

fn sequence(bytes: &[u8]) -> Option<Element<'_>> {
    element(bytes).filter(|element| element.tag == SEQUENCE)
}

/// The organisations of a certificate's subject, in order.
fn organisations(certificate: &[u8]) -> Option<Vec<String>> {
    let signed = sequence(sequence(certificate)?.content)?.content;
    let first = element(signed)?;
    // Version, serial number, algorithm, issuer, validity: then comes the subject.
    let after_version = if first.tag == VERSION { first.rest } else { signed };
    let mut rest = after_version;
    for _ in 0..4 {
        rest = element(rest)?.rest;
    }
    let mut names = sequence(rest)?.content;
    let mut found = Vec::new();
    while let Some(set) = element(names) {
        names = set.rest;
        let pair = sequence(set.content)?;
        let kind = element(pair.content).filter(|kind| kind.tag == OBJECT_IDENTIFIER)?;
        if kind.content == ORGANISATION {
            found.push(String::from_utf8_lossy(element(kind.rest)?.content).into_owned());
        }
    }
    Some(found)
}
