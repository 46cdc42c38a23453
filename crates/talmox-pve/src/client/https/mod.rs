//! The real transport: HTTP/1.1 over TLS.
//!
//! Connections are driven by the request that uses them, never by a task of their own: dropping a request drops its
//! connection, and nothing runs when nobody waits. Proxmox closes a connection after five idle seconds, after a hundred
//! requests and after every error; the pool is ahead of it in all three.

mod body;
mod connection;
mod tls;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

pub use tls::{InvalidTrust, Issuers, Trust};

use crate::client::transport::BoxFuture;
use crate::client::{Endpoint, HttpRequest, HttpResponse, Target, Transport, TransportError};
use connection::{Connection, Failure};

/// A host that does not even take the connection in this time is as good as down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Talks to real hosts.
pub struct HttpsTransport {
    trust: tls::Verifiers,
    idle: Mutex<HashMap<Endpoint, Vec<Connection>>>,
}

impl HttpsTransport {
    pub fn new(trust: Trust) -> Result<Self, InvalidTrust> {
        if trust == Trust::Insecure {
            tracing::warn!("certificates are not checked: anybody on the network can read the credentials");
        }
        Ok(Self { trust: tls::Verifiers::new(trust)?, idle: Mutex::new(HashMap::new()) })
    }

    async fn exchange(&self, target: &Target, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let prepared = body::prepare(&target.endpoint, &request).await?;
        while let Some(connection) = self.take_idle(&target.endpoint) {
            match connection.exchange(prepared.request().await?).await {
                Ok((response, connection)) => return Ok(self.keep(target, response, connection)),
                // The host closed it while it lay idle, and nothing was sent: the next one, or a new one.
                Err(Failure::NeverSent(_)) => {}
                Err(Failure::Sent(error)) => return Err(error),
            }
        }
        let connection = self.connect(target).await?;
        match connection.exchange(prepared.request().await?).await {
            Ok((response, connection)) => Ok(self.keep(target, response, connection)),
            Err(Failure::NeverSent(reason)) => Err(TransportError::Connect { reason }),
            Err(Failure::Sent(error)) => Err(error),
        }
    }

    async fn connect(&self, target: &Target) -> Result<Connection, TransportError> {
        let opening = self.open(target);
        let Ok(opened) = tokio::time::timeout(CONNECT_TIMEOUT, opening).await else {
            let reason = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
            return Err(TransportError::Connect { reason });
        };
        opened
    }

    async fn open(&self, target: &Target) -> Result<Connection, TransportError> {
        let failed = |error: std::io::Error| TransportError::Connect { reason: plain(&error) };
        let endpoint = &target.endpoint;
        let stream = TcpStream::connect((endpoint.host(), endpoint.port())).await.map_err(failed)?;
        // Requests are small and wait for their answer; collecting them in the kernel only costs time.
        stream.set_nodelay(true).map_err(failed)?;
        let name = ServerName::try_from(endpoint.host().to_owned())
            .map_err(|error| TransportError::Connect { reason: error.to_string() })?;
        let connector = TlsConnector::from(self.trust.config_for(&target.fingerprints));
        let stream = connector.connect(name, stream).await.map_err(|error| tls::connect_error(&error))?;
        Connection::over(stream).await
    }

    fn take_idle(&self, endpoint: &Endpoint) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let connections = idle.get_mut(endpoint)?;
        connections.retain(Connection::is_fresh);
        connections.pop()
    }

    fn keep(&self, target: &Target, response: HttpResponse, connection: Connection) -> HttpResponse {
        if response.status < 400 && connection.is_reusable() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.entry(target.endpoint.clone()).or_default().push(connection);
        }
        response
    }
}

/// An error of the system without its number, which says nothing to anybody.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl Transport for HttpsTransport {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(self.exchange(target, request))
    }
}
