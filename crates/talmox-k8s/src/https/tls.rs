//! Whom to believe, and what to show.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Identity, Server, TransportError};

pub(super) async fn handshake(
    server: &Server,
    identity: &Identity,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, TransportError> {
    let config = configuration(identity)
        .map_err(|error| not_trusted(format!("the certificates cannot be used: {error}")))?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| not_trusted(format!("no certificate can name {}", server.host)))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => not_trusted(error.to_string()),
            _ => TransportError::NotReached { reason: error.to_string() },
        }
    })
}

fn not_trusted(reason: String) -> TransportError {
    TransportError::NotTrusted { reason }
}

fn configuration(identity: &Identity) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in &identity.authority {
        roots.add(certificate.clone())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// A connection that broke after the request had left. In TLS 1.3 a server says only then that it does not like the
/// client's certificate, before it has looked at any request.
pub(super) fn broken(error: &hyper::Error) -> TransportError {
    let causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    for cause in causes {
        let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        if let Some(rustls::Error::AlertReceived(alert)) = inner.and_then(|one| one.downcast_ref()) {
            return not_trusted(format!("the server refuses our certificate: {alert:?}"));
        }
    }
    TransportError::Lost { reason: "the connection was closed before the reply had come".to_owned() }
}
