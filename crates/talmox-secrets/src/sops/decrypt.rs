//! From a SOPS file to plain text.

use std::fmt;

use secrecy::SecretString;
use zeroize::Zeroizing;

use super::cipher::{Cipher, Closed, Nonces, Opened};
use super::encrypt::{Mac, seal};
use super::error::{DecryptError, EncryptError, ParseError};
use super::metadata::{BLOCK, Group, Metadata, extract};
use super::parse::parse;
use super::print::print;
use super::tree::{Comment, Data, Mapping, Part, Scalar, Value, find};
use super::walk::{Stop, Turned, Visitor, walk};
use super::{DataKey, shamir};
use crate::age::{self, Identity};
use crate::random::Random;

/// A SOPS file that was read and not opened yet.
pub struct SopsFile {
    documents: Vec<Mapping>,
    metadata: Metadata,
}

impl SopsFile {
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut documents = parse(text)?;
        let metadata = extract(&mut documents)?;
        Ok(Self { documents, metadata })
    }

    /// The public keys of age it is encrypted for, as written.
    pub fn recipients(&self) -> Vec<String> {
        self.metadata.recipients()
    }

    /// Other kinds of keys it is encrypted for.
    pub fn other_kinds(&self) -> Vec<&'static str> {
        self.metadata.other_kinds()
    }

    /// Whether several groups of keys share what opens it.
    pub fn has_groups(&self) -> bool {
        self.metadata.groups.len() > 1
    }

    /// When it was written last.
    pub fn last_modified(&self) -> &str {
        &self.metadata.last_modified
    }

    /// Opens it: every value is what was encrypted at its place, and all of them are there.
    pub fn decrypt(mut self, identities: &[Identity]) -> Result<Decrypted, DecryptError> {
        let key = data_key(&self.metadata, identities)?;
        let cipher = Cipher::new(&key);
        let metadata = &self.metadata;
        let mut opener = Opener {
            cipher: &cipher,
            metadata,
            mac: Mac::new(metadata.mac_only_encrypted),
            nonces: Nonces::new(),
        };
        walk(&mut self.documents, &mut opener)?;
        let Opener { mac, nonces, .. } = opener;
        match cipher.open(&metadata.mac, &metadata.last_modified, &mut Nonces::new()) {
            Ok(Opened::Data(Data::Text(stored))) if same(&stored, &mac.finish()) => {}
            Ok(Opened::Data(Data::Text(_))) => return Err(DecryptError::Mac),
            Ok(_) | Err(_) => return Err(DecryptError::MacValue),
        }
        Ok(Decrypted { documents: self.documents, metadata: self.metadata, key, nonces })
    }
}

/// In the same time wherever they differ.
fn same(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

impl fmt::Debug for SopsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SopsFile").field("recipients", &self.recipients()).finish_non_exhaustive()
    }
}

/// An opened file. `Debug` shows nothing of it.
pub struct Decrypted {
    documents: Vec<Mapping>,
    metadata: Metadata,
    key: DataKey,
    nonces: Nonces,
}

impl Decrypted {
    /// The plain text, with its comments.
    pub fn to_yaml(&self) -> SecretString {
        SecretString::from(print(&self.documents))
    }

    /// The value of a key; `a.b` is `b` in `a`, and a number that of a list. None if nothing stands there, or no value.
    pub fn value(&self, key: &str) -> Option<SecretString> {
        self.text_of(key, |_| true)
    }

    /// The value of a key, if it was encrypted: then nobody without the data key put it there. A plain value may have been
    /// written by anybody, even where the MAC is good (`mac_only_encrypted`).
    pub fn encrypted_value(&self, key: &str) -> Option<SecretString> {
        self.text_of(key, |scalar| scalar.sealed)
    }

