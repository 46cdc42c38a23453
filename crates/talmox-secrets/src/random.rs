//! Where random numbers come from.

use zeroize::Zeroizing;

/// A source of random bytes: keys, nonces.
pub trait Random {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness>;
}

/// There are no random numbers to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomness;

/// The crypto library's source, seeded by the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        aws_lc_rs::rand::fill(bytes).map_err(|_| NoRandomness)
    }
}

/// Bytes of a fixed number.
pub(crate) fn bytes<const N: usize>(random: &mut dyn Random) -> Result<Zeroizing<[u8; N]>, NoRandomness> {
    let mut bytes = Zeroizing::new([0; N]);
    random.fill(&mut bytes[..])?;
    Ok(bytes)
}
