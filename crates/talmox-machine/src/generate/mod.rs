//! Machine configs from inputs and a secrets bundle, for each version contract.
//!
//! A contract decides the layout: one document up to 1.11, one and a few more in 1.12 and 1.13, Kubernetes in documents of
//! its own from 1.14. What a contract does not know is not written.

mod input;
mod kubernetes;
mod legacy;
mod machine;

pub use input::{Input, InputError, Options, Role};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;

use crate::document::{Config, Document};
use crate::schema;
use crate::secrets::Authority;
use crate::value::Map;

impl Input<'_> {
    /// The config of a machine of that role.
    pub fn generate(&self, role: Role) -> Result<Config, InputError> {
        self.check()?;
        let mut documents = vec![legacy::document(self, role)];
        if self.is_multi_document() {
            documents.extend(machine::discovery_and_install(self));
        }
        documents.extend(machine::registries(self));
        documents.extend(machine::network(self));
        if self.is_multi_document() {
            documents.extend(kubernetes::common(self, role));
            if role == Role::ControlPlane {
                documents.extend(kubernetes::control_plane(self));
            }
        }
        Config::from_documents(documents).map_err(InputError::Documents)
    }

    /// Whether the contract is at least 1.`minor`.
    fn since(&self, minor: u16) -> bool {
        self.contract >= (talmox_types::Contract { major: 1, minor })
    }

    /// Whether Kubernetes, install and the rest have documents of their own.
    fn is_multi_document(&self) -> bool {
        self.since(14)
    }
}

/// A document of a kind the tables have.
fn document(kind: &str, body: Map) -> Document {
    let kind =
        schema::kind(kind).expect("generated kinds are in the tables, which a test of every contract shows");
    Document::new(kind, body)
}

/// Certificate and key in base64; without the key for machines that must not sign.
fn encoded(authority: &Authority, with_key: bool) -> Map {
    let key = if with_key { STANDARD.encode(authority.key.pem().expose_secret()) } else { String::new() };
    Map::new().with("crt", STANDARD.encode(authority.certificate.pem())).with("key", key)
}

/// Certificate and key as PEM.
fn plain(authority: &Authority) -> Map {
    Map::new().with("cert", authority.certificate.pem()).with("key", authority.key.pem().expose_secret())
}
