//! Keys: who can read, and who may.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::agreement::{PrivateKey, X25519};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::bech32;
use crate::random::{NoRandomness, Random};

const RECIPIENT_PREFIX: &str = "age";
const IDENTITY_PREFIX: &str = "age-secret-key-";

/// A public key: `age1…`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Recipient {
    pub(super) public: [u8; 32],
}

/// A text that is no public key of age.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecipient {
    #[error("a secret key of age stands where the public one, age1…, is wanted")]
    Secret,
    #[error("{0} is of a kind of recipient this program cannot encrypt for; age1… of age-keygen is wanted")]
    OtherKind(String),
    #[error("{0} is no public key of age; it begins with age1 and has 62 characters")]
    Wrong(String),
}

impl FromStr for Recipient {
    type Err = InvalidRecipient;

    fn from_str(text: &str) -> Result<Self, InvalidRecipient> {
        let text = text.trim();
        if text.to_ascii_lowercase().starts_with(IDENTITY_PREFIX) {
            return Err(InvalidRecipient::Secret);
        }
        let wrong = || InvalidRecipient::Wrong(text.to_owned());
        if text.starts_with("ssh-") {
            return Err(InvalidRecipient::OtherKind(text.to_owned()));
        }
        let (prefix, bytes) = bech32::decode(text).ok_or_else(wrong)?;
        if prefix != RECIPIENT_PREFIX {
            return Err(InvalidRecipient::OtherKind(text.to_owned()));
        }
        Ok(Self { public: bytes.try_into().map_err(|_| wrong())? })
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32::encode(RECIPIENT_PREFIX, &self.public))
    }
}

impl fmt::Debug for Recipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recipient({self})")
    }
}

/// A secret key: `AGE-SECRET-KEY-1…`. `Debug` names its recipient only.
#[derive(Clone)]
pub struct Identity {
    pub(super) secret: Zeroizing<[u8; 32]>,
    recipient: Recipient,
}

/// A text that is no secret key of age. It is never repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no secret key of age; it begins with AGE-SECRET-KEY-1 and has 74 characters")]
pub struct InvalidIdentity;

impl Identity {
    /// A new key.
    pub fn generate(random: &mut dyn Random) -> Result<Self, NoRandomness> {
        Self::from_bytes(crate::random::bytes(random)?).map_err(|InvalidIdentity| NoRandomness)
    }

    pub fn parse(text: &str) -> Result<Self, InvalidIdentity> {
        let (prefix, bytes) = bech32::decode(text.trim()).ok_or(InvalidIdentity)?;
        let bytes = Zeroizing::new(bytes);
        if prefix != IDENTITY_PREFIX {
            return Err(InvalidIdentity);
        }
        let secret: [u8; 32] = bytes.as_slice().try_into().map_err(|_| InvalidIdentity)?;
        Self::from_bytes(Zeroizing::new(secret))
    }

    fn from_bytes(secret: Zeroizing<[u8; 32]>) -> Result<Self, InvalidIdentity> {
        let key = PrivateKey::from_private_key(&X25519, &secret[..]).map_err(|_| InvalidIdentity)?;
        let public = key.compute_public_key().map_err(|_| InvalidIdentity)?;
        let public = public.as_ref().try_into().map_err(|_| InvalidIdentity)?;
        Ok(Self { secret, recipient: Recipient { public } })
    }

    /// Who it reads for.
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// The key itself, as `age-keygen` writes it.
    pub fn to_text(&self) -> SecretString {
        SecretString::from(bech32::encode(IDENTITY_PREFIX, &self.secret[..]).to_uppercase())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.recipient)
    }
}

/// What a key file holds.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    pub keys: Vec<Identity>,
    /// Lines with keys of other kinds: plugins, SSH, post-quantum.
    pub others: usize,
}

/// Reads a key file: a key on each line, lines that are empty or begin with `#` aside. The number of a line that holds
/// something else is the error.
pub fn parse_identities(text: &SecretString) -> Result<Identities, usize> {
    let mut found = Identities::default();
    for (number, line) in text.expose_secret().lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let upper = line.to_ascii_uppercase();
        match Identity::parse(line) {
            Ok(key) => found.keys.push(key),
            Err(InvalidIdentity)
                if upper.starts_with("AGE-PLUGIN-") || upper.starts_with("AGE-SECRET-KEY-PQ-") =>
            {
                found.others += 1;
            }
            Err(InvalidIdentity) => return Err(number + 1),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemRandom;

    // Made by age-keygen for this test.
    const SECRET: &str = "AGE-SECRET-KEY-1SW0VZUJP6DKLK0HD62P8NRRTRJ2V8QKPSDGGCF0SNH2X7WGWH3ZQ5ZMSLF";
    const PUBLIC: &str = "age1sfhhtwv29ug336w9x958k8mef5g0l5wve6l2nlse5we9xctp5frqzcctmu";

    #[test]
    fn a_secret_key_knows_its_public_one() {
        let identity = Identity::parse(SECRET).unwrap();
        assert_eq!(identity.recipient().to_string(), PUBLIC);
        assert_eq!(identity.to_text().expose_secret(), SECRET);
        assert_eq!(&PUBLIC.parse::<Recipient>().unwrap(), identity.recipient());
    }

    #[test]
    fn a_secret_key_is_never_shown() {
        let identity = Identity::generate(&mut SystemRandom).unwrap();
        let text = identity.to_text();
        let secret = &text.expose_secret()["AGE-SECRET-KEY-1".len()..];
        let list = parse_identities(&text).unwrap();
        for shown in [format!("{identity:?}"), format!("{list:?}"), format!("{:?}", identity.to_text())] {
            assert!(!shown.to_uppercase().contains(secret), "{shown}");
        }
        let error = text.expose_secret().parse::<Recipient>().unwrap_err();
        assert!(!format!("{error} {error:?}").to_uppercase().contains(secret));
        let mistyped = format!("{}A", text.expose_secret());
        let error = Identity::parse(&mistyped).unwrap_err();
        assert!(!format!("{error} {error:?}").to_uppercase().contains(secret));
    }

    #[test]
    fn key_files_have_comments_and_other_kinds() {
        let text = SecretString::from(format!("# created\n\n{SECRET}\nAGE-PLUGIN-YUBIKEY-1QQ\n"));
        let found = parse_identities(&text).unwrap();
        assert_eq!((found.keys.len(), found.others), (1, 1));
        assert_eq!(parse_identities(&SecretString::from("# x\nnonsense")).unwrap_err(), 2);
    }

    #[test]
    fn other_recipients_are_told_apart() {
        assert!(matches!("ssh-ed25519 AAAA".parse::<Recipient>(), Err(InvalidRecipient::OtherKind(_))));
        assert!(matches!("age1abc".parse::<Recipient>(), Err(InvalidRecipient::Wrong(_))));
    }
}
