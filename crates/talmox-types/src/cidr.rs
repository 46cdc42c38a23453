//! Networks and ranges of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::invalid::text_conversions;

/// An IP network; `10.0.7.3/24` is kept as written and means the network `10.0.7.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new("a network", text, "an address and a prefix length, like 10.0.7.0/24 or fd00:7::/64")
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        if prefix.is_empty() || prefix.len() > 3 || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Self::new(address.parse().ok()?, prefix.parse().ok()?)
    }

    /// A network of an address and a prefix length, if that length fits the family.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= width(address)).then_some(Self { address, prefix })
    }

    /// The address as it was written.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// The same network with every host bit zero.
    #[must_use]
    pub fn network(&self) -> Self {
        Self { address: from_bits(self.bits() & self.mask(), self.address), prefix: self.prefix }
    }

    /// Whether a bit beyond the prefix is set, so that this names a host rather than a network.
    pub fn has_host_bits(&self) -> bool {
        self.bits() & !self.mask() & all(self.address) != 0
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4() && bits(address) & self.mask() == self.bits() & self.mask()
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.network().address) || other.contains(self.network().address)
    }

    /// The network's first usable address, where most people put the gateway.
    pub fn first_host(&self) -> IpAddr {
        from_bits((self.bits() & self.mask()) | u128::from(self.prefix < width(self.address)), self.address)
    }

    /// The network's own address or, in IPv4, its broadcast address: neither can be a host's.
    pub fn is_reserved(&self, address: IpAddr) -> bool {
        let host_bits = width(self.address) - self.prefix;
        if host_bits < 2 || !self.contains(address) {
            return false;
        }
        let tail = bits(address) & !self.mask() & all(self.address);
        tail == 0 || (self.is_ipv4() && tail == !self.mask() & all(self.address))
    }

    /// The addresses a host may have, lowest first.
    pub fn hosts(&self) -> AddressRange {
        let first = self.bits() & self.mask();
        let last = first | (!self.mask() & all(self.address));
        let host_bits = width(self.address) - self.prefix;
        let (first, last) = match (host_bits, self.is_ipv4()) {
            (0 | 1, _) => (first, last),
            (_, true) => (first + 1, last - 1),
            (_, false) => (first + 1, last),
        };
        AddressRange { first: from_bits(first, self.address), last: from_bits(last, self.address) }
    }

    fn bits(&self) -> u128 {
        bits(self.address)
    }

    fn mask(&self) -> u128 {
        let host_bits = u32::from(width(self.address) - self.prefix);
        u128::MAX.checked_shl(host_bits).unwrap_or(0)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Addresses from one to another, both included, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    first: IpAddr,
    last: IpAddr,
}

impl AddressRange {
    /// Reads `10.0.7.20-10.0.7.29`, `10.0.7.20-29`, a network (its hosts) or one address.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text).ok_or_else(|| {
            Invalid::new(
                "a range of addresses",
                text,
                "a network like 10.0.7.32/28, or first and last like 10.0.7.20-10.0.7.29",
            )
        })
    }

    fn read(text: &str) -> Option<Self> {
        if text.contains('/') {
            return Cidr::parse(text).ok().map(|cidr| cidr.hosts());
        }
        let Some((first, last)) = text.split_once('-') else {
            let only = text.parse().ok()?;
            return Some(Self { first: only, last: only });
        };
        let (first, last) = (first.trim().parse::<IpAddr>().ok()?, last.trim());
        let last = match (first, last.parse::<IpAddr>()) {
            (_, Ok(last)) => last,
            // `10.0.7.20-29`: only the last octet is repeated.
            (IpAddr::V4(v4), Err(_)) => {
                let [a, b, c, _] = v4.octets();
                IpAddr::V4(Ipv4Addr::new(a, b, c, last.parse().ok()?))
            }
            (IpAddr::V6(_), Err(_)) => return None,
        };
        Self::between(first, last)
    }

    /// A range of two addresses of one family, the lower one first.
    pub fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        (first.is_ipv4() == last.is_ipv4() && bits(first) <= bits(last)).then_some(Self { first, last })
    }

    pub fn first(&self) -> IpAddr {
        self.first
    }

    pub fn last(&self) -> IpAddr {
        self.last
    }

    /// The address right before another one, if it is in the range.
    pub fn before(&self, address: IpAddr) -> Option<IpAddr> {
        let previous = from_bits(bits(address).checked_sub(1)?, address);
        self.contains(previous).then_some(previous)
    }

    /// The part of the range from an address on.
    pub fn starting_at(&self, address: IpAddr) -> Option<Self> {
        self.contains(address).then_some(Self { first: address, last: self.last })
    }

    /// How many addresses there are, as far as a `u64` can tell.
    pub fn count(&self) -> u64 {
        u64::try_from((bits(self.last) - bits(self.first)).saturating_add(1)).unwrap_or(u64::MAX)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4()
            && (bits(self.first)..=bits(self.last)).contains(&bits(address))
    }

    /// The addresses, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let family = self.first;
        (bits(self.first)..=bits(self.last)).map(move |value| from_bits(value, family))
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

