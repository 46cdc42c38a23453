//! Looking at a certificate without believing it.

use talmox_exec::preflight::{Certificates, Told};
use talmox_pve::client::{
    Body, BoxFuture, Endpoint, HttpRequest, HttpsTransport, Method, Target, Transport as _, TransportError,
    Trust,
};
use talmox_types::Fingerprint;

/// Shows what endpoints show. It trusts nobody, so the connection ends with the certificate and nothing is sent.
pub(crate) struct ShownCertificates;

impl ShownCertificates {
    async fn look(endpoint: &Endpoint) -> Told<Fingerprint> {
        let nobody =
            HttpsTransport::new(Trust::Fingerprints(Vec::new())).map_err(|error| error.to_string())?;
        let target = Target { endpoint: endpoint.clone(), fingerprints: Vec::new() };
        let request = HttpRequest {
            method: Method::Get,
            path: "/api2/json/version".to_owned(),
            headers: Vec::new(),
            body: Body::Empty,
        };
        match nobody.send(&target, request).await {
            Err(TransportError::Certificate(certificate)) => Ok(certificate.fingerprint),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("it answered without showing a certificate".to_owned()),
        }
    }
}

impl Certificates for ShownCertificates {
    fn of<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, Told<Fingerprint>> {
        Box::pin(Self::look(endpoint))
    }
}