    /// The plain text with one more value beside that of a key: `a.b` and `c` give `a.c`. None if there is no such key, or if
    /// something stands there already.
    pub fn with_text_beside(&self, key: &str, name: &str, text: &str) -> Option<SecretString> {
        let mut documents = self.documents.clone();
        let mut place = documents.first_mut()?;
        let mut rest = key;
        while find(place, rest).is_none() {
            let at =
                rest.match_indices('.').map(|(at, _)| at).find(|at| find(place, &rest[..*at]).is_some())?;
            let (parent, inner) = (&rest[..at], &rest[at + 1..]);
            let member = |part: &&mut Part<super::tree::Entry>| matches!(part, Part::Member(entry) if entry.key == parent);
            let Part::Member(entry) = place.iter_mut().find(member)? else { return None };
            let Value::Mapping(mapping) = &mut entry.value else { return None };
            (place, rest) = (mapping, inner);
        }
        if find(place, name).is_some() {
            return None;
        }
        let value = Value::Scalar(Scalar::text(text));
        place.push(Part::Member(super::tree::Entry { key: name.to_owned(), value }));
        Some(SecretString::from(print(&documents)))
    }

    fn text_of(&self, key: &str, fits: impl Fn(&Scalar) -> bool) -> Option<SecretString> {
        let root = self.documents.first()?;
        let scalar = lookup_in_mapping(root, key).filter(|scalar| fits(scalar))?;
        if matches!(scalar.data, Data::Null) {
            return None;
        }
        String::from_utf8(scalar.data.bytes()).ok().map(SecretString::from)
    }

    /// The names of the values it holds: those of its first document.
    pub fn keys(&self) -> Vec<String> {
        let key = |part: &Part<super::tree::Entry>| match part {
            Part::Member(entry) => Some(entry.key.clone()),
            Part::Comment(_) => None,
        };
        self.documents.first().into_iter().flatten().filter_map(key).collect()
    }

    /// The file again with other text: for the same recipients, with the same data key; values that stayed the same keep
    /// their ciphertext. Not for files that were encrypted for others than age.
    pub fn update(&self, plain: &str, now: &str, random: &mut dyn Random) -> Result<String, EncryptError> {
        let mut kinds: Vec<String> = self.metadata.other_kinds().into_iter().map(str::to_owned).collect();
        if self.metadata.groups.len() > 1 {
            kinds.push("several key groups".to_owned());
        }
        kinds.extend(self.metadata.unknown.iter().map(|key| format!("sops.{key}")));
        if !kinds.is_empty() {
            return Err(EncryptError::OtherRecipients { kinds });
        }
        let documents = parse(plain)?;
        if documents.iter().any(|document| find(document, BLOCK).is_some()) {
            return Err(EncryptError::AlreadyEncrypted);
        }
        seal(documents, self.metadata.clone(), &self.key, &self.nonces, now, random)
    }

    #[cfg(test)]
    pub(super) fn documents(&self) -> &[Mapping] {
        &self.documents
    }
}

impl fmt::Debug for Decrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decrypted").finish_non_exhaustive()
    }
}

/// A key with dots in it is taken whole before it is taken apart.
fn lookup_in_mapping<'a>(mapping: &'a Mapping, key: &str) -> Option<&'a Scalar> {
    if let Some(Value::Scalar(scalar)) = find(mapping, key) {
        return Some(scalar);
    }
    key.match_indices('.').find_map(|(at, _)| lookup(find(mapping, &key[..at])?, &key[at + 1..]))
}

fn lookup<'a>(value: &'a Value, key: &str) -> Option<&'a Scalar> {
    match value {
        Value::Scalar(_) => None,
        Value::Mapping(mapping) => lookup_in_mapping(mapping, key),
        Value::Sequence(sequence) => {
            let (index, rest) = key.split_once('.').map_or((key, None), |(index, rest)| (index, Some(rest)));
            let member = |part: &'a Part<Value>| match part {
                Part::Member(value) => Some(value),
                Part::Comment(_) => None,
            };
            let value = sequence.iter().filter_map(member).nth(index.parse().ok()?)?;
            match (value, rest) {
                (Value::Scalar(scalar), None) => Some(scalar),
                (value, Some(rest)) => lookup(value, rest),
                (_, None) => None,
            }
        }
    }
}

