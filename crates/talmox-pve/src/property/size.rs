//! Sizes of disks.

use crate::property::macros::property_text;
use crate::property::{PropertyError, PropertyValue};

const UNITS: [(u8, u32); 4] = [(b'T', 40), (b'G', 30), (b'M', 20), (b'K', 10)];

/// A size in bytes, printed in the largest unit that holds it exactly: `308556K`, `1536M`, `256G`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskSize(u64);

impl DiskSize {
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// As many GiB; more than a `u64` of bytes holds becomes the largest size.
    pub const fn from_gib(gib: u64) -> Self {
        Self(gib.saturating_mul(1 << 30))
    }

    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Whole GiB, a started one counted.
    pub const fn gib_rounded_up(self) -> u64 {
        self.0.div_ceil(1 << 30)
    }

    /// Reads `256G`, `1.5T` or bytes without a unit; units are powers of 1024 and a fraction of a byte is dropped.
    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        Self::read(text).map_err(|problem| PropertyError::new("a disk size", text, problem))
    }

    /// Reads a number of GiB as Proxmox takes it for a new disk: `32`, `0.5`.
    pub(super) fn parse_gib(text: &str) -> Option<Self> {
        scaled(text, 30).map(Self)
    }

    /// The size in GiB as a decimal number, for a disk to be allocated. It has at most as many digits as are read, rounded up:
    /// a fraction of a byte is dropped when it is read, and this must not drop a whole one.
    pub(super) fn print_gib(self) -> String {
        let (whole, rest) = (self.0 >> 30, self.0 & ((1 << 30) - 1));
        let scaled = (u128::from(rest) * 10_u128.pow(18)).div_ceil(1 << 30);
        let text = format!("{whole}.{scaled:018}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl PropertyValue for DiskSize {
    fn read(text: &str) -> Result<Self, String> {
        let last = text.bytes().last().map(|b| b.to_ascii_uppercase());
        let unit = UNITS.iter().find(|(letter, _)| Some(*letter) == last);
        let (number, shift) = unit.map_or((text, 0), |(_, shift)| (&text[..text.len() - 1], *shift));
        scaled(number, shift).map(Self).ok_or_else(|| format!("`{text}` is not a number with K, M, G or T"))
    }

    fn print(&self) -> String {
        // Nothing at all is `0T` to Proxmox too: every unit divides it.
        match UNITS.iter().find(|(_, shift)| self.0.trailing_zeros() >= *shift) {
            Some((letter, shift)) => format!("{}{}", self.0 >> shift, char::from(*letter)),
            None => self.0.to_string(),
        }
    }
}

/// A decimal number times a power of two, without the rounding of floating point.
fn scaled(number: &str, shift: u32) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    // Eighteen digits are finer than a byte of a TiB; more would overflow the sum below.
    if !digits(whole) || !digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = (u128::from(fraction.parse::<u64>().ok()?) << shift) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

property_text!(DiskSize, |size: &DiskSize| size.print());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gib_come_back_to_the_byte() {
        for (bytes, printed) in [(32 << 30, "32"), (1 << 29, "0.5"), (0, "0"), (1, "0.000000000931322575")] {
            assert_eq!(DiskSize(bytes).print_gib(), printed);
        }
        for bytes in [1, 10_737_418, (1 << 30) - 1, (32 << 30) + 1, (1 << 40) - 1] {
            let printed = DiskSize(bytes).print_gib();
            assert_eq!(DiskSize::parse_gib(&printed), Some(DiskSize(bytes)), "{printed}");
        }
    }

    #[test]
    fn largest_exact_unit() {
        for (text, printed) in [
            ("308556K", "308556K"),
            ("1.5G", "1536M"),
            ("262144M", "256G"),
            ("2048G", "2T"),
            ("1000", "1000"),
            ("0", "0T"),
            ("0.5g", "512M"),
        ] {
            assert_eq!(DiskSize::parse(text).unwrap().to_string(), printed, "{text}");
        }
        for bad in ["", "G", "1.G", ".5G", "-1G", "1GG", "99999999T", "1.0000000000000000000G"] {
            assert!(DiskSize::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn gib_of_a_new_disk() {
        assert_eq!(DiskSize::from_gib(32).print_gib(), "32");
        assert_eq!(DiskSize::parse("1536M").unwrap().print_gib(), "1.5");
        assert_eq!(DiskSize::parse_gib("0.5"), Some(DiskSize::from_bytes(1 << 29)));
        assert_eq!(DiskSize::parse("528K").unwrap().gib_rounded_up(), 1);
    }
}
