//! Certificates an authority signs, for whoever holds one: a node does, for itself and its clients.

use std::net::IpAddr;

use super::Authority;
use crate::client::{ClientCertificate, ClientError};
use crate::pki::{Drawn, KeyKind, PrivateKey, Subject, Usage, issue, self_sign};
use crate::random::{self, Random};
use crate::time::Time;

/// What a certificate says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    pub organizations: Vec<String>,
    pub common_name: Option<String>,
    pub purpose: Purpose,
}

/// Who shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// A client of Talos.
    #[default]
    Client,
    /// A client of Kubernetes, whose key may also encipher.
    KubernetesClient,
    /// A server, by the addresses and names it answers to.
    Server { addresses: Vec<IpAddr>, names: Vec<String> },
}

impl Authority {
    /// A new authority that signs itself.
    pub fn generate(
        organization: &str,
        kind: KeyKind,
        (from, until): (Time, Time),
        random: &mut dyn Random,
    ) -> Result<Self, ClientError> {
        let drawn = Drawn {
            serial: *random::bytes(random).map_err(ClientError::Random)?,
            key_id: *random::bytes(random).map_err(ClientError::Random)?,
        };
        let subject = Subject { organizations: vec![organization.to_owned()], common_name: None };
        let key = PrivateKey::generate(kind).map_err(ClientError::Key)?;
        let certificate = self_sign(&key, &subject, &drawn, from, until).map_err(ClientError::Key)?;
        Ok(Self { certificate, key })
    }

    /// A certificate with a new key of the kind the authority has.
    pub fn issue(
        &self,
        leaf: &Leaf,
        times: (Time, Time),
        random: &mut dyn Random,
    ) -> Result<ClientCertificate, ClientError> {
        let Leaf { organizations, common_name, purpose } = leaf;
        let mut organizations = organizations.clone();
        organizations.sort();
        organizations.dedup();
        let subject = Subject { organizations, common_name: common_name.clone() };
        let usage = match purpose {
            Purpose::Client => Usage::Signature,
            Purpose::KubernetesClient => Usage::SignatureAndEncipherment,
            Purpose::Server { addresses, names } => Usage::Server { addresses, names },
        };
        let serial = random::bytes(random).map_err(ClientError::Random)?;
        let key = PrivateKey::generate(self.key.kind()).map_err(ClientError::Key)?;
        let certificate = issue((&self.certificate, &self.key), &key, &subject, usage, &serial, times)
            .map_err(ClientError::Key)?;
        Ok(ClientCertificate { certificate, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SystemRandom;

    #[test]
    fn an_authority_signs_servers() {
        let times = (Time::from_unix(1_700_000_000), Time::from_unix(1_700_086_400));
        let authority = Authority::generate("talos", KeyKind::Ed25519, times, &mut SystemRandom).unwrap();
        assert!(authority.certificate.is_authority());
        let addresses = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let purpose = Purpose::Server { addresses, names: vec!["cp-1".to_owned()] };
        let leaf = Leaf { purpose, ..Leaf::default() };
        let server = authority.issue(&leaf, times, &mut SystemRandom).unwrap();
        assert!(server.certificate.belongs_to(&server.key) && !server.certificate.is_authority());
        assert_eq!(server.certificate.not_after(), times.1);
    }
}
