//! Private keys in the encodings Talos uses.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use secrecy::{ExposeSecret as _, SecretString};

use super::der::{self, NULL, OCTET_STRING, Reader, SEQUENCE};
use super::pem;
use crate::random;

/// A private key could not be read or made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("not a private key in PEM")]
    NotPem,
    #[error("not a private key that Talos can use (EC P-256 or P-384, Ed25519, RSA)")]
    Unusable,
    #[error("the crypto library could not make a key")]
    Generation,
    #[error("the crypto library could not sign")]
    Signature,
}

/// What kind of key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    EcdsaP256,
    EcdsaP384,
    Ed25519,
    Rsa,
}

/// A private key: its PEM text as it was read or made, and the key itself.
#[derive(Clone)]
pub struct PrivateKey {
    pem: SecretString,
    pair: Arc<Pair>,
}

enum Pair {
    Ecdsa(KeyKind, EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// Object identifiers, encoded.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
const ECDSA_WITH_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const RSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b];

impl PrivateKey {
    /// Makes a key. The crypto library or the system draws the randomness: a key made from anything else would be worth nothing.
    pub fn generate(kind: KeyKind) -> Result<Self, KeyError> {
        let failed = |_| KeyError::Generation;
        let encoded = match kind {
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 => {
                let algorithm = if kind == KeyKind::EcdsaP256 {
                    &ECDSA_P256_SHA256_ASN1_SIGNING
                } else {
                    &ECDSA_P384_SHA384_ASN1_SIGNING
                };
                let pair = EcdsaKeyPair::generate(algorithm).map_err(failed)?;
                let der: EcPrivateKeyRfc5915Der<'_> = pair.private_key().as_der().map_err(failed)?;
                pem::encode("EC PRIVATE KEY", der.as_ref())
            }
            KeyKind::Ed25519 => {
                let seed =
                    random::bytes::<32>(&mut random::SystemRandom).map_err(|_| KeyError::Generation)?;
                let pair =
                    Ed25519KeyPair::from_seed_unchecked(&seed[..]).map_err(|_| KeyError::Generation)?;
                let der = pair.to_pkcs8v1().map_err(failed)?;
                // Not a standard label, but the one Talos writes and reads.
                pem::encode("ED25519 PRIVATE KEY", der.as_ref())
            }
            KeyKind::Rsa => {
                let pair = RsaKeyPair::generate(KeySize::Rsa4096).map_err(failed)?;
                let der: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
                let inner = pkcs8_content(der.as_ref()).ok_or(KeyError::Generation)?;
                pem::encode("RSA PRIVATE KEY", inner)
            }
        };
        Self::parse(SecretString::from(encoded.as_str())).map_err(|_| KeyError::Generation)
    }

    /// Reads a key; the text is kept as it is.
    pub fn parse(pem: SecretString) -> Result<Self, KeyError> {
        let pair = {
            let (label, der) = pem::decode(pem.expose_secret()).ok_or(KeyError::NotPem)?;
            read_pair(label, &der)?
        };
        Ok(Self { pem, pair: Arc::new(pair) })
    }

    pub fn kind(&self) -> KeyKind {
        match &*self.pair {
            Pair::Ecdsa(kind, _) => *kind,
            Pair::Ed25519(_) => KeyKind::Ed25519,
            Pair::Rsa(_) => KeyKind::Rsa,
        }
    }

    /// The PEM text, a secret.
    pub fn pem(&self) -> &SecretString {
        &self.pem
    }

    /// The public key as it stands in a certificate (`SubjectPublicKeyInfo`).
    pub(super) fn public_info(&self) -> Result<Vec<u8>, KeyError> {
        let info: PublicKeyX509Der<'_> = match &*self.pair {
            Pair::Ecdsa(_, pair) => pair.public_key().as_der(),
            Pair::Ed25519(pair) => pair.public_key().as_der(),
            Pair::Rsa(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Unusable)?;
        Ok(info.as_ref().to_vec())
    }

