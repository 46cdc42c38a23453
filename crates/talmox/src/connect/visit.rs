//! A first visit: to a Proxmox that no description names yet.

use std::sync::Arc;

use anyhow::Context as _;
use talmox_exec::preflight::{Certificates as _, Told};
use talmox_pve::client::{
    Body, Client, Credentials, Endpoint, HttpRequest, HttpsTransport, Method, Settings, Target,
    Transport as _, TransportError, Trust,
};
use talmox_types::Fingerprint;

use super::certificate::ShownCertificates;
use super::choose;
use super::environment::Environment;
use crate::failure::Failure;

/// The endpoint the environment names, and the variable that does.
pub(crate) fn endpoint_of_environment() -> Result<Option<(String, Endpoint)>, Failure> {
    choose::endpoint_of(&Environment::of_process())
}

/// Credentials of the environment that may go to an endpoint somebody typed, and what gave them.
pub(crate) fn credentials_for(endpoint: &Endpoint) -> Result<Option<(Credentials, String)>, Failure> {
    choose::credentials_for(endpoint, &Environment::of_process())
}

/// What an endpoint shows, and whether this system vouches for it. No credentials are sent.
pub(crate) async fn look(endpoint: &Endpoint) -> Told<(Fingerprint, bool)> {
    let shown = ShownCertificates.of(endpoint).await?;
    let Ok(system) = HttpsTransport::new(Trust::System) else { return Ok((shown, false)) };
    let target = Target { endpoint: endpoint.clone(), fingerprints: Vec::new() };
    let path = "/api2/json/version".to_owned();
    let request = HttpRequest { method: Method::Get, path, headers: Vec::new(), body: Body::Empty };
    let vouched = !matches!(system.send(&target, request).await, Err(TransportError::Certificate(_)));
    Ok((shown, vouched))
}

/// A certificate the system does not trust, and where a person sees the right one.
pub(crate) fn to_compare(endpoint: &Endpoint, shown: Fingerprint) -> String {
    format!(
        "{endpoint} shows the certificate\n  {shown}\n\
         Compare it on the host itself: in the web interface below Node, System, Certificates (pve-ssl.pem), or\n  \
         openssl x509 -in /etc/pve/local/pve-ssl.pem -noout -fingerprint -sha256"
    )
}

/// A client for one endpoint that believes one certificate, or what the system believes.
pub(crate) fn client(
    endpoint: Endpoint,
    credentials: &Credentials,
    pinned: Option<Fingerprint>,
) -> anyhow::Result<Client> {
    let trust = pinned.map_or(Trust::System, |fingerprint| Trust::Fingerprints(vec![fingerprint]));
    let transport = HttpsTransport::new(trust).map_err(|error| Failure::new(error.to_string()))?;
    Client::new(vec![endpoint], credentials, Arc::new(transport), Settings::default())
        .context("could not get ready to ask Proxmox")
}
