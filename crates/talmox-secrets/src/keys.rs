//! The age keys at hand, from the places `sops` looks in.

use secrecy::{ExposeSecret as _, SecretString};

use crate::age::{Identities, Identity, parse_identities};

/// What one place holds, read by whoever may read environment and files.
pub struct KeySource {
    /// Its name for people: `SOPS_AGE_KEY`, or the path of a file.
    pub name: String,
    pub text: SecretString,
    /// `SOPS_AGE_KEY` may have several keys on one line.
    pub several_on_a_line: bool,
}

/// A place that holds something else than keys. What it holds is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}, line {line}: no secret key of age; it begins with AGE-SECRET-KEY-1 and has 74 characters")]
pub struct KeysError {
    pub name: String,
    pub line: usize,
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySource").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All keys of all places.
pub fn gather(sources: &[KeySource]) -> Result<Vec<Identity>, KeysError> {
    let mut keys = Vec::new();
    for source in sources {
        let text = if source.several_on_a_line { split(&source.text) } else { source.text.clone() };
        let found = parse_identities(&text).map_err(|line| KeysError { name: source.name.clone(), line })?;
        let Identities { keys: more, others: _ } = found;
        keys.extend(more);
    }
    Ok(keys)
}

/// Each key on a line of its own; comments stay what they are.
fn split(text: &SecretString) -> SecretString {
    let lines = text.expose_secret().lines().map(|line| {
        if line.trim_start().starts_with('#') {
            line.to_owned()
        } else {
            line.split_whitespace().collect::<Vec<_>>().join("\n")
        }
    });
    SecretString::from(lines.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemRandom;

    #[test]
    fn keys_are_gathered_and_never_shown() {
        let key = || Identity::generate(&mut SystemRandom).unwrap().to_text();
        let (a, b, c) = (key(), key(), key());
        let line = SecretString::from(format!("{} {}", a.expose_secret(), b.expose_secret()));
        let source = |name: &str, text: &SecretString, several_on_a_line| KeySource {
            name: name.to_owned(),
            text: text.clone(),
            several_on_a_line,
        };
        let sources = [source("SOPS_AGE_KEY", &line, true), source("keys.txt", &c, false)];
        assert_eq!(gather(&sources).unwrap().len(), 3);
        let shown = format!("{sources:?}");
        let error = gather(&[source("keys.txt", &line, false)]).unwrap_err();
        let told = format!("{error} {error:?} {shown}");
        assert!(error.to_string().starts_with("keys.txt, line 1: "), "{error}");
        for key in [a, b, c] {
            assert!(!told.contains(&key.expose_secret()[20..40]), "{told}");
        }
    }
}