fn data_key(metadata: &Metadata, identities: &[Identity]) -> Result<DataKey, DecryptError> {
    let recipients = metadata.recipients();
    if recipients.is_empty() {
        return Err(DecryptError::NoAge { kinds: metadata.other_kinds() });
    }
    let mut parts = Vec::new();
    for group in &metadata.groups {
        parts.extend(group_key(group, identities)?);
    }
    let whole = if metadata.groups.len() == 1 {
        parts.pop().ok_or(DecryptError::NoKeyFits { recipients })?
    } else if parts.is_empty() {
        return Err(DecryptError::NoKeyFits { recipients });
    } else if parts.len() < metadata.threshold {
        return Err(DecryptError::TooFewGroups { opened: parts.len(), needed: metadata.threshold });
    } else {
        shamir::combine(&parts).ok_or(DecryptError::Parts)?
    };
    let key: [u8; 32] = whole.as_slice().try_into().map_err(|_| DecryptError::Parts)?;
    Ok(Zeroizing::new(key))
}

/// The part of the data key a group has, if one of the keys at hand opens it. A data key that was tampered with is told
/// only if no other gives the part.
fn group_key(group: &Group, identities: &[Identity]) -> Result<Option<Zeroizing<Vec<u8>>>, DecryptError> {
    let mut broken = None;
    for key in &group.age {
        match age::open(key.encrypted.as_bytes(), identities) {
            Ok(part) => return Ok(Some(part)),
            Err(age::DecryptError::NoKeyFits) => {}
            Err(source) => broken = Some(DecryptError::DataKey { recipient: key.recipient.clone(), source }),
        }
    }
    broken.map_or(Ok(None), Err)
}

struct Opener<'a> {
    cipher: &'a Cipher,
    metadata: &'a Metadata,
    mac: Mac,
    nonces: Nonces,
}

impl Visitor for Opener<'_> {
    type Error = DecryptError;

    /// A comment that cannot be opened is one that was not encrypted, as old versions of SOPS left them, or that was
    /// counted to a collection around this one.
    fn comment(&mut self, comment: &mut Comment, stop: &Stop<'_>) -> Result<(), DecryptError> {
        if !stop.is_encrypted(&self.metadata.selection, true) || !comment.text.starts_with("ENC[") {
            return Ok(());
        }
        let bindings = std::iter::once(stop.binding()).chain(stop.outer_bindings());
        for binding in bindings {
            if let Ok(Opened::Comment(text)) = self.cipher.open(&comment.text, &binding, &mut self.nonces) {
                comment.text = text;
                return Ok(());
            }
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: &mut Scalar, stop: &Stop<'_>) -> Result<Turned, DecryptError> {
        if matches!(scalar.data, Data::Null) {
            return Ok(Turned::Value);
        }
        let encrypted = stop.is_encrypted(&self.metadata.selection, false);
        if encrypted {
            match self.open(scalar, stop)? {
                Opened::Comment(text) => return Ok(Turned::Comment(Comment { text, inline: false })),
                Opened::Data(data) => *scalar = Scalar::opened(data),
            }
        }
        self.mac.add(&scalar.data, encrypted);
        Ok(Turned::Value)
    }

    fn no_comment(&self, stop: &Stop<'_>) -> DecryptError {
        DecryptError::Content { place: stop.place(), message: "a comment where a value is wanted" }
    }
}

impl Opener<'_> {
    fn open(&mut self, scalar: &Scalar, stop: &Stop<'_>) -> Result<Opened, DecryptError> {
        let content = |message| DecryptError::Content { place: stop.place(), message };
        let plain = "is not encrypted, and should be: the file was changed by hand";
        let Data::Text(text) = &scalar.data else { return Err(content(plain)) };
        self.cipher.open(text, &stop.binding(), &mut self.nonces).map_err(|closed| match closed {
            Closed::Plain => content(plain),
            Closed::Broken => content("is no encrypted value any more: the file was changed by hand"),
            Closed::Forged => DecryptError::Value { place: stop.place() },
        })
    }
}
