//! Certificates for tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use secrecy::SecretString;
use talmox_k8s::Identity;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        Self { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate and its key.
    pub(crate) fn issue(&self, common_name: &str, names: &[&str]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn identity(&self, common_name: &str) -> Arc<Identity> {
        let (certificate, key) = self.issue(common_name, &[]);
        let identity = Identity::from_pem(&self.pem(), &certificate, &SecretString::from(key));
        Arc::new(identity.unwrap())
    }
}
