//! References to secrets: what a description may hold where a secret is needed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// Where a secret is to be found. It never holds the secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SecretRef {
    /// An environment variable.
    Env(String),
    /// A file whose content, less the final line feed, is the secret.
    File(String),
    /// A key of a SOPS file.
    Sops { file: String, key: String },
    /// A program that prints the secret; no shell is involved.
    Exec(Vec<String>),
}

impl SecretRef {
    /// Prefixes a reference may begin with.
    pub const PREFIXES: [&'static str; 4] = ["env:", "file:", "sops:", "exec:"];

    /// The error never repeats the text: it may well be the secret itself.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new(
                "a reference to a secret",
                "(not shown)",
                "env:NAME, file:PATH, sops:FILE#KEY or exec:[\"program\", \"argument\"]",
            )
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once(':')?;
        match scheme {
            "env" => {
                let valid = rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && rest.bytes().next().is_some_and(|b| !b.is_ascii_digit());
                valid.then(|| Self::Env(rest.to_owned()))
            }
            "file" => (!rest.is_empty()).then(|| Self::File(rest.to_owned())),
            "sops" => {
                let (file, key) = rest.rsplit_once('#')?;
                (!file.is_empty() && !key.is_empty())
                    .then(|| Self::Sops { file: file.to_owned(), key: key.to_owned() })
            }
            "exec" => Self::exec(parse_argv(rest)?),
            _ => None,
        }
    }

    /// A reference to a program and its arguments; none without a program.
    pub fn exec(argv: Vec<String>) -> Option<Self> {
        argv.first().is_some_and(|program| !program.is_empty()).then_some(Self::Exec(argv))
    }
}

/// Reads `["a", "b"]` or `[a, b]`: strings in double quotes may hold commas and `\"`, bare words may not.
fn parse_argv(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut argv = Vec::new();
    let mut rest = inner.trim_start();
    while !rest.is_empty() {
        let (word, after) = if let Some(quoted) = rest.strip_prefix('"') {
            take_quoted(quoted)?
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            (rest[..end].trim().to_owned(), &rest[end..])
        };
        argv.push(word);
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(more) => more.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(argv)
}

/// The string up to the closing quote, and what follows it.
fn take_quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((word, &text[index + 1..])),
            '\\' => word.push(characters.next()?.1),
            other => word.push(other),
        }
    }
    None
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{path}"),
            Self::Sops { file, key } => write!(f, "sops:{file}#{key}"),
            Self::Exec(argv) => {
                let quoted: Vec<String> = argv
                    .iter()
                    .map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
                    .collect();
                write!(f, "exec:[{}]", quoted.join(", "))
            }
        }
    }
}

text_conversions!(SecretRef);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_round_trip() {
        for text in [
            "env:PROXMOX_TOKEN",
            "file:/run/token",
            "sops:secrets.sops.yaml#a.b",
            "exec:[\"pass\", \"x, \\\"y\"]",
        ] {
            assert_eq!(SecretRef::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(SecretRef::parse("exec:[pass, show]").unwrap().to_string(), "exec:[\"pass\", \"show\"]");
    }

    #[test]
    fn a_refused_text_is_never_repeated() {
        for bad in
            ["root@pam!ci=aaaaaaaa-bbbb", "env:", "env:1A", "sops:x", "exec:[]", "exec:[\"a\" b]", "file:"]
        {
            let error = SecretRef::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("aaaaaaaa"), "{error:?}");
        }
    }
}
