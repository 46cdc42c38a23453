//! Single values: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use std::collections::BTreeMap;

use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::DataKey;
use super::tree::Data;
use crate::random::{NoRandomness, Random};

/// SOPS draws nonces of this size.
const NONCE: usize = 32;
const TAG: usize = 16;

/// What a value is, once it is open.
pub(super) enum Opened {
    Data(Data),
    Comment(String),
}

/// Why a value was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// It is no encrypted value at all.
    Plain,
    /// It is one, but its parts cannot be read.
    Broken,
    /// It is not what was encrypted at this place with this key.
    Forged,
}

/// Nonces of values that were opened: a value that stays the same at the same place keeps its ciphertext, so that a
/// change of one value changes one line of a file. Known by a digest, since values are secret.
pub(super) type Nonces = BTreeMap<[u8; 32], [u8; NONCE]>;

pub(super) struct Cipher {
    cipher: AesGcm<Aes256, U32>,
}

/// The type as it is written, the bytes that are encrypted.
fn parts(value: &Opened) -> (&'static str, Zeroizing<Vec<u8>>) {
    match value {
        Opened::Comment(text) => ("comment", Zeroizing::new(text.clone().into_bytes())),
        Opened::Data(data) => {
            let kind = match data {
                // SOPS itself writes bytes as text.
                Data::Text(_) | Data::Bytes(_) | Data::Null => "str",
                Data::Integer(_) => "int",
                Data::Float(_) => "float",
                Data::Bool(_) => "bool",
                Data::Time(_) => "time",
            };
            (kind, Zeroizing::new(data.bytes()))
        }
    }
}

impl Cipher {
    pub(super) fn new(key: &DataKey) -> Self {
        Self { cipher: AesGcm::new((&**key).into()) }
    }

    /// Encrypts a value for its place. What is empty stays so, as SOPS has it.
    pub(super) fn seal(
        &self,
        value: &Opened,
        place: &str,
        nonces: &Nonces,
        random: &mut dyn Random,
    ) -> Result<String, NoRandomness> {
        let (kind, plain) = parts(value);
        if plain.is_empty() {
            return Ok(String::new());
        }
        let nonce = match nonces.get(&fingerprint(kind, &plain, place)) {
            Some(nonce) => *nonce,
            None => *crate::random::bytes(random)?,
        };
        let payload = Payload { msg: &plain, aad: place.as_bytes() };
        // Only texts of many gigabytes are refused.
        let sealed = self.cipher.encrypt(&Nonce::from(nonce), payload).map_err(|_| NoRandomness)?;
        let (data, tag) = sealed.split_at(sealed.len() - TAG);
        let [data, iv, tag] = [data, &nonce, tag].map(|bytes| STANDARD.encode(bytes));
        Ok(format!("ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]"))
    }

    /// Decrypts a value of a place, and remembers its nonce.
    pub(super) fn open(&self, text: &str, place: &str, nonces: &mut Nonces) -> Result<Opened, Closed> {
        if text.is_empty() {
            return Ok(Opened::Data(Data::Text(String::new())));
        }
        let inner = text.strip_prefix("ENC[AES256_GCM,data:").ok_or(Closed::Plain)?;
        let inner = inner.strip_suffix(']').ok_or(Closed::Broken)?;
        let (rest, kind) = inner.rsplit_once(",type:").ok_or(Closed::Broken)?;
        let (rest, tag) = rest.rsplit_once(",tag:").ok_or(Closed::Broken)?;
        let (data, iv) = rest.rsplit_once(",iv:").ok_or(Closed::Broken)?;
        let decode = |text: &str| STANDARD.decode(text).map_err(|_| Closed::Broken);
        let nonce: [u8; NONCE] = decode(iv)?.try_into().map_err(|_| Closed::Broken)?;
        let (mut sealed, tag) = (decode(data)?, decode(tag)?);
        if tag.len() != TAG {
            return Err(Closed::Broken);
        }
        sealed.extend_from_slice(&tag);
        let payload = Payload { msg: &sealed, aad: place.as_bytes() };
        let plain = self.cipher.decrypt(&Nonce::from(nonce), payload).map_err(|_| Closed::Forged)?;
        let plain = Zeroizing::new(plain);
        nonces.insert(fingerprint(kind, &plain, place), nonce);
        typed(kind, &plain).ok_or(Closed::Broken)
    }
}

fn fingerprint(kind: &str, plain: &[u8], place: &str) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    for part in [kind.as_bytes(), place.as_bytes(), plain] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

fn typed(kind: &str, plain: &[u8]) -> Option<Opened> {
    let text = std::str::from_utf8(plain).ok();
    let data = match kind {
        "str" | "bytes" => {
            text.map_or_else(|| Data::Bytes(plain.to_vec()), |text| Data::Text(text.to_owned()))
        }
        "int" => Data::Integer(text?.parse().ok()?),
        "float" => Data::Float(text?.parse().ok()?),
        "bool" => Data::Bool(match text? {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return None,
        }),
        "time" => Data::Time(super::timestamp::of_yaml(text?)?),
        "comment" => return Some(Opened::Comment(text?.to_owned())),
        _ => return None,
    };
    Some(Opened::Data(data))
}
