//! What a node shows, and whom it believes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
    SupportedProtocolVersion,
};

use super::{Api, Beside};
use crate::{Listener, Nodes, Peer};

/// Talos 1.13 and later take nothing older.
const NEW: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

impl Nodes {
    /// Unix milliseconds.
    fn time_of_day(&self) -> u64 {
        self.epoch + self.clock
    }

    /// Talos 1.12 and before take TLS 1.2 too.
    pub(super) fn takes_old_tls(&self, address: IpAddr) -> bool {
        self.at(address).and_then(|machine| self.run(machine)).is_some_and(|run| run.minor() < 13)
    }
}

/// The nodes' time of day or the real one, whichever is later: certificates are made by both clocks, and the nodes' may run
/// faster or have stood still.
#[derive(Debug)]
pub(super) struct LaterClock(pub(super) Arc<Beside>);

impl LaterClock {
    fn now(&self) -> UnixTime {
        let nodes = Duration::from_millis(self.0.nodes().time_of_day());
        UnixTime::since_unix_epoch(nodes.max(Duration::from_secs(UnixTime::now().as_secs())))
    }
}

impl TimeProvider for LaterClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

/// What becomes of a client whose certificate is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is sent an alert.
    Alert,
    /// It finishes its handshake; then the connection has to be closed.
    Silent,
}

/// The settings of a port; none if it is closed, or its certificate is none.
pub(super) fn configuration(
    listener: &Listener,
    (api, refusal): (Api, Refusal),
    takes_old: bool,
    clock: LaterClock,
) -> Option<ServerConfig> {
    let (Listener::Maintenance { certificate, key } | Listener::Secure { certificate, key, .. }) = listener
    else {
        return None;
    };
    let versions = if takes_old || api == Api::Kubernetes { rustls::ALL_VERSIONS } else { NEW };
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).ok()?;
    let builder = match listener {
        Listener::Secure { authorities, .. } => {
            let verifier = verifier(authorities, api)?;
            builder.with_client_cert_verifier(match refusal {
                Refusal::Alert => verifier,
                Refusal::Silent => Arc::new(AnyClient(verifier)),
            })
        }
        Listener::Maintenance { .. } | Listener::Closed => builder.with_no_client_auth(),
    };
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).ok()?;
    let mut config = builder.with_single_cert(chain, key).ok()?;
    config.alpn_protocols = match api {
        Api::Talos => vec![b"h2".to_vec()],
        Api::Kubernetes => vec![b"http/1.1".to_vec()],
    };
    config.time_provider = Arc::new(clock);
    // Talos resumes no sessions.
    config.send_tls13_tickets = 0;
    Some(config)
}

fn roots(authorities: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(authorities.as_bytes()).filter_map(Result::ok).collect()
}

/// Kubernetes lets those in who show nothing, and tells them in HTTP what they may not.
fn verifier(authorities: &str, api: Api) -> Option<Arc<dyn ClientCertVerifier>> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots(authorities));
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider);
    let builder = if api == Api::Kubernetes { builder.allow_unauthenticated() } else { builder };
    builder.build().ok()
}

/// Lets every client finish its handshake. That a client has the key of its certificate is proven all the same.
#[derive(Debug)]
struct AnyClient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Whether the client at a port with mutual TLS has shown no certificate, or one of another authority.
pub(super) fn is_refused(peer: &Peer, listener: &Listener) -> bool {
    let is_believed = match peer {
        Peer::Nobody => false,
        Peer::Certificate { authority, .. } => !authority.is_empty(),
    };
    matches!(listener, Listener::Secure { .. }) && !is_believed
}

/// Who is at the other end.
pub(super) fn peer(connection: &ServerConnection, listener: &Listener, clock: &LaterClock) -> Peer {
    let shown = connection.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
    let (Some(shown), Listener::Secure { authorities, .. }) = (shown, listener) else { return Peer::Nobody };
    let authority = roots(authorities).into_iter().find(|authority| signed(shown, authority, clock.now()));
    Peer::of_certificate(shown, authority.as_deref().unwrap_or_default())
}

/// Whether this authority in particular vouches for a certificate.
fn signed(certificate: &CertificateDer<'_>, authority: &CertificateDer<'static>, now: UnixTime) -> bool {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates([authority.clone()]);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider).build();
    verifier.is_ok_and(|verifier| verifier.verify_client_cert(certificate, &[], now).is_ok())
}
