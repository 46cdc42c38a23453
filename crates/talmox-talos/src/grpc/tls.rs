//! Whom to believe, and what to show.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use sha2::{Digest as _, Sha256};

use crate::{Access, Fingerprint, TransportError};

pub(super) fn configuration(access: &Access) -> Result<ClientConfig, TransportError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?;
    let mut config = match access {
        Access::Secure(identity) => {
            let mut roots = RootCertStore::empty();
            for certificate in &identity.authority {
                roots.add(certificate.clone()).map_err(|error| unusable(&error))?;
            }
            builder
                .with_root_certificates(roots)
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(|error| unusable(&error))?
        }
        Access::Maintenance { fingerprints } => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Maintenance {
                fingerprints: fingerprints.clone(),
                provider,
            }))
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    // Talos resumes no sessions.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// Of the certificate at the other end.
pub(super) fn shown(peer: &ClientConnection) -> Option<Fingerprint> {
    fingerprint(peer.peer_certificates()?.first()?).ok()
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
    let key = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
    Ok(Fingerprint(Sha256::digest(&key).into()))
}

fn unusable(error: &rustls::Error) -> TransportError {
    TransportError::Certificate { reason: format!("the certificates cannot be used: {error}") }
}

/// A node in maintenance mode proves nothing by its certificate unless somebody read its fingerprint off the console.
#[derive(Debug)]
struct Maintenance {
    fingerprints: Vec<Fingerprint>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Maintenance {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.fingerprints.is_empty() {
            return Ok(ServerCertVerified::assertion());
        }
        if self.fingerprints.contains(&fingerprint(end_entity)?) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
