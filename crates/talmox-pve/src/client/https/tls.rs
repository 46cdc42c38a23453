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
    /// Certificates that these issuers signed and that also have one of these fingerprints. [`Trust::narrowed`] makes it.
    Narrowed { issuers: Issuers, fingerprints: Vec<Fingerprint> },
    /// Anything. Only when somebody asked for it.
    Insecure,
}

/// Whose signature counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issuers {
    /// As [`Trust::System`].
    System,
    /// As [`Trust::Authorities`].
    Authorities(String),
}

impl Trust {
    /// Believes only certificates that this trust believes and that have one of these fingerprints. No fingerprints
    /// narrow nothing. The result never believes a certificate that this trust does not believe.
    #[must_use]
    pub fn narrowed(self, fingerprints: Vec<Fingerprint>) -> Self {
        if fingerprints.is_empty() {
            return self;
        }
        let common = |ours: Vec<Fingerprint>| -> Vec<Fingerprint> {
            ours.into_iter().filter(|fingerprint| fingerprints.contains(fingerprint)).collect()
        };
        match self {
            Self::Fingerprints(ours) => Self::Fingerprints(common(ours)),
            Self::Narrowed { issuers, fingerprints: ours } => {
                Self::Narrowed { issuers, fingerprints: common(ours) }
            }
            Self::System => Self::Narrowed { issuers: Issuers::System, fingerprints },
            Self::Authorities(pem) => Self::Narrowed { issuers: Issuers::Authorities(pem), fingerprints },
            Self::Insecure => Self::Fingerprints(fingerprints),
        }
    }
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
    /// What hosts without fingerprints of their own are checked by.
    verifier: Verifier,
    /// The configuration of these hosts. Kept, because it remembers sessions.
    common: Arc<ClientConfig>,
}

impl Verifiers {
    pub(super) fn new(trust: Trust) -> Result<Self, InvalidTrust> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let insecure = trust == Trust::Insecure;
        let (issuers, fingerprints, pins) = match trust {
            Trust::System => (Some(Issuers::System), Vec::new(), None),
            Trust::Authorities(pem) => (Some(Issuers::Authorities(pem)), Vec::new(), None),
            Trust::Fingerprints(fingerprints) => (None, fingerprints, None),
            Trust::Narrowed { issuers, fingerprints } => (Some(issuers), Vec::new(), Some(fingerprints)),
            Trust::Insecure => (None, Vec::new(), None),
        };
        let build = |issuers| {
            let roots = match issuers {
                Issuers::System => system_roots()?,
                Issuers::Authorities(pem) => read_roots(&pem)?,
            };
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| InvalidTrust::Unusable { reason: error.to_string() })
        };
        let authorities = issuers.map(build).transpose()?;
        let verifier = Verifier { fingerprints, authorities, pins, insecure, provider };
        let common = configuration(verifier.clone())?;
        Ok(Self { verifier, common })
    }

    /// The configuration for a host. Its own fingerprints were reported by a host that was trusted already, so each of them is
    /// enough, whatever else is demanded.
    pub(super) fn config_for(&self, own: &[Fingerprint]) -> Arc<ClientConfig> {
        if own.is_empty() {
            return Arc::clone(&self.common);
        }
        let mut verifier = self.verifier.clone();
        verifier.fingerprints.extend(own);
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

#[derive(Clone, Debug)]
struct Verifier {
    /// Each of these is enough by itself.
    fingerprints: Vec<Fingerprint>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    /// If given, a certificate that the authorities vouch for needs one of these as well.
    pins: Option<Vec<Fingerprint>>,
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
        let allowed = self.pins.as_ref().map(|pins| pins.contains(&fingerprint));
        let mut vouched_for = false;
        let reason = match &self.authorities {
            None => "its fingerprint is not among the trusted ones".to_owned(),
            Some(authorities) => {
                match authorities.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
                    Ok(verified) if allowed != Some(false) => return Ok(verified),
                    Ok(_) => {
                        vouched_for = true;
                        "its issuer is trusted, but its fingerprint is not among the allowed ones".to_owned()
                    }
                    // Said, because with `Trust::Fingerprints` the fingerprint would be enough.
                    Err(error) if allowed == Some(true) => {
                        format!("its fingerprint is among the allowed ones, but {}", why(&error))
                    }
                    Err(error) => why(&error),
                }
            }
        };
        let unknown = Unknown(UnknownCertificate { fingerprint, reason, vouched_for });
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

#[cfg(test)]
mod tests {
    use super::*;

    fn prints<const N: usize>(bytes: [u8; N]) -> Vec<Fingerprint> {
        bytes.map(|byte| Fingerprint::from([byte; 32])).to_vec()
    }

    #[test]
    fn an_issuer_and_a_fingerprint_must_both_hold() {
        let pem = || "pem".to_owned();
        for (base, issuers) in
            [(Trust::System, Issuers::System), (Trust::Authorities(pem()), Issuers::Authorities(pem()))]
        {
            let narrowed = base.narrowed(prints([1, 2]));
            assert_eq!(narrowed, Trust::Narrowed { issuers, fingerprints: prints([1, 2]) });
        }
    }

    #[test]
    fn fingerprints_are_narrowed_to_those_in_both() {
        let base = Trust::Fingerprints(prints([1, 2, 3]));
        assert_eq!(base.clone().narrowed(prints([4, 3, 1])), Trust::Fingerprints(prints([1, 3])));
        assert_eq!(base.narrowed(prints([4])), Trust::Fingerprints(prints([])));
    }

    #[test]
    fn what_is_narrowed_twice_is_never_wider() {
        let once = Trust::System.narrowed(prints([1, 2]));
        let twice = |fingerprints| once.clone().narrowed(fingerprints);
        let expected = |fingerprints| Trust::Narrowed { issuers: Issuers::System, fingerprints };
        assert_eq!(twice(prints([2, 3])), expected(prints([2])));
        assert_eq!(twice(prints([3])), expected(prints([])));
        // An empty list narrows nothing, and does not open what is narrowed to nothing either.
        assert_eq!(twice(prints([3])).narrowed(prints([])), expected(prints([])));
        assert_eq!(twice(prints([3])).narrowed(prints([3])), expected(prints([])));
    }

    #[test]
    fn no_check_at_all_is_narrowed_to_the_fingerprints() {
        assert_eq!(Trust::Insecure.narrowed(prints([1])), Trust::Fingerprints(prints([1])));
    }

    #[test]
    fn no_fingerprints_narrow_nothing() {
        let fingerprints = Trust::Fingerprints(prints([1]));
        for trust in [Trust::System, Trust::Authorities("pem".to_owned()), fingerprints, Trust::Insecure] {
            assert_eq!(trust.clone().narrowed(Vec::new()), trust);
        }
    }
}
