//! Addresses Proxmox hands to the guest through cloud-init.

use std::net::{Ipv4Addr, Ipv6Addr};

use talmox_types::Cidr;

use crate::property::macros::property_struct;
use crate::property::{Grammar, PropertyValue};

/// How an interface gets its IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Setting {
    Dhcp,
    Manual,
    /// An address with the prefix of its network.
    Static(Cidr),
}

/// How an interface gets its IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv6Setting {
    Auto,
    Dhcp,
    Manual,
    Static(Cidr),
}

impl PropertyValue for Ipv4Setting {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "dhcp" => Ok(Self::Dhcp),
            "manual" => Ok(Self::Manual),
            _ => match Cidr::parse(text) {
                Ok(cidr) if cidr.is_ipv4() && cidr.prefix() >= 8 => Ok(Self::Static(cidr)),
                _ => Err(format!(
                    "`{text}` is neither dhcp, manual nor an IPv4 address with a prefix of 8 to 32"
                )),
            },
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Dhcp => "dhcp".to_owned(),
            Self::Manual => "manual".to_owned(),
            Self::Static(cidr) => cidr.to_string(),
        }
    }
}

impl PropertyValue for Ipv6Setting {
    fn read(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "dhcp" => Ok(Self::Dhcp),
            "manual" => Ok(Self::Manual),
            _ => match Cidr::parse(text) {
                Ok(cidr) if !cidr.is_ipv4() && cidr.prefix() >= 8 => Ok(Self::Static(cidr)),
                _ => Err(format!(
                    "`{text}` is neither auto, dhcp, manual nor an IPv6 address with a prefix of 8 to 128"
                )),
            },
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Dhcp => "dhcp".to_owned(),
            Self::Manual => "manual".to_owned(),
            Self::Static(cidr) => cidr.to_string(),
        }
    }
}

property_struct! {
    /// `ipconfig0`: the addresses of `net0`. Proxmox keeps this text as it was given.
    IpConfig: Grammar::new("an IP configuration").leading(&["ip", "gw", "ip6", "gw6"]);
    required {}
    optional {
        ip: Ipv4Setting => "ip";
        gateway: Ipv4Addr => "gw";
        ip6: Ipv6Setting => "ip6";
        gateway6: Ipv6Addr => "gw6";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_people_write_it() {
        let text = "ip=10.0.0.5/24,gw=10.0.0.1";
        assert_eq!(IpConfig::parse("gw=10.0.0.1,ip=10.0.0.5/24").unwrap().to_string(), text);
        let six = "ip=dhcp,ip6=fd00::5/64,gw6=fd00::1";
        assert_eq!(IpConfig::parse("ip6=FD00:0::5/64,gw6=fd00:0:0::1,ip=dhcp").unwrap().to_string(), six);
        for bad in
            ["ip=10.0.0.5", "ip=foo", "ip=10.0.0.5/33", "ip=fd00::5/64", "ip6=10.0.0.5/24", "ip=10.0.0.5/7"]
        {
            assert!(IpConfig::parse(bad).is_err(), "{bad}");
        }
    }
}
