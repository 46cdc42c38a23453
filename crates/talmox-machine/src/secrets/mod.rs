//! The secrets bundle: everything that makes a cluster this cluster.
//!
//! One is made per cluster, ever. It can be read from `talosctl`'s `secrets.yaml` and talhelper's `talsecret.yaml` (the same
//! document), and from the config of a control plane.

mod accepted;
mod extract;
mod file;
mod generate;
mod issue;
mod rotation;

use std::fmt;

use secrecy::SecretString;

pub use accepted::Accepted;
pub use extract::{ExtractError, from_config};
pub use generate::GenerateError;
pub use issue::{Leaf, Purpose};
pub use rotation::Rotation;

use crate::pki::{Certificate, PrivateKey};
use crate::time::Time;

/// The secrets of a cluster. `Debug` shows none of them.
#[derive(Clone)]
pub struct Bundle {
    /// Text without a meaning: two alphabets of base64 are in use, so it is never decoded.
    pub cluster_id: String,
    pub cluster_secret: SecretString,
    pub bootstrap_token: SecretString,
    pub encryption: Encryption,
    pub trustd_token: SecretString,
    pub etcd: Authority,
    pub kubernetes: Authority,
    pub aggregator: Authority,
    pub service_account: PrivateKey,
    pub os: Authority,
    /// Authorities that are to take the place of present ones.
    pub rotation: Rotation,
}

/// What Kubernetes' secrets are encrypted with in etcd.
#[derive(Clone)]
pub enum Encryption {
    Secretbox(SecretString),
    /// Of clusters that began before Talos 1.3.
    AesCbc(SecretString),
}

/// A certificate authority: its certificate and its key.
#[derive(Clone, Debug)]
pub struct Authority {
    pub certificate: Certificate,
    pub key: PrivateKey,
}

/// One thing a bundle holds, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub name: &'static str,
    /// When it ends, if it does.
    pub ends: Option<Time>,
}

impl Bundle {
    /// What it holds and when it ends; never a secret.
    pub fn held(&self) -> Vec<Held> {
        let secret = |name| Held { name, ends: None };
        let authority =
            |name, authority: &Authority| Held { name, ends: Some(authority.certificate.not_after()) };
        let encryption = match self.encryption {
            Encryption::Secretbox(_) => "encryption secret (secretbox)",
            Encryption::AesCbc(_) => "encryption secret (aescbc)",
        };
        let next = [
            ("new Kubernetes authority, not in force everywhere yet", &self.rotation.kubernetes),
            ("new Talos authority, not in force everywhere yet", &self.rotation.os),
        ];
        let next = next.into_iter().filter_map(|(name, next)| Some(authority(name, next.as_ref()?)));
        let mut held = vec![
            secret("cluster id"),
            secret("cluster secret"),
            secret("bootstrap token"),
            secret(encryption),
            secret("trustd token"),
            authority("etcd authority", &self.etcd),
            authority("Kubernetes authority", &self.kubernetes),
            authority("aggregator authority", &self.aggregator),
            secret("service account key"),
            authority("Talos authority", &self.os),
        ];
        held.extend(next);
        held
    }

    /// What is wrong with a bundle that could be read.
    pub fn check(&self, now: Time) -> Vec<String> {
        let ended = self.authorities().filter(|(_, authority)| authority.certificate.not_after() < now);
        let ended = ended.map(|(name, authority)| {
            format!("{name}: the certificate ended at {}", authority.certificate.not_after())
        });
        self.broken(now).into_iter().chain(ended).collect()
    }

    /// What makes it of no use to anybody. An authority that ended does not: whatever the others signed is as good as before.
    pub fn broken(&self, now: Time) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, authority) in self.authorities() {
            let certificate = &authority.certificate;
            if !certificate.belongs_to(&authority.key) {
                problems.push(format!("{name}: the key does not belong to the certificate"));
            }
            if !certificate.is_authority() {
                problems.push(format!("{name}: the certificate may not sign others"));
            }
            if certificate.not_before() > now {
                problems.push(format!("{name}: the certificate begins at {}", certificate.not_before()));
            }
        }
        problems
    }

    /// All of them, by their places in the file.
    fn authorities(&self) -> impl Iterator<Item = (&'static str, &Authority)> {
        let authorities = [
            ("certs.etcd", &self.etcd),
            ("certs.k8s", &self.kubernetes),
            ("certs.k8saggregator", &self.aggregator),
            ("certs.os", &self.os),
        ];
        let next = [("rotation.k8s", &self.rotation.kubernetes), ("rotation.os", &self.rotation.os)];
        let next = next.into_iter().filter_map(|(name, next)| Some((name, next.as_ref()?)));
        authorities.into_iter().chain(next)
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secretbox(_) => "Secretbox(..)",
            Self::AesCbc(_) => "AesCbc(..)",
        })
    }
}
