//! Who we are to a node, and what it must be to us.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

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
    earlier: Option<Earlier>,
}

/// Who we were under the authority before, and the nodes that know us by that only.
struct Earlier {
    identity: Arc<Identity>,
    nodes: Mutex<BTreeSet<IpAddr>>,
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
            earlier: None,
        })
    }

    /// The same, and another to show to nodes that do not know this one yet.
    #[must_use]
    pub fn or_earlier(self, identity: Arc<Self>) -> Self {
        Self { earlier: Some(Earlier { identity, nodes: Mutex::default() }), ..self }
    }

    /// The same without the other, and so with connections of its own: they prove what a node thinks of it now. Connections that
    /// are open stay so, whomever the node has come to believe since.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let (authority, chain) = (self.authority.clone(), self.chain.clone());
        Self { authority, chain, key: self.key.clone_key(), earlier: None }
    }

    /// Who we are to a node, the likeliest first.
    pub(crate) fn in_turn(self: &Arc<Self>, node: IpAddr) -> Vec<Arc<Self>> {
        let Some(earlier) = &self.earlier else { return vec![Arc::clone(self)] };
        let by_earlier = earlier.nodes.lock().unwrap_or_else(PoisonError::into_inner).contains(&node);
        let both = [Arc::clone(self), Arc::clone(&earlier.identity)];
        if by_earlier { both.into_iter().rev().collect() } else { both.into() }
    }

    /// Remembers which of them a node knew.
    pub(crate) fn known_to(self: &Arc<Self>, node: IpAddr, as_whom: &Arc<Self>) {
        let Some(earlier) = &self.earlier else { return };
        let mut nodes = earlier.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(self, as_whom) {
            nodes.remove(&node);
        } else {
            nodes.insert(node);
        }
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
