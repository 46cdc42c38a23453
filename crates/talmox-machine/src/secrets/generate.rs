//! A new bundle.

use super::{Authority, Bundle, Encryption, Rotation};
use crate::pki::{Drawn, KeyError, KeyKind, PrivateKey, Subject, self_sign};
use crate::random::{self, NoRandomness, Random};
use crate::time::{HOUR, Time};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use talmox_types::Contract;

/// How long authorities hold: ten years of 365 days.
const AUTHORITY_SECONDS: i64 = 87_600 * HOUR;

/// A bundle could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    #[error("could not draw a secret")]
    Random(#[source] NoRandomness),
    #[error("could not make the key or certificate of {what}")]
    Key { what: &'static str, source: KeyError },
}

impl Bundle {
    /// Makes the secrets of a new cluster. Nothing ever makes a second bundle for a cluster that has machines.
    pub fn generate(contract: Contract, now: Time, random: &mut dyn Random) -> Result<Self, GenerateError> {
        Self::with_service_accounts(KeyKind::Rsa, contract, now, random)
    }

    /// Secrets no machine is ever given, to see what becomes of a description. The key of service accounts is of a kind that is
    /// made at once; the one of a real bundle takes seconds.
    pub fn for_rehearsal(
        contract: Contract,
        now: Time,
        random: &mut dyn Random,
    ) -> Result<Self, GenerateError> {
        Self::with_service_accounts(KeyKind::EcdsaP256, contract, now, random)
    }

    fn with_service_accounts(
        kind: KeyKind,
        contract: Contract,
        now: Time,
        random: &mut dyn Random,
    ) -> Result<Self, GenerateError> {
        let failed = GenerateError::Random;
        let id = random::bytes::<32>(random).map_err(failed)?;
        let alphabet = if contract >= (Contract { major: 1, minor: 14 }) { STANDARD } else { URL_SAFE };
        Ok(Self {
            cluster_id: alphabet.encode(&id[..]),
            cluster_secret: random::secret(random).map_err(failed)?,
            bootstrap_token: random::token(random).map_err(failed)?,
            encryption: Encryption::Secretbox(random::secret(random).map_err(failed)?),
            trustd_token: random::token(random).map_err(failed)?,
            etcd: authority("etcd", Some("etcd"), KeyKind::EcdsaP256, now, random)?,
            kubernetes: kubernetes_authority(now, random)?,
            // Talos gives this one no subject at all.
            aggregator: authority("the aggregator", None, KeyKind::EcdsaP256, now, random)?,
            service_account: PrivateKey::generate(kind)
                .map_err(|source| GenerateError::Key { what: "service accounts", source })?,
            os: talos_authority(now, random)?,
            rotation: Rotation::default(),
        })
    }
}

pub(super) fn talos_authority(now: Time, random: &mut dyn Random) -> Result<Authority, GenerateError> {
    authority("Talos", Some("talos"), KeyKind::Ed25519, now, random)
}

pub(super) fn kubernetes_authority(now: Time, random: &mut dyn Random) -> Result<Authority, GenerateError> {
    authority("Kubernetes", Some("kubernetes"), KeyKind::EcdsaP256, now, random)
}

fn authority(
    what: &'static str,
    organization: Option<&str>,
    kind: KeyKind,
    now: Time,
    random: &mut dyn Random,
) -> Result<Authority, GenerateError> {
    let failed = |source| GenerateError::Key { what, source };
    let drawn = Drawn {
        serial: *random::bytes(random).map_err(GenerateError::Random)?,
        key_id: *random::bytes(random).map_err(GenerateError::Random)?,
    };
    let subject =
        Subject { organizations: organization.map(str::to_owned).into_iter().collect(), common_name: None };
    let key = PrivateKey::generate(kind).map_err(failed)?;
    let certificate = self_sign(&key, &subject, &drawn, now, now.plus(AUTHORITY_SECONDS)).map_err(failed)?;
    Ok(Authority { certificate, key })
}
