//! Certificates: made, read, and checked against their key and issuer.

use std::fmt;
use std::net::IpAddr;

use super::der::{
    self, BOOLEAN, Element, GENERALIZED_TIME, INTEGER, OBJECT, OCTET_STRING, PRINTABLE, Reader, SEQUENCE,
    SET, UTC_TIME, UTF8, context, context_primitive,
};
use super::key::{KeyError, PrivateKey};
use super::pem;
use crate::time::{Civil, Time};

/// A certificate could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("not a certificate in PEM")]
    NotPem,
    #[error("not an X.509 certificate")]
    NotX509,
}

/// Object identifiers, encoded.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const SUBJECT_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 0x23];
const SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Who a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Subject {
    pub organizations: Vec<String>,
    pub common_name: Option<String>,
}

/// What the key of a certificate may be used for: a client's to sign, perhaps to encipher too, or a server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage<'a> {
    Signature,
    SignatureAndEncipherment,
    Server { addresses: &'a [IpAddr], names: &'a [String] },
}

/// Numbers drawn for a certificate.
pub(crate) struct Drawn {
    pub serial: [u8; 16],
    pub key_id: [u8; 20],
}

/// A certificate: its PEM text as it was read or made, and what is needed of what it says.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    pem: String,
    subject: Vec<u8>,
    public_info: Vec<u8>,
    key_id: Option<Vec<u8>>,
    /// The id of the key it was signed with.
    issuer_id: Option<Vec<u8>>,
    not_before: Time,
    not_after: Time,
    authority: bool,
}

impl Certificate {
    /// Reads the first certificate of a text, which is kept as it is.
    pub fn parse(pem: &str) -> Result<Self, CertificateError> {
        let (label, der) = pem::decode(pem).ok_or(CertificateError::NotPem)?;
        if label != "CERTIFICATE" {
            return Err(CertificateError::NotPem);
        }
        read(pem, &der).ok_or(CertificateError::NotX509)
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    pub fn not_before(&self) -> Time {
        self.not_before
    }

    /// When it ends.
    pub fn not_after(&self) -> Time {
        self.not_after
    }

    /// Whether it may sign others.
    pub fn is_authority(&self) -> bool {
        self.authority
    }

    /// Whether the same authority signed another one, as far as they say: names are no help, authorities of all clusters have
    /// the same.
    pub fn has_issuer_of(&self, other: &Self) -> bool {
        self.issuer_id == other.issuer_id
    }

    /// Whether the key is the one it was made for.
    pub fn belongs_to(&self, key: &PrivateKey) -> bool {
        key.public_info().is_ok_and(|info| info == self.public_info)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("not_after", &self.not_after.to_string()).finish_non_exhaustive()
    }
}

/// A certificate that signs itself: a cluster's authority.
pub(crate) fn self_sign(
    key: &PrivateKey,
    subject: &Subject,
    drawn: &Drawn,
    from: Time,
    until: Time,
) -> Result<Certificate, KeyError> {
    let name = name(subject);
    let extensions = [
        // digitalSignature and keyCertSign.
        extension(KEY_USAGE, true, &der::tagged(der::BIT_STRING, &[2, 0x84])),
        extension(
            EXTENDED_KEY_USAGE,
            false,
            &der::sequence(&[&der::object(SERVER_AUTH), &der::object(CLIENT_AUTH)]),
        ),
        extension(BASIC_CONSTRAINTS, true, &der::sequence(&[&der::tagged(BOOLEAN, &[0xff])])),
        extension(SUBJECT_KEY_ID, false, &der::tagged(OCTET_STRING, &drawn.key_id)),
    ];
    let body = Body {
        issuer: &name,
        subject: &name,
        key,
        from,
        until,
        serial: &drawn.serial,
        extensions: &extensions,
    };
    body.sign(key)
}

/// A client's or a server's certificate, signed by an authority.
pub(crate) fn issue(
    authority: (&Certificate, &PrivateKey),
    key: &PrivateKey,
    subject: &Subject,
    usage: Usage<'_>,
    serial: &[u8; 16],
    (from, until): (Time, Time),
) -> Result<Certificate, KeyError> {
    let (issuer, issuer_key) = authority;
    let (bits, purpose): (&[u8], _) = match usage {
        Usage::Signature => (&[7, 0x80], CLIENT_AUTH),
        Usage::SignatureAndEncipherment => (&[5, 0xa0], CLIENT_AUTH),
        Usage::Server { .. } => (&[7, 0x80], SERVER_AUTH),
    };
    let mut extensions = vec![
        extension(KEY_USAGE, true, &der::tagged(der::BIT_STRING, bits)),
        extension(EXTENDED_KEY_USAGE, false, &der::sequence(&[&der::object(purpose)])),
    ];
    if let Some(key_id) = &issuer.key_id {
        let id = der::sequence(&[&der::tagged(context_primitive(0), key_id)]);
        extensions.push(extension(AUTHORITY_KEY_ID, false, &id));
    }
    if let Usage::Server { addresses, names } = usage {
        extensions.push(extension(SUBJECT_NAMES, false, &alternative_names(addresses, names)));
    }
    let name = name(subject);
    let body =
        Body { issuer: &issuer.subject, subject: &name, key, from, until, serial, extensions: &extensions };
    body.sign(issuer_key)
}

/// Names and addresses a server answers to.
fn alternative_names(addresses: &[IpAddr], names: &[String]) -> Vec<u8> {
    const NAME: u8 = 2;
    const ADDRESS: u8 = 7;
    let names = names.iter().map(|name| der::tagged(context_primitive(NAME), name.as_bytes()));
    let addresses = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => der::tagged(context_primitive(ADDRESS), &address.octets()),
        IpAddr::V6(address) => der::tagged(context_primitive(ADDRESS), &address.octets()),
    });
    der::tagged(SEQUENCE, &names.chain(addresses).collect::<Vec<_>>().concat())
}

