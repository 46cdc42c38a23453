//! What can be wrong. Places are named, values never: any of them may be a secret.

use crate::age;
use crate::random::NoRandomness;

/// A text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("line {line}: {message}")]
    Yaml { line: usize, message: String },
    #[error("{place}: {message}")]
    Content { place: String, message: String },
    #[error("no SOPS file: it has no sops block")]
    NotSops,
    #[error("sops.{field}: {message}")]
    Metadata { field: String, message: String },
}

/// A file was not decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecryptError {
    #[error("it is encrypted for {} only, and age is the one kind of key read here", .kinds.join(", "))]
    NoAge { kinds: Vec<&'static str> },
    #[error("none of the keys at hand opens it; it is encrypted for {}", .recipients.join(", "))]
    NoKeyFits { recipients: Vec<String> },
    #[error("the keys at hand open {opened} of its key groups, and {needed} are needed")]
    TooFewGroups { opened: usize, needed: usize },
    #[error("sops.age: the data key for {recipient} cannot be used: {source}")]
    DataKey { recipient: String, source: age::DecryptError },
    #[error("the parts of its data key do not make a key")]
    Parts,
    #[error("{place} was changed after it was encrypted, or moved there from another place")]
    Value { place: String },
    #[error("{place}: {message}")]
    Content { place: String, message: &'static str },
    #[error(
        "values were changed, added, removed or put in another order after it was encrypted (MAC mismatch)"
    )]
    Mac,
    #[error("sops.mac was changed, or belongs to another file or time (lastmodified)")]
    MacValue,
}

/// A file was not encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncryptError {
    #[error(transparent)]
    Parse(#[from] ParseError),
    #[error("it is encrypted already")]
    AlreadyEncrypted,
    #[error("{place}: {message}")]
    Content { place: String, message: &'static str },
    #[error("the time {0} is not like 2026-01-31T12:00:00Z")]
    Time(String),
    #[error(
        "it is encrypted for {} too, which cannot be done here; change it with sops itself",
        .kinds.join(", ")
    )]
    OtherRecipients { kinds: Vec<String> },
    #[error(
        "an encrypted comment matches unencrypted_comment_regex, so that nobody could read the file again"
    )]
    CommentPattern,
    #[error(transparent)]
    Age(#[from] age::EncryptError),
    #[error(transparent)]
    Random(#[from] NoRandomness),
}
