//! Where random numbers come from.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use zeroize::Zeroizing;

/// A source of random bytes. Keys are drawn by the crypto library itself; tokens, ids and serial numbers from here.
pub trait Random {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// There are no random numbers to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomness;

/// The system's own source. The crypto library's would be seeded by it, and by a measurement of the processor that takes longer
/// than a hundred configs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        getrandom::fill(bytes).map_err(|_| NoRandomness)
    }
}

/// Bytes of a fixed number.
pub(crate) fn bytes<const N: usize>(random: &mut dyn Random) -> Result<Zeroizing<[u8; N]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; N]);
    random.fill(&mut bytes[..])?;
    Ok(bytes)
}

/// 32 bytes in base64.
pub(crate) fn secret(random: &mut dyn Random) -> Result<SecretString, NoRandomness> {
    Ok(SecretString::from(STANDARD.encode(bytes::<32>(random)?)))
}

/// A token of six and sixteen characters.
pub(crate) fn token(random: &mut dyn Random) -> Result<SecretString, NoRandomness> {
    let mut text = Zeroizing::new(String::with_capacity(23));
    for length in [6, 16] {
        if !text.is_empty() {
            text.push('.');
        }
        for _ in 0..length {
            text.push(character(random)?);
        }
    }
    Ok(SecretString::from(text.as_str()))
}

/// One of 36 characters, each as likely as the others: bytes that would favour some are drawn again.
fn character(random: &mut dyn Random) -> Result<char, NoRandomness> {
    const CHARACTERS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    loop {
        let byte = bytes::<1>(random)?[0];
        if byte < 252 {
            return Ok(char::from(CHARACTERS[usize::from(byte) % CHARACTERS.len()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    /// Bytes that count up.
    struct Counting(u8);

    impl Random for Counting {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
            for byte in bytes {
                *byte = self.0;
                self.0 = self.0.wrapping_add(1);
            }
            Ok(())
        }
    }

    #[test]
    fn tokens_pass_over_bytes_that_favour_some_characters() {
        assert_eq!(token(&mut Counting(250)).unwrap().expose_secret(), "yz0123.456789abcdefghij");
    }

    #[test]
    fn secrets_are_32_bytes() {
        let text = secret(&mut Counting(0)).unwrap();
        assert_eq!(STANDARD.decode(text.expose_secret()).unwrap().len(), 32);
    }
}
