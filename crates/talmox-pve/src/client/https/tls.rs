//! Whom to believe.

use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};
use talmox_types::Fingerprint;

use crate::client::{TransportError, UnknownCertificate};

/// Which certificates are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// What the operating system trusts, an administrator's own CA included.
    System,
    /// These authorities and no others: the PEM text of a CA file, such as `/etc/pve/pve-root-ca.pem`.
    Authorities(String),
    /// Certificates with these fingerprints, whatever name they carry.
    Fingerprints(Vec<Fingerprint>),
    /// Anything. Only when somebody asked for it.
    Insecure,
}

/// Authorities that are none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTrust {
    #[error("the CA file holds no certificate in PEM form")]
    NoCertificate,
    #[error("the CA file cannot be used: {reason}")]
    Unusable { reason: String },
    #[error("the system has no trusted certificates: {reason}")]
    NoSystemRoots { reason: String },
}

/// Makes TLS configurations: one kind of trust for all hosts, and fingerprints of single ones.
pub(super) struct Verifiers {
    provider: Arc<CryptoProvider>,
    fingerprints: Vec<Fingerprint>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    insecure: bool,
    /// The configuration of hosts without fingerprints of their own. Kept, because it remembers sessions.
    common: Arc<ClientConfig>,
}

impl Verifiers {
    pub(super) fn new(trust: Trust) -> Result<Self, InvalidTrust> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let insecure = trust == Trust::Insecure;
        let (roots, fingerprints) = match trust {
            Trust::System => (Some(system_roots()?), Vec::new()),
            Trust::Authorities(pem) => (Some(read_roots(&pem)?), Vec::new()),
            Trust::Fingerprints(fingerprints) => (None, fingerprints),
            Trust::Insecure => (None, Vec::new()),
        };
        let build = |roots| {
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| InvalidTrust::Unusable { reason: error.to_string() })
        };
        let authorities = roots.map(build).transpose()?;
        let verifier = Verifier {
            fingerprints: fingerprints.clone(),
            authorities: authorities.clone(),
            insecure,
            provider: Arc::clone(&provider),
        };
        let common = configuration(verifier)?;
        Ok(Self { provider, fingerprints, authorities, insecure, common })
    }

    pub(super) fn config_for(&self, own: &[Fingerprint]) -> Arc<ClientConfig> {
        if own.is_empty() {
            return Arc::clone(&self.common);
        }
        let verifier = Verifier {
            fingerprints: self.fingerprints.iter().chain(own).copied().collect(),
            authorities: self.authorities.clone(),
            insecure: self.insecure,
            provider: Arc::clone(&self.provider),
        };
        // The provider was good for the common configuration, so it is good for this one.
        configuration(verifier).unwrap_or_else(|_| Arc::clone(&self.common))
    }
}

fn configuration(verifier: Verifier) -> Result<Arc<ClientConfig>, InvalidTrust> {
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| InvalidTrust::Unusable { reason: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn system_roots() -> Result<RootCertStore, InvalidTrust> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reasons: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
        return Err(InvalidTrust::NoSystemRoots { reason: reasons.join("; ") });
    }
    Ok(roots)
}

fn read_roots(pem: &str) -> Result<RootCertStore, InvalidTrust> {
    let unusable = |reason: String| InvalidTrust::Unusable { reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(InvalidTrust::NoCertificate) } else { Ok(roots) }
}

#[derive(Debug)]
struct Verifier {
    fingerprints: Vec<Fingerprint>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    insecure: bool,
    provider: Arc<CryptoProvider>,
}

/// Carries the certificate through rustls's error.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.reason)]
struct Unknown(UnknownCertificate);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let fingerprint = Fingerprint::from(<[u8; 32]>::from(Sha256::digest(certificate)));
        if self.insecure || self.fingerprints.contains(&fingerprint) {
            return Ok(ServerCertVerified::assertion());
        }
        let reason = match &self.authorities {
            None => "its fingerprint is not among the trusted ones".to_owned(),
            Some(authorities) => {
                match authorities.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
                    Ok(verified) => return Ok(verified),
                    Err(error) => why(&error),
                }
            }
        };
        let unknown = Unknown(UnknownCertificate { fingerprint, reason });
        Err(CertificateError::Other(OtherError(Arc::new(unknown))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn why(error: &rustls::Error) -> String {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
    };
    let rustls::Error::InvalidCertificate(fault) = error else { return error.to_string() };
    // A wrong signature is that of another authority of the same name: every Proxmox cluster calls its own alike.
    if matches!(fault, UnknownIssuer | BadSignature) {
        "its issuer is not trusted".to_owned()
    } else if matches!(fault, NotValidForName | NotValidForNameContext { .. }) {
        "it is for another host name".to_owned()
    } else if matches!(fault, Expired | ExpiredContext { .. }) {
        "it has expired".to_owned()
    } else {
        fault.to_string()
    }
}

/// What failed while TLS was set up. Nothing of a request was sent by then.
pub(super) fn connect_error(error: &io::Error) -> TransportError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(CertificateError::Other(other))) = tls
        && let Some(Unknown(certificate)) = other.0.downcast_ref::<Unknown>()
    {
        return TransportError::Certificate(certificate.clone());
    }
    TransportError::Connect { reason: format!("TLS: {}", super::plain(error)) }
}
