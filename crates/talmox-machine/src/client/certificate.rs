//! Client certificates, signed by the authorities of a bundle.

use secrecy::ExposeSecret as _;

use crate::pki::{Certificate, KeyError, PrivateKey, Subject, Usage, issue};
use crate::random::{self, NoRandomness, Random};
use crate::secrets::{Authority, Bundle};
use crate::time::{HOUR, Time};

/// How long client certificates hold, in seconds: a year of 365 days.
pub const DEFAULT_LIFETIME: i64 = 8760 * HOUR;

/// Clocks differ: a certificate that begins now would be refused by a machine that is a little behind.
const BACKDATED: i64 = 10;

/// A client certificate could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error("could not draw a serial number")]
    Random(#[source] NoRandomness),
    #[error("could not make the key or sign the certificate")]
    Key(#[source] KeyError),
    #[error("a Talos client needs a role")]
    NoRole,
}

/// What a Talos client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TalosRole {
    Admin,
    EtcdBackup,
    ImageVerifier,
    Impersonator,
    MetaWriter,
    Operator,
    Reader,
}

impl TalosRole {
    pub const ALL: [Self; 7] = [
        Self::Admin,
        Self::EtcdBackup,
        Self::ImageVerifier,
        Self::Impersonator,
        Self::MetaWriter,
        Self::Operator,
        Self::Reader,
    ];

    /// The organization it stands for in a certificate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "os:admin",
            Self::EtcdBackup => "os:etcd:backup",
            Self::ImageVerifier => "os:image:verifier",
            Self::Impersonator => "os:impersonator",
            Self::MetaWriter => "os:meta:writer",
            Self::Operator => "os:operator",
            Self::Reader => "os:reader",
        }
    }
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub certificate: Certificate,
    pub key: PrivateKey,
}

impl Bundle {
    /// A certificate for the Talos API.
    pub fn talos_client(
        &self,
        roles: &[TalosRole],
        now: Time,
        lifetime: i64,
        random: &mut dyn Random,
    ) -> Result<ClientCertificate, ClientError> {
        if roles.is_empty() {
            return Err(ClientError::NoRole);
        }
        let mut organizations: Vec<String> = roles.iter().map(|role| role.name().to_owned()).collect();
        organizations.sort();
        organizations.dedup();
        let subject = Subject { organizations, common_name: None };
        client(&self.os, &subject, Usage::Signature, now, lifetime, random)
    }

    /// An administrator's certificate for the Kubernetes API.
    pub fn kubernetes_admin(
        &self,
        now: Time,
        lifetime: i64,
        random: &mut dyn Random,
    ) -> Result<ClientCertificate, ClientError> {
        let subject = Subject {
            organizations: vec!["system:masters".to_owned()],
            common_name: Some("admin".to_owned()),
        };
        client(&self.kubernetes, &subject, Usage::SignatureAndEncipherment, now, lifetime, random)
    }
}

/// The key is of the kind its authority has.
fn client(
    authority: &Authority,
    subject: &Subject,
    usage: Usage<'_>,
    now: Time,
    lifetime: i64,
    random: &mut dyn Random,
) -> Result<ClientCertificate, ClientError> {
    let serial = random::bytes(random).map_err(ClientError::Random)?;
    let key = PrivateKey::generate(authority.key.kind()).map_err(ClientError::Key)?;
    let times = (now.plus(-BACKDATED), now.plus(lifetime));
    let certificate = issue((&authority.certificate, &authority.key), &key, subject, usage, &serial, times)
        .map_err(ClientError::Key)?;
    Ok(ClientCertificate { certificate, key })
}

impl ClientCertificate {
    pub(super) fn encoded(&self) -> (String, String) {
        use base64::Engine as _;
        let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        (encode(self.certificate.pem()), encode(self.key.pem().expose_secret()))
    }
}