text_conversions!(Cidr, AddressRange);

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn all(address: IpAddr) -> u128 {
    if address.is_ipv4() { u128::from(u32::MAX) } else { u128::MAX }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(u32::from(v4)),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// The address of the same family as `like` with these bits.
fn from_bits(value: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(value & all(like)).unwrap_or(u32::MAX))),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        Cidr::parse(text).unwrap()
    }

    #[test]
    fn membership_and_overlap() {
        let net = cidr("10.0.7.0/24");
        assert!(net.contains("10.0.7.255".parse().unwrap()));
        assert!(!net.contains("10.0.8.0".parse().unwrap()));
        assert!(!net.contains("::1".parse().unwrap()));
        assert!(net.overlaps(&cidr("10.0.0.0/8")));
        assert!(!net.overlaps(&cidr("10.0.6.0/24")));
        assert!(!net.overlaps(&cidr("::/0")));
        assert!(cidr("0.0.0.0/0").contains("255.255.255.255".parse().unwrap()));
        assert!(cidr("::/0").contains("ffff::".parse().unwrap()));
    }

    #[test]
    fn hosts_leave_out_network_and_broadcast() {
        assert_eq!(cidr("10.0.7.3/24").hosts().to_string(), "10.0.7.1-10.0.7.254");
        assert_eq!(cidr("10.0.7.3/24").first_host().to_string(), "10.0.7.1");
        assert_eq!(cidr("10.0.7.4/31").hosts().count(), 2);
        assert_eq!(cidr("10.0.7.4/32").hosts().count(), 1);
        assert_eq!(cidr("::/0").hosts().count(), u64::MAX);
        assert!(cidr("10.0.7.0/24").is_reserved("10.0.7.255".parse().unwrap()));
        assert!(!cidr("10.0.7.0/24").is_reserved("10.0.7.1".parse().unwrap()));
        assert!(!cidr("10.0.7.0/31").is_reserved("10.0.7.0".parse().unwrap()));
    }

    #[test]
    fn ranges_in_every_form() {
        let range = AddressRange::parse("10.0.7.20-29").unwrap();
        assert_eq!(range.to_string(), "10.0.7.20-10.0.7.29");
        assert_eq!(range.count(), 10);
        assert_eq!(range.iter().last().unwrap().to_string(), "10.0.7.29");
        assert_eq!(AddressRange::parse("10.0.7.32/30").unwrap().count(), 2);
        assert_eq!(AddressRange::parse("10.0.7.9").unwrap().to_string(), "10.0.7.9");
        for bad in ["", "10.0.7.29-10.0.7.20", "10.0.7.1-::2", "10.0.7.1-300", "a-b", "10.0.7.0/33"] {
            assert!(AddressRange::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn neighbours_are_found_without_counting() {
        let hosts = cidr("fd00:7::/64").hosts();
        let far: IpAddr = "fd00:7::aaaa:bbbb:cccc:dddd".parse().unwrap();
        assert_eq!(hosts.before(far).unwrap().to_string(), "fd00:7::aaaa:bbbb:cccc:dddc");
        assert_eq!(
            hosts.starting_at(far).unwrap().iter().nth(1).unwrap().to_string(),
            "fd00:7::aaaa:bbbb:cccc:ddde"
        );
        assert_eq!(hosts.before(hosts.first()), None);
        assert_eq!(hosts.starting_at("fd00:8::1".parse().unwrap()), None);
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in ["", "10.0.7.0", "10.0.7.0/", "10.0.7.0/33", "10.0.7.0/+8", "::/129", "10.0.7/24"] {
            assert!(Cidr::parse(bad).is_err(), "{bad}");
        }
    }
}
