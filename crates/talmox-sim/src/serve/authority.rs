//! The cluster's certificate authority and the certificates of its hosts.

use std::collections::BTreeMap;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::ServeError;
use super::listen::own_address;

/// Keys and certificates as PEM. Saved with a world, so that its hosts are known again.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Authority {
    pub(super) certificate: String,
    hosts: BTreeMap<String, Identity>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Identity {
    certificate: String,
    key: String,
}

fn failed(error: &dyn std::error::Error) -> ServeError {
    ServeError::Certificate { reason: error.to_string() }
}

fn named(common_name: &str, names: Vec<String>) -> Result<CertificateParams, ServeError> {
    let mut parameters = CertificateParams::new(names).map_err(|error| failed(&error))?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    parameters.distinguished_name = subject;
    Ok(parameters)
}

impl Authority {
    /// A new authority with a certificate for each host, good for its name, for loopback and for the address it may have.
    pub(super) fn new<'h>(hosts: impl Iterator<Item = &'h String>) -> Result<Self, ServeError> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let mut parameters = named("Proxmox Virtual Environment (simulated)", Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = parameters.self_signed(&key).map_err(|error| failed(&error))?.pem();
        let issuer = Issuer::new(parameters, key);
        let hosts =
            hosts.enumerate().map(|(index, name)| Ok((name.clone(), Identity::new(name, index, &issuer)?)));
        Ok(Self { certificate, hosts: hosts.collect::<Result<_, ServeError>>()? })
    }

    /// Whether there is a certificate for each of these hosts.
    pub(super) fn covers<'h>(&self, mut hosts: impl Iterator<Item = &'h String>) -> bool {
        hosts.all(|name| self.hosts.contains_key(name))
    }

    /// The TLS settings and the SHA-256 fingerprint of a host.
    pub(super) fn of(&self, host: &str) -> Result<(Arc<ServerConfig>, String), ServeError> {
        let missing = || ServeError::Certificate { reason: format!("there is none for {host}") };
        let Identity { certificate, key } = self.hosts.get(host).ok_or_else(missing)?;
        let certificate =
            CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| failed(&error))?;
        let fingerprint = fingerprint(&certificate);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![certificate], key))
            .map_err(|error| failed(&error))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok((Arc::new(config), fingerprint))
    }
}

impl Identity {
    fn new(host: &str, index: usize, issuer: &Issuer<'_, KeyPair>) -> Result<Self, ServeError> {
        let key = KeyPair::generate().map_err(|error| failed(&error))?;
        let mut names = [host, "localhost", "127.0.0.1"].map(str::to_owned).to_vec();
        let own = own_address(index).to_string();
        if !names.contains(&own) {
            names.push(own);
        }
        let mut parameters = named(host, names)?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&key, issuer).map_err(|error| failed(&error))?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

/// As `pvenode cert info` shows it: `AA:BB:…`.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let pairs: Vec<String> =
        sha2::Sha256::digest(certificate).iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}
