//! Who we are to a node, and what it must be to us.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use secrecy::{ExposeSecret as _, SecretString};

/// How a node is approached.
#[derive(Clone, Debug)]
pub enum Access {
    /// A configured node: both sides show certificates of the cluster's authority.
    Secure(Arc<Identity>),
    /// A node in maintenance mode has a certificate of its own making; if fingerprints are given it must have one of them.
    Maintenance { fingerprints: Vec<Fingerprint> },
}

impl Access {
    pub fn maintenance() -> Self {
        Self::Maintenance { fingerprints: Vec::new() }
    }
}

/// The SHA-256 of a certificate's public key, as a node prints it on its console.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) [u8; 32]);

impl Fingerprint {
    /// From standard base64.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
    }

    /// From the digest itself.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A client certificate with its key, and the authority nodes must have theirs from.
pub struct Identity {
    pub(crate) authority: Vec<CertificateDer<'static>>,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdentity {
    #[error("the authority is no certificate in PEM form")]
    Authority,
    #[error("the client certificate is none in PEM form")]
    Certificate,
    #[error("the client key is none in PEM form")]
    Key,
}

impl Identity {
    /// From PEM texts, as a talosconfig holds them. Talos labels an Ed25519 key in a way of its own.
    pub fn from_pem(authority: &str, certificate: &str, key: &SecretString) -> Result<Self, InvalidIdentity> {
        let read = |text: &str, wrong: InvalidIdentity| {
            let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            all.ok().filter(|all| !all.is_empty()).ok_or(wrong)
        };
        Ok(Self {
            authority: read(authority, InvalidIdentity::Authority)?,
            chain: read(certificate, InvalidIdentity::Certificate)?,
            key: read_key(key.expose_secret()).ok_or(InvalidIdentity::Key)?,
        })
    }

    /// The client certificate in DER, for transports that have no TLS to show it in.
    pub fn certificate(&self) -> &[u8] {
        self.chain.first().map(AsRef::as_ref).unwrap_or_default()
    }

    /// The authorities nodes are believed by, in DER.
    pub fn authorities(&self) -> impl Iterator<Item = &[u8]> {
        self.authority.iter().map(AsRef::as_ref)
    }
}

fn read_key(text: &str) -> Option<PrivateKeyDer<'static>> {
    if let Ok(key) = PrivateKeyDer::from_pem_slice(text.as_bytes()) {
        return Some(key);
    }
    let (begin, end) = ("-----BEGIN ED25519 PRIVATE KEY-----", "-----END ED25519 PRIVATE KEY-----");
    let body: String = text.split_once(begin)?.1.split_once(end)?.0.split_whitespace().collect();
    Some(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(STANDARD.decode(body).ok()?)))
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(…)")
    }
}
