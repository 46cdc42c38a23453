//! The file key for one recipient, and the keys made from it.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use zeroize::Zeroizing;

use super::header::Stanza;
use super::identity::{Identity, Recipient};
use super::{EncryptError, FileKey};
use crate::random::Random;

const KIND: &str = "X25519";
const LABEL: &[u8] = b"age-encryption.org/v1/X25519";

/// A stanza that holds the file key for a recipient.
pub(super) fn wrap(
    file_key: &FileKey,
    recipient: &Recipient,
    random: &mut dyn Random,
) -> Result<Stanza, EncryptError> {
    let unusable = || EncryptError::Recipient(recipient.to_string());
    let ephemeral = crate::random::bytes::<32>(random)?;
    let private = PrivateKey::from_private_key(&X25519, &ephemeral[..]).map_err(|_| unusable())?;
    let share = private.compute_public_key().map_err(|_| unusable())?;
    let key =
        wrap_key(&private, &recipient.public, share.as_ref(), &recipient.public).ok_or_else(unusable)?;
    let mut body = file_key.to_vec();
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut body)
        .map_err(|_| unusable())?;
    Ok(Stanza { arguments: vec![KIND.to_owned(), STANDARD_NO_PAD.encode(share.as_ref())], body })
}

/// The file key, if the stanza is for this identity.
pub(super) fn unwrap(stanza: &Stanza, identity: &Identity) -> Option<FileKey> {
    let [kind, share] = stanza.arguments.as_slice() else { return None };
    if kind != KIND || stanza.body.len() != 32 {
        return None;
    }
    let share: [u8; 32] = STANDARD_NO_PAD.decode(share).ok()?.try_into().ok()?;
    let private = PrivateKey::from_private_key(&X25519, &identity.secret[..]).ok()?;
    let key = wrap_key(&private, &share, &share, &identity.recipient().public)?;
    let mut body = Zeroizing::new(stanza.body.clone());
    let opened =
        key.open_in_place(Nonce::assume_unique_for_key([0; 12]), Aad::empty(), &mut body[..]).ok()?;
    let file_key: &[u8; 16] = (&*opened).try_into().ok()?;
    Some(Zeroizing::new(*file_key))
}

fn wrap_key(private: &PrivateKey, peer: &[u8; 32], share: &[u8], recipient: &[u8]) -> Option<LessSafeKey> {
    let salt = [share, recipient].concat();
    let peer = UnparsedPublicKey::new(&X25519, peer);
    let key = agree(private, peer, (), |shared| Ok(derive(&salt, shared, LABEL))).ok()?;
    UnboundKey::new(&CHACHA20_POLY1305, &key[..]).ok().map(LessSafeKey::new)
}

/// The key the header is authenticated by.
pub(super) fn header_key(file_key: &FileKey) -> Zeroizing<[u8; 32]> {
    derive(&[], &file_key[..], b"header")
}

/// The key the payload is encrypted by.
pub(super) fn payload_key(file_key: &FileKey, nonce: &[u8]) -> Zeroizing<[u8; 32]> {
    derive(nonce, &file_key[..], b"payload")
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        32
    }
}

fn derive(salt: &[u8], material: &[u8], label: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; 32]);
    let extracted = Salt::new(HKDF_SHA256, salt).extract(material);
    let info = [label];
    let expanded = extracted.expand(&info, Length).and_then(|okm| okm.fill(&mut key[..]));
    expanded.expect("32 bytes are less than HKDF's limit");
    key
}
