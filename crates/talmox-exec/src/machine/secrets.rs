//! What a machine says about a configuration, without what is secret in it.
//!
//! Talos quotes: a refusal can hold the line that was wrong, or a whole diff.

use std::collections::BTreeSet;

use secrecy::ExposeSecret as _;
use talmox_machine::{Config, Source};
use talmox_talos::{Error, Status, TransportError};
use talmox_types::sabotage::{Defect, sabotaged};

use crate::MachineConfig;

const MASK: &str = "***";
/// A secret of fewer letters is none, and to mask it everywhere would mask ordinary words.
const SHORTEST: usize = 6;

/// An error of a call that sent a configuration.
pub(crate) fn without_secrets_of(mut error: Error, config: &MachineConfig) -> Error {
    if let TransportError::Status(Status { message, .. }) = &mut error.cause {
        *message = without_secrets(message, config);
    }
    error
}

/// The words without those that are secret in a configuration.
pub(crate) fn without_secrets(said: &str, sent: &MachineConfig) -> String {
    if sabotaged(Defect::RefusalQuoted) {
        return said.to_owned();
    }
    let Ok(config) = Config::parse(Source { name: "config", text: sent.text.expose_secret() }) else {
        return MASK.to_owned();
    };
    let (whole, redacted) = (config.to_yaml(), config.redacted().to_yaml());
    let shown: BTreeSet<&str> = words(&redacted).collect();
    let mut secrets: Vec<&str> =
        words(&whole).filter(|word| word.len() >= SHORTEST && !shown.contains(word)).collect();
    secrets.extend(written(&redacted, &config.guarded(&sent.hidden).to_yaml()));
    secrets.extend(sent.hidden.texts());
    // A long one may hold a short one.
    secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
    secrets.into_iter().fold(said.to_owned(), |said, secret| said.replace(secret, MASK))
}

/// What people wrote into files, manifests and variables of programs: line by line, since most of its words are ordinary ones, and
/// values without their keys.
fn written<'a>(redacted: &'a str, guarded: &str) -> Vec<&'a str> {
    let shown: BTreeSet<&str> = guarded.lines().map(str::trim).collect();
    let lines = redacted.lines().map(str::trim).filter(|line| !shown.contains(line));
    let values = lines.flat_map(|line| [Some(line), line.split_once(": ").map(|(_, value)| value)]);
    let bare = values.flatten().map(|text| text.trim_matches(['"', '\'']));
    bare.filter(|text| text.len() >= SHORTEST).collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ','))
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use talmox_machine::Hidden;

    use super::*;

    fn sent(text: &str) -> MachineConfig {
        MachineConfig { text: SecretString::from(text), hidden: Hidden::default() }
    }

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        let config = sent(
            "version: v1alpha1\nmachine:\n  type: worker\n  token: abcdef.0123456789abcdef\n\
             cluster:\n  controlPlane: {endpoint: 'https://10.0.7.10:6443'}\n  secret: c2VjcmV0IG9mIHRoZSBjbHVzdGVy\n",
        );
        let said = "diff:\n- token: abcdef.0123456789abcdef\n+ endpoint: https://10.0.7.10:6443\n\
                    secret c2VjcmV0IG9mIHRoZSBjbHVzdGVy is used";
        let told = without_secrets(said, &config);
        assert_eq!(told, "diff:\n- token: ***\n+ endpoint: https://10.0.7.10:6443\nsecret *** is used");
        assert_eq!(without_secrets(said, &sent("{")), MASK);
    }

    #[test]
    fn what_people_wrote_is_not_quoted() {
        let config = sent(
            "version: v1alpha1\nmachine:\n  type: worker\n  env: {PASSWORD: swordfish}\n\
             cluster:\n  inlineManifests:\n    - name: sec\n      contents: |\n        kind: Secret\n        password: hunter2\n",
        );
        let told =
            without_secrets("cannot take `password: hunter2` with swordfish: bad kind of config", &config);
        assert_eq!(told, "cannot take `***` with ***: bad kind of config");
        let hidden = Hidden::from_iter(["hush-hush"]);
        assert_eq!(without_secrets("no x-hush-hush", &MachineConfig { hidden, ..config }), "no x-***");
    }
}
