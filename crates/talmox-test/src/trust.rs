//! Who would believe whom if there were TLS: the same judgements, on the certificates themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{Error, RootCertStore};
use sha2::Digest as _;
use talmox_sim_talos::Peer;

/// A certificate, the digest of who is believed, and the address it was shown at.
type Shown = (String, Vec<u8>, IpAddr);

/// Judges certificates, each pair once.
#[derive(Default)]
pub(crate) struct Trust {
    servers: Mutex<BTreeMap<Shown, Result<(), String>>>,
    clients: Mutex<BTreeMap<Vec<u8>, Peer>>,
}

impl Trust {
    /// Whether a client that believes these authorities takes a certificate, in PEM, for that of the address.
    pub(crate) fn server<'a>(
        &self,
        certificate: &str,
        authorities: impl Iterator<Item = &'a [u8]>,
        address: IpAddr,
        now: u64,
    ) -> Result<(), String> {
        let authorities: Vec<&[u8]> = authorities.collect();
        let key = (certificate.to_owned(), authorities.concat(), address);
        let mut judged = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let judge =
            || judge_server(certificate, &authorities, address, now).map_err(|error| error.to_string());
        judged.entry(key).or_insert_with(judge).clone()
    }

    /// Who a client is that shows this certificate, in DER, and has it from one of these authorities. Of one that it has
    /// from somebody else the authority is not known.
    pub(crate) fn client<'a>(
        &self,
        certificate: &[u8],
        mut authorities: impl Iterator<Item = &'a [u8]>,
        now: u64,
    ) -> Peer {
        let mut judged = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let judge = || {
            let signed_by = authorities.find(|authority| judge_client(certificate, authority, now).is_ok());
            Peer::of_certificate(certificate, signed_by.unwrap_or_default())
        };
        judged.entry(certificate.to_vec()).or_insert_with(judge).clone()
    }
}

/// The SHA-256 of the public key in a certificate, in PEM.
pub(crate) fn key_digest(certificate: &str) -> Option<[u8; 32]> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
    let key = ParsedCertificate::try_from(&certificate).ok()?.subject_public_key_info();
    Some(sha2::Sha256::digest(&key).into())
}

fn roots<'a>(authorities: impl IntoIterator<Item = &'a [u8]>) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(CertificateDer::from(authority.to_vec()))?;
    }
    Ok(Arc::new(roots))
}

fn general(error: &dyn std::error::Error) -> Error {
    Error::General(error.to_string())
}

fn at(now: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_millis(now))
}

fn judge_server(certificate: &str, authorities: &[&[u8]], address: IpAddr, now: u64) -> Result<(), Error> {
    let certificate =
        CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| general(&error))?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(authorities.iter().copied())?, provider)
        .build()
        .map_err(|error| general(&error))?;
    let name = ServerName::from(address);
    verifier.verify_server_cert(&certificate, &[], &name, &[], at(now)).map(drop)
}

fn judge_client(certificate: &[u8], authority: &[u8], now: u64) -> Result<(), Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots([authority])?, provider)
        .build()
        .map_err(|error| general(&error))?;
    let certificate = CertificateDer::from(certificate.to_vec());
    verifier.verify_client_cert(&certificate, &[], at(now)).map(drop)
}
