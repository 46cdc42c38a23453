//! What a machine says about a configuration, without what is secret in it.
//!
//! Talos quotes: a refusal can hold the line that was wrong, or a whole diff.

use std::collections::BTreeSet;

use secrecy::{ExposeSecret as _, SecretString};
use talmox_machine::{Config, Source};
use talmox_talos::{Error, Status, TransportError};
use talmox_types::sabotage::{Defect, sabotaged};

const MASK: &str = "***";
/// A secret of fewer letters is none, and to mask it everywhere would mask ordinary words.
const SHORTEST: usize = 6;

/// An error of a call that sent a configuration.
pub(crate) fn without_secrets_of(mut error: Error, config: &SecretString) -> Error {
    if let TransportError::Status(Status { message, .. }) = &mut error.cause {
        *message = without_secrets(message, config);
    }
    error
}

/// The words without those that are secret in a configuration.
pub(crate) fn without_secrets(said: &str, config: &SecretString) -> String {
    if sabotaged(Defect::RefusalQuoted) {
        return said.to_owned();
    }
    let Ok(config) = Config::parse(Source { name: "config", text: config.expose_secret() }) else {
        return MASK.to_owned();
    };
    let (whole, shown) = (config.to_yaml(), config.redacted().to_yaml());
    let shown: BTreeSet<&str> = words(&shown).collect();
    let mut secrets: Vec<&str> =
        words(&whole).filter(|word| word.len() >= SHORTEST && !shown.contains(word)).collect();
    // A long one may hold a short one.
    secrets.sort_by_key(|word| std::cmp::Reverse(word.len()));
    secrets.into_iter().fold(said.to_owned(), |said, secret| said.replace(secret, MASK))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ','))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let config = SecretString::from(
            "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.0123456789abcdef\n\
             cluster:\n  controlPlane: {endpoint: 'https://10.0.7.10:6443'}\n  secret: c2VjcmV0IG9mIHRoZSBjbHVzdGVy\n",
        );
        let said = "diff:\n- token: abcdef.0123456789abcdef\n+ endpoint: https://10.0.7.10:6443\n\
                    secret c2VjcmV0IG9mIHRoZSBjbHVzdGVy is used";
        let told = without_secrets(said, &config);
        assert_eq!(told, "diff:\n- token: ***\n+ endpoint: https://10.0.7.10:6443\nsecret *** is used");
        assert_eq!(without_secrets(said, &SecretString::from("{")), MASK);
    }
}
