//! Which values of a file are encrypted.

use regex_lite::Regex;

/// What decides; a file has one of them. Patterns are looked for in every key on the way to a value.
#[derive(Clone, Debug)]
pub enum Selection {
    /// All but what stands under a key that ends so.
    UnencryptedSuffix(String),
    EncryptedSuffix(String),
    UnencryptedRegex(Regex),
    EncryptedRegex(Regex),
    /// All but what a comment before it, or before what it stands in, matches.
    UnencryptedCommentRegex(Regex),
    EncryptedCommentRegex(Regex),
}

/// A pattern that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern cannot be used: {0}")]
pub struct InvalidPattern(String);

impl Default for Selection {
    /// Everything but keys that end with `_unencrypted`.
    fn default() -> Self {
        Self::UnencryptedSuffix("_unencrypted".to_owned())
    }
}

impl Selection {
    /// The names these have in `.sops.yaml` and in files.
    pub(crate) const NAMES: [&'static str; 6] = [
        "unencrypted_suffix",
        "encrypted_suffix",
        "unencrypted_regex",
        "encrypted_regex",
        "unencrypted_comment_regex",
        "encrypted_comment_regex",
    ];

    /// By its name and text.
    pub fn of(name: &str, text: &str) -> Result<Option<Self>, InvalidPattern> {
        let pattern = || Regex::new(text).map_err(|error| InvalidPattern(error.to_string()));
        Ok(Some(match name {
            "unencrypted_suffix" => Self::UnencryptedSuffix(text.to_owned()),
            "encrypted_suffix" => Self::EncryptedSuffix(text.to_owned()),
            "unencrypted_regex" => Self::UnencryptedRegex(pattern()?),
            "encrypted_regex" => Self::EncryptedRegex(pattern()?),
            "unencrypted_comment_regex" => Self::UnencryptedCommentRegex(pattern()?),
            "encrypted_comment_regex" => Self::EncryptedCommentRegex(pattern()?),
            _ => return Ok(None),
        }))
    }

    pub(super) fn name_and_text(&self) -> (&'static str, &str) {
        match self {
            Self::UnencryptedSuffix(text) => ("unencrypted_suffix", text),
            Self::EncryptedSuffix(text) => ("encrypted_suffix", text),
            Self::UnencryptedRegex(pattern) => ("unencrypted_regex", pattern.as_str()),
            Self::EncryptedRegex(pattern) => ("encrypted_regex", pattern.as_str()),
            Self::UnencryptedCommentRegex(pattern) => ("unencrypted_comment_regex", pattern.as_str()),
            Self::EncryptedCommentRegex(pattern) => ("encrypted_comment_regex", pattern.as_str()),
        }
    }

    /// Whether what stands at these keys is encrypted. `comments` are those in force, one list for each collection around
    /// it; a comment is the last of the last list itself, and the one that asks for encryption stays readable.
    pub(super) fn encrypts(&self, keys: &[String], comments: &[Vec<String>], is_comment: bool) -> bool {
        let any_key = |fits: &dyn Fn(&str) -> bool| keys.iter().any(|key| fits(key));
        match self {
            Self::UnencryptedSuffix(suffix) => !any_key(&|key| key.ends_with(suffix.as_str())),
            Self::EncryptedSuffix(suffix) => any_key(&|key| key.ends_with(suffix.as_str())),
            Self::UnencryptedRegex(pattern) => !any_key(&|key| pattern.is_match(key)),
            Self::EncryptedRegex(pattern) => any_key(&|key| pattern.is_match(key)),
            Self::UnencryptedCommentRegex(pattern) => {
                !comments.iter().flatten().any(|comment| pattern.is_match(comment))
            }
            Self::EncryptedCommentRegex(pattern) => {
                let all = comments.iter().flatten().count();
                let own = usize::from(is_comment);
                comments.iter().flatten().take(all - own.min(all)).any(|comment| pattern.is_match(comment))
            }
        }
    }
}