struct Body<'a> {
    issuer: &'a [u8],
    subject: &'a [u8],
    key: &'a PrivateKey,
    from: Time,
    until: Time,
    serial: &'a [u8],
    extensions: &'a [Vec<u8>],
}

impl Body<'_> {
    fn sign(&self, signer: &PrivateKey) -> Result<Certificate, KeyError> {
        let algorithm = signer.signature_algorithm();
        let extensions = der::tagged(SEQUENCE, &self.extensions.concat());
        let to_be_signed = der::sequence(&[
            // Version 3.
            &der::tagged(context(0), &der::unsigned(&[2])),
            &der::unsigned(self.serial),
            &algorithm,
            self.issuer,
            &der::sequence(&[&time(self.from), &time(self.until)]),
            self.subject,
            &self.key.public_info()?,
            &der::tagged(context(3), &extensions),
        ]);
        let signature = signer.sign(&to_be_signed)?;
        let certificate = der::sequence(&[&to_be_signed, &algorithm, &der::bits(&signature)]);
        let text = pem::encode("CERTIFICATE", &certificate);
        read(&text, &certificate).ok_or(KeyError::Signature)
    }
}

/// Organizations share one relative name, in the order DER wants; the common name has one of its own.
fn name(subject: &Subject) -> Vec<u8> {
    let attribute = |kind: &[u8], text: &str| {
        let tag = if is_printable(text) { PRINTABLE } else { UTF8 };
        der::sequence(&[&der::object(kind), &der::tagged(tag, text.as_bytes())])
    };
    let mut organizations: Vec<Vec<u8>> =
        subject.organizations.iter().map(|text| attribute(ORGANIZATION, text)).collect();
    organizations.sort();
    let mut parts = Vec::new();
    if !organizations.is_empty() {
        parts.extend(der::tagged(SET, &organizations.concat()));
    }
    if let Some(text) = &subject.common_name {
        parts.extend(der::tagged(SET, &attribute(COMMON_NAME, text)));
    }
    der::tagged(SEQUENCE, &parts)
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&b))
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { der::tagged(BOOLEAN, &[0xff]) } else { Vec::new() };
    der::sequence(&[&der::object(id), &critical, &der::tagged(OCTET_STRING, value)])
}

/// Two digits for the year up to 2049, four after.
fn time(time: Time) -> Vec<u8> {
    let Civil { year, month, day, hour, minute, second } = time.civil();
    let rest = format!("{month:02}{day:02}{hour:02}{minute:02}{second:02}Z");
    if (1950..2050).contains(&year) {
        der::tagged(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes())
    } else {
        der::tagged(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes())
    }
}

fn read(pem: &str, certificate: &[u8]) -> Option<Certificate> {
    let mut body = Reader(certificate).expect(SEQUENCE)?.reader().expect(SEQUENCE)?.reader();
    body.optional(context(0));
    body.expect(INTEGER)?;
    body.expect(SEQUENCE)?;
    body.expect(SEQUENCE)?;
    let mut validity = body.expect(SEQUENCE)?.reader();
    let (not_before, not_after) = (read_time(validity.next()?)?, read_time(validity.next()?)?);
    let subject = body.expect(SEQUENCE)?.whole.to_vec();
    let public_info = body.expect(SEQUENCE)?.whole.to_vec();
    body.optional(context_primitive(1));
    body.optional(context_primitive(2));
    let (mut key_id, mut issuer_id, mut authority) = (None, None, false);
    if let Some(extensions) = body.optional(context(3)) {
        let mut extensions = extensions.reader().expect(SEQUENCE)?.reader();
        while let Some(extension) = extensions.next() {
            let mut parts = extension.reader();
            let id = parts.expect(OBJECT)?.content;
            parts.optional(BOOLEAN);
            let mut value = parts.expect(OCTET_STRING)?.reader();
            if id == SUBJECT_KEY_ID {
                key_id = Some(value.expect(OCTET_STRING)?.content.to_vec());
            } else if id == AUTHORITY_KEY_ID {
                let issuer = value.expect(SEQUENCE).map(Element::reader);
                let id = issuer.and_then(|mut issuer| issuer.optional(context_primitive(0)));
                issuer_id = id.map(|id| id.content.to_vec());
            } else if id == BASIC_CONSTRAINTS {
                authority = value
                    .expect(SEQUENCE)?
                    .reader()
                    .optional(BOOLEAN)
                    .is_some_and(|flag| flag.content != [0]);
            }
        }
    }
    let pem = pem.to_owned();
    Some(Certificate { pem, subject, public_info, key_id, issuer_id, not_before, not_after, authority })
}

fn read_time(element: Element<'_>) -> Option<Time> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match element.tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let pair = |index: usize| rest.get(index * 2..index * 2 + 2)?.parse::<i64>().ok();
    Time::from_civil(Civil {
        year,
        month: pair(0)?,
        day: pair(1)?,
        hour: pair(2)?,
        minute: pair(3)?,
        second: pair(4)?,
    })
}
