//! What the platform says of the network.

use serde::{Deserialize, Serialize};

use crate::hardware::Hardware;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlatformNetwork {
    /// Perhaps with a domain.
    pub(crate) hostname: Option<String>,
    pub(crate) instance: Option<String>,
    pub(crate) instance_type: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) region: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) addresses: Vec<PlatformAddress>,
    pub(crate) links: Vec<PlatformLink>,
    pub(crate) routes: Vec<Route>,
    pub(crate) resolvers: Vec<String>,
    /// Links that ask for an address, for IPv4 and IPv6.
    pub(crate) dhcp: Vec<String>,
    pub(crate) dhcp6: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlatformAddress {
    pub(crate) link: String,
    /// With its network's length.
    pub(crate) address: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlatformLink {
    pub(crate) name: String,
    pub(crate) mtu: u32,
    pub(crate) kind: Kind,
    /// The bond it is a part of, and its place in it.
    pub(crate) master: Option<(String, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Physical,
    Bond(Bond),
    Vlan { parent: String, number: u16 },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bond {
    pub(crate) mode: String,
    pub(crate) hash_policy: String,
    pub(crate) lacp_rate: String,
    pub(crate) monitor: u32,
    pub(crate) up_delay: u32,
    pub(crate) down_delay: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Route {
    /// None is everywhere.
    pub(crate) destination: Option<String>,
    /// None for what is on the link itself.
    pub(crate) gateway: Option<String>,
    pub(crate) link: String,
    pub(crate) priority: u32,
    pub(crate) family: u8,
}

impl Route {
    pub(crate) const PRIORITY: u32 = 1024;

    /// What a gateway has unless somebody says otherwise.
    pub(crate) fn default_priority(gateway: &str) -> u32 {
        if gateway.contains(':') { 2 * Self::PRIORITY } else { Self::PRIORITY }
    }

    pub(crate) fn family(address: &str) -> u8 {
        if address.contains(':') { 6 } else { 4 }
    }

    /// The way to everywhere through a gateway.
    pub(crate) fn default(gateway: &str, link: &str) -> Self {
        Self {
            destination: None,
            gateway: Some(gateway.to_owned()),
            link: link.to_owned(),
            priority: Self::default_priority(gateway),
            family: Self::family(gateway),
        }
    }
}

/// The links a machine has, by the names its kernel gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links(pub(crate) Vec<(String, String)>);

impl Links {
    pub(crate) fn of(hardware: &Hardware) -> Self {
        let named = |(at, nic): (usize, &crate::hardware::Nic)| (format!("eth{at}"), nic.mac.clone());
        Self(hardware.nics.iter().enumerate().map(named).collect())
    }

    /// The link with that hardware address; without one, the name that was given.
    pub(crate) fn name(&self, mac: Option<&str>, given: &str) -> String {
        let found = mac.and_then(|mac| self.0.iter().find(|(_, known)| known.eq_ignore_ascii_case(mac)));
        found.map_or_else(|| given.to_owned(), |(name, _)| name.clone())
    }
}
