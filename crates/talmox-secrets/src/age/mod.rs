//! The age v1 format for X25519 recipients: header, payload in chunks, armor.
//!
//! <https://age-encryption.org/v1> is all of it. Other kinds of recipients (passphrases, SSH keys, plugins) are passed over
//! when reading and cannot be written to.

mod armor;
mod bech32;
mod flow;
mod header;
mod identity;
mod stream;
mod wrap;

use secrecy::SecretSlice;
use zeroize::Zeroizing;

pub use flow::{Opener, Sealer};
pub use identity::{Identities, Identity, InvalidIdentity, InvalidRecipient, Recipient, parse_identities};

use crate::random::{NoRandomness, Random};
use header::Header;

/// The key all recipients get: it opens the payload.
type FileKey = Zeroizing<[u8; 16]>;

/// Why a file was not encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptError {
    #[error("there is no recipient to encrypt for")]
    NoRecipient,
    #[error("the recipient {0} is a key nothing can be agreed upon with")]
    Recipient(String),
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// Why a file was not decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    #[error("not an age file: {0}")]
    Format(&'static str),
    #[error("none of the keys at hand opens it")]
    NoKeyFits,
    #[error("its header was changed after it was written")]
    Header,
    #[error("it was changed or cut off after it was written")]
    Payload,
}

/// Encrypts bytes for every recipient.
pub fn encrypt(
    plain: &[u8],
    recipients: &[Recipient],
    random: &mut dyn Random,
) -> Result<Vec<u8>, EncryptError> {
    let (mut out, payload_key) = begin(recipients, random)?;
    stream::seal(&payload_key, plain, &mut out);
    Ok(out)
}

/// All that comes before the payload, and the key of that.
fn begin(
    recipients: &[Recipient],
    random: &mut dyn Random,
) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), EncryptError> {
    if recipients.is_empty() {
        return Err(EncryptError::NoRecipient);
    }
    let file_key: FileKey = crate::random::bytes(random)?;
    let mut stanzas = Vec::with_capacity(recipients.len());
    for recipient in recipients {
        stanzas.push(wrap::wrap(&file_key, recipient, random)?);
    }
    let mut out = Header::new(stanzas).sealed(&file_key);
    let nonce = crate::random::bytes::<16>(random)?;
    out.extend_from_slice(&nonce[..]);
    Ok((out, wrap::payload_key(&file_key, &nonce[..])))
}

/// The same as text.
pub fn encrypt_armored(
    plain: &[u8],
    recipients: &[Recipient],
    random: &mut dyn Random,
) -> Result<String, EncryptError> {
    encrypt(plain, recipients, random).map(|bytes| armor::encode(&bytes))
}

/// Decrypts a file, armored or not, with whichever key fits.
pub fn decrypt(file: &[u8], identities: &[Identity]) -> Result<SecretSlice<u8>, DecryptError> {
    open(file, identities).map(|plain| SecretSlice::from(plain.to_vec()))
}

pub(crate) fn open(file: &[u8], identities: &[Identity]) -> Result<Zeroizing<Vec<u8>>, DecryptError> {
    let decoded;
    let file = match armor::decode(file)? {
        Some(bytes) => {
            decoded = bytes;
            &decoded
        }
        None => file,
    };
    let (header, payload) = Header::parse(file)?;
    let file_key = file_key(&header, identities)?;
    let (nonce, chunks) = payload.split_at_checked(16).ok_or(DecryptError::Payload)?;
    stream::open(&wrap::payload_key(&file_key, nonce), chunks).ok_or(DecryptError::Payload)
}

fn file_key(header: &Header, identities: &[Identity]) -> Result<FileKey, DecryptError> {
    let file_key = header
        .stanzas
        .iter()
        .find_map(|stanza| identities.iter().find_map(|identity| wrap::unwrap(stanza, identity)))
        .ok_or(DecryptError::NoKeyFits)?;
    if header.is_authentic(&file_key) { Ok(file_key) } else { Err(DecryptError::Header) }
}
