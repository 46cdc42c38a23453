//! From plain text to a SOPS file.

use aws_lc_rs::digest::{Context, SHA512};

use super::cipher::{Cipher, Nonces, Opened};
use super::error::EncryptError;
use super::metadata::{AgeKey, BLOCK, Metadata};
use super::parse::parse;
use super::print::print;
use super::selection::Selection;
use super::tree::{Comment, Data, Mapping, Part, Scalar, find};
use super::walk::{Stop, Turned, Visitor, walk};
use super::{DataKey, timestamp};
use crate::age::{self, Recipient};
use crate::random::Random;

/// What makes a MAC over encrypted values alone differ from one over all: SHA-256 of `sops`.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b, 0x0b,
    0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// How a new file is encrypted.
#[derive(Clone, Debug)]
pub struct Rule {
    pub recipients: Vec<Recipient>,
    pub selection: Selection,
    /// Whether the MAC leaves values out that are not encrypted.
    pub mac_only_encrypted: bool,
}

impl Rule {
    /// Everything, for these recipients.
    pub fn for_recipients(recipients: Vec<Recipient>) -> Self {
        Self { recipients, selection: Selection::default(), mac_only_encrypted: false }
    }
}

/// Encrypts YAML with a new data key. `now` is like `2026-01-31T12:00:00Z`.
pub fn encrypt(plain: &str, rule: &Rule, now: &str, random: &mut dyn Random) -> Result<String, EncryptError> {
    let documents = parse(plain)?;
    if documents.iter().any(|document| find(document, BLOCK).is_some()) {
        return Err(EncryptError::AlreadyEncrypted);
    }
    let key: DataKey = crate::random::bytes(random)?;
    if rule.recipients.is_empty() {
        return Err(age::EncryptError::NoRecipient.into());
    }
    let mut keys = Vec::with_capacity(rule.recipients.len());
    for recipient in &rule.recipients {
        let encrypted = age::encrypt_armored(&key[..], std::slice::from_ref(recipient), random)?;
        keys.push(AgeKey { recipient: recipient.to_string(), encrypted });
    }
    let metadata = Metadata::new(keys, rule.selection.clone(), rule.mac_only_encrypted);
    seal(documents, metadata, &key, &Nonces::new(), now, random)
}

/// Encrypts documents with a data key the metadata holds already.
pub(super) fn seal(
    mut documents: Vec<Mapping>,
    mut metadata: Metadata,
    key: &DataKey,
    nonces: &Nonces,
    now: &str,
    random: &mut dyn Random,
) -> Result<String, EncryptError> {
    metadata.last_modified =
        timestamp::to_the_second(now).ok_or_else(|| EncryptError::Time(now.to_owned()))?;
    let cipher = Cipher::new(key);
    let mut sealer = Sealer {
        cipher: &cipher,
        nonces,
        random,
        metadata: &metadata,
        mac: Mac::new(metadata.mac_only_encrypted),
    };
    walk(&mut documents, &mut sealer)?;
    let mac = Opened::Data(Data::Text(sealer.mac.finish()));
    metadata.mac = cipher.seal(&mac, &metadata.last_modified, nonces, random)?;
    if documents.is_empty() {
        documents.push(Mapping::new());
    }
    // SOPS writes the block into every document.
    for document in &mut documents {
        document.push(Part::Member(metadata.to_entry()));
    }
    Ok(print(&documents))
}

/// The MAC over values in their order.
pub(super) struct Mac {
    context: Context,
    only_encrypted: bool,
}

impl Mac {
    pub(super) fn new(only_encrypted: bool) -> Self {
        let mut context = Context::new(&SHA512);
        if only_encrypted {
            context.update(&ONLY_ENCRYPTED);
        }
        Self { context, only_encrypted }
    }

    pub(super) fn add(&mut self, data: &Data, encrypted: bool) {
        if encrypted || !self.only_encrypted {
            self.context.update(&zeroize::Zeroizing::new(data.bytes()));
        }
    }

    pub(super) fn finish(self) -> String {
        self.context.finish().as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
    }
}

struct Sealer<'a> {
    cipher: &'a Cipher,
    nonces: &'a Nonces,
    random: &'a mut dyn Random,
    metadata: &'a Metadata,
    mac: Mac,
}

impl Visitor for Sealer<'_> {
    type Error = EncryptError;

    fn comment(&mut self, comment: &mut Comment, stop: &Stop<'_>) -> Result<(), EncryptError> {
        let selection = &self.metadata.selection;
        if !stop.is_encrypted(selection, true) {
            return Ok(());
        }
        let opened = Opened::Comment(comment.text.clone());
        comment.text = self.cipher.seal(&opened, &stop.binding(), self.nonces, self.random)?;
        if let Selection::UnencryptedCommentRegex(pattern) = selection
            && pattern.is_match(&comment.text)
        {
            return Err(EncryptError::CommentPattern);
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: &mut Scalar, stop: &Stop<'_>) -> Result<Turned, EncryptError> {
        if matches!(scalar.data, Data::Null) {
            return Ok(Turned::Value);
        }
        let encrypted = stop.is_encrypted(&self.metadata.selection, false);
        self.mac.add(&scalar.data, encrypted);
        if encrypted {
            let opened = Opened::Data(scalar.data.clone());
            *scalar = Scalar::text(self.cipher.seal(&opened, &stop.binding(), self.nonces, self.random)?);
        }
        Ok(Turned::Value)
    }

    fn no_comment(&self, stop: &Stop<'_>) -> EncryptError {
        EncryptError::Content { place: stop.place(), message: "a comment where a value is wanted" }
    }
}