    /// The algorithm of its signatures (`AlgorithmIdentifier`).
    pub(super) fn signature_algorithm(&self) -> Vec<u8> {
        match self.kind() {
            KeyKind::EcdsaP256 => der::sequence(&[&der::object(ECDSA_WITH_SHA256)]),
            KeyKind::EcdsaP384 => der::sequence(&[&der::object(ECDSA_WITH_SHA384)]),
            KeyKind::Ed25519 => der::sequence(&[&der::object(ED25519)]),
            KeyKind::Rsa => der::sequence(&[&der::object(RSA_WITH_SHA256), &der::tagged(NULL, &[])]),
        }
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::Signature;
        match &*self.pair {
            Pair::Ecdsa(_, pair) => {
                Ok(pair.sign(&SystemRandom::new(), message).map_err(failed)?.as_ref().to_vec())
            }
            Pair::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

fn read_pair(label: &str, der: &[u8]) -> Result<Pair, KeyError> {
    let ecdsa = || {
        [
            (KeyKind::EcdsaP256, &ECDSA_P256_SHA256_ASN1_SIGNING),
            (KeyKind::EcdsaP384, &ECDSA_P384_SHA384_ASN1_SIGNING),
        ]
        .into_iter()
        .find_map(|(kind, algorithm)| {
            EcdsaKeyPair::from_private_key_der(algorithm, der).ok().map(|pair| Pair::Ecdsa(kind, pair))
        })
    };
    let ed25519 = || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok().map(Pair::Ed25519);
    let rsa = || RsaKeyPair::from_der(der).or_else(|_| RsaKeyPair::from_pkcs8(der)).ok().map(Pair::Rsa);
    match label {
        "EC PRIVATE KEY" => ecdsa(),
        "ED25519 PRIVATE KEY" => ed25519(),
        "RSA PRIVATE KEY" => rsa(),
        "PRIVATE KEY" => ed25519().or_else(ecdsa).or_else(rsa),
        _ => return Err(KeyError::NotPem),
    }
    .ok_or(KeyError::Unusable)
}

/// The key inside a PKCS#8 wrapper.
fn pkcs8_content(der: &[u8]) -> Option<&[u8]> {
    let mut fields = Reader(der).expect(SEQUENCE)?.reader();
    fields.next()?;
    fields.expect(SEQUENCE)?;
    Some(fields.expect(OCTET_STRING)?.content)
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_labels_and_lengths_talos_writes() {
        for (kind, label, length) in
            [(KeyKind::EcdsaP256, "EC PRIVATE KEY", 121), (KeyKind::Ed25519, "ED25519 PRIVATE KEY", 48)]
        {
            let key = PrivateKey::generate(kind).unwrap();
            let (found, der) = pem::decode(key.pem().expose_secret()).unwrap();
            assert_eq!((found, der.len(), key.kind()), (label, length, kind));
        }
    }

    #[test]
    fn a_service_account_key_is_rsa_in_pkcs1() {
        let key = PrivateKey::generate(KeyKind::Rsa).unwrap();
        let (label, der) = pem::decode(key.pem().expose_secret()).unwrap();
        assert_eq!(label, "RSA PRIVATE KEY");
        assert!(der.len() > 2300 && key.kind() == KeyKind::Rsa);
    }

    #[test]
    fn debug_hides_the_key() {
        let key = PrivateKey::generate(KeyKind::Ed25519).unwrap();
        let shown = format!("{key:?}");
        let body = key.pem().expose_secret().lines().nth(1).unwrap().to_owned();
        assert!(!shown.contains(&body) && shown.contains("Ed25519"), "{shown}");
    }

    #[test]
    fn other_texts_are_refused() {
        let read = |text: &str| PrivateKey::parse(SecretString::from(text)).map(|_| ()).unwrap_err();
        assert_eq!(read("nonsense"), KeyError::NotPem);
        assert_eq!(
            read("-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"),
            KeyError::Unusable
        );
        assert_eq!(read("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), KeyError::NotPem);
    }
}
