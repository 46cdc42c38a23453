//! PCI addresses on a Proxmox host.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// A PCI device of a host: domain, bus, device, and a function unless all of them are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    domain: u16,
    bus: u8,
    device: u8,
    function: Option<u8>,
}

impl PciAddress {
    /// Reads `0000:01:00.0`, `01:00.0` (domain 0) or `0000:01:00` (every function).
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new("a PCI address", text, "domain:bus:device.function, like 0000:01:00.0 (lspci -D)")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (address, function) = match text.split_once('.') {
            Some((address, function)) => (address, Some(hex(function, 1)?)),
            None => (text, None),
        };
        let mut parts = address.split(':').rev();
        let device = hex(parts.next()?, 2)?;
        let bus = hex(parts.next()?, 2)?;
        let domain = parts.next().map_or(Some(0), |part| hex(part, 4))?;
        let function = function.map(u8::try_from).transpose().ok()?;
        let in_range = device < 32 && function.is_none_or(|f| f < 8) && parts.next().is_none();
        in_range.then_some(Self {
            domain,
            bus: u8::try_from(bus).ok()?,
            device: u8::try_from(device).ok()?,
            function,
        })
    }
}

fn hex(text: &str, width: usize) -> Option<u16> {
    let valid = text.len() == width && text.bytes().all(|b| b.is_ascii_hexdigit());
    valid.then(|| u16::from_str_radix(text, 16).ok()).flatten()
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}", self.domain, self.bus, self.device)?;
        self.function.map_or(Ok(()), |function| write!(f, ".{function:x}"))
    }
}

text_conversions!(PciAddress);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_one_address() {
        assert_eq!(PciAddress::parse("01:00.0").unwrap(), PciAddress::parse("0000:01:00.0").unwrap());
        assert_eq!(PciAddress::parse("0000:01:00").unwrap().to_string(), "0000:01:00");
        assert_eq!(PciAddress::parse("0000:C1:1f.7").unwrap().to_string(), "0000:c1:1f.7");
        for bad in ["", "1:00.0", "0000:01:00.8", "0000:01:20.0", "x:0000:01:00.0", "01:00.", "01:00.10"] {
            assert!(PciAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
