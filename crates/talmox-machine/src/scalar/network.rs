//! Addresses and ports.

use std::net::{IpAddr, Ipv6Addr};

/// An IP address; an IPv6 one may have a zone.
pub(crate) fn address(text: &str) -> Option<String> {
    match text.split_once('%') {
        Some((address, zone)) => {
            let address: Ipv6Addr = address.parse().ok()?;
            (!zone.is_empty()).then(|| format!("{address}%{zone}"))
        }
        None => text.parse::<IpAddr>().ok().map(|address| address.to_string()),
    }
}

/// An address with the length of its network.
pub(crate) fn prefix(text: &str) -> Option<String> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let plain = bits == "0" || bits.starts_with(|c: char| ('1'..='9').contains(&c));
    let bits: u8 = plain.then(|| bits.parse().ok()).flatten()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (bits <= most).then(|| format!("{address}/{bits}"))
}

pub(crate) fn address_port(text: &str) -> Option<String> {
    text.parse::<std::net::SocketAddr>().ok().map(|both| both.to_string())
}

/// Bytes in hexadecimal, with or without colons.
pub(crate) fn hardware_address(text: &str) -> Option<String> {
    let digits = text.replace(':', "").to_ascii_lowercase();
    let whole = digits.len().is_multiple_of(2) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let pairs = digits.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned());
    whole.then(|| pairs.collect::<Vec<_>>().join(":"))
}

/// Two ports with a dash between.
pub(crate) fn port_range(text: &str) -> Option<(u16, u16)> {
    let (low, high) = text.split_once('-')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    Some((number(low)?, number(high)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_in_their_shortest_form() {
        assert_eq!(address("FD00:0::1").as_deref(), Some("fd00::1"));
        assert_eq!(address("fe80::1%eth0").as_deref(), Some("fe80::1%eth0"));
        assert_eq!(prefix("10.0.0.1/24").as_deref(), Some("10.0.0.1/24"));
        assert_eq!(address_port("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(hardware_address("AABBcc").as_deref(), Some("aa:bb:cc"));
        assert_eq!(port_range("80-90"), Some((80, 90)));
    }

    #[test]
    fn what_is_no_address_is_none() {
        assert!(address("10.0.0").is_none() && address("10.0.0.1%eth0").is_none());
        assert!(
            prefix("10.0.0.1/33").is_none()
                && prefix("10.0.0.1/024").is_none()
                && prefix("10.0.0.1").is_none()
        );
        assert!(
            hardware_address("aab").is_none() && port_range("80").is_none() && port_range("+1-2").is_none()
        );
    }
}
