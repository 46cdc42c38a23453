//! Links and addresses of a node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use talmox_machine::{Config, Source};

use super::Machine;
use super::journal::Happened;
use super::settings::Settings;
use crate::hardware::MachineId;
use crate::nocloud::PlatformNetwork;
use crate::nodes::{News, Nodes};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Network {
    pub(crate) up: bool,
    pub(crate) addresses: Vec<Address>,
    pub(crate) hostname: String,
    pub(crate) domain: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address {
    pub(crate) link: String,
    pub(crate) ip: IpAddr,
    pub(crate) bits: u8,
}

impl Network {
    pub(crate) fn is_ready(&self) -> bool {
        self.up && !self.addresses.is_empty()
    }

    pub(crate) fn ips(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|address| address.ip).collect()
    }

    /// The one other nodes know it by.
    pub(crate) fn main(&self) -> Option<IpAddr> {
        self.addresses.first().map(|address| address.ip)
    }
}

/// Reads `10.0.0.1/24`; an address alone is a network of its own.
pub(crate) fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/').unwrap_or((text, ""));
    let ip: IpAddr = address.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let bits = if bits.is_empty() { most } else { bits.parse().ok().filter(|bits| *bits <= most)? };
    Some((ip, bits))
}

/// The name a machine gives itself if nobody gave it one: drawn from its UUID, so that it stays.
fn stable_name(uuid: &str) -> String {
    let letters: String = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    let part = |from: usize| letters.get(from..from + 3).unwrap_or("000").to_owned();
    format!("talos-{}-{}", part(0), part(letters.len().saturating_sub(3)))
}

/// The name a configuration of documents alone gives.
fn given_name(text: &str) -> Option<String> {
    let config = Config::parse(Source { name: "config", text }).ok()?;
    config.document("HostnameConfig")?.at(&["hostname"])?.as_text().map(str::to_owned)
}

/// Where the names and addresses of a machine come from.
struct Sources<'a> {
    machine: &'a Machine,
    platform: &'a PlatformNetwork,
    settings: Option<&'a Settings>,
    /// A name that was given in maintenance, in a document of its own.
    given: Option<String>,
}

impl Sources<'_> {
    /// The configuration's name wins over the platform's, that over the machine's own.
    fn name(&self) -> (String, String) {
        let configured = self.settings.and_then(|settings| settings.hostname.clone());
        let full = configured
            .or_else(|| self.given.clone())
            .or_else(|| self.platform.hostname.clone())
            .unwrap_or_else(|| stable_name(&self.machine.hardware.uuid));
        match full.split_once('.') {
            Some((name, domain)) => (name.to_owned(), domain.to_owned()),
            None => (full, String::new()),
        }
    }

    fn link_by_mac(&self, mac: &str) -> Option<String> {
        let at = self.machine.hardware.nics.iter().position(|nic| nic.mac.eq_ignore_ascii_case(mac))?;
        Some(format!("eth{at}"))
    }

    fn fixed(&self) -> Vec<Address> {
        let platform = self.platform.addresses.iter().map(|one| (one.link.clone(), one.address.clone()));
        let configured = self.settings.into_iter().flat_map(|settings| &settings.links).flat_map(|link| {
            let name = link.mac.as_deref().and_then(|mac| self.link_by_mac(mac));
            let name = name.unwrap_or_else(|| link.name.clone());
            link.addresses.iter().map(move |address| (name.clone(), address.clone()))
        });
        let mut seen = BTreeSet::new();
        platform
            .chain(configured)
            .filter_map(|(link, text)| {
                let (ip, bits) = parse_prefix(&text)?;
                seen.insert(ip).then_some(Address { link, ip, bits })
            })
            .collect()
    }

    /// Links that ask for an address: those that are told to, and those nobody says anything about.
    fn asking(&self) -> Vec<usize> {
        let mut told: BTreeSet<String> = self.platform.dhcp.iter().cloned().collect();
        let mut spoken_of: BTreeSet<String> =
            self.platform.links.iter().map(|link| link.name.clone()).collect();
        for link in self.settings.into_iter().flat_map(|settings| &settings.links) {
            let name = link.mac.as_deref().and_then(|mac| self.link_by_mac(mac));
            let name = name.unwrap_or_else(|| link.name.clone());
            if link.dhcp == Some(true) {
                told.insert(name.clone());
            }
            spoken_of.insert(name);
        }
        (0..self.machine.hardware.nics.len())
            .filter(|at| {
                let name = format!("eth{at}");
                told.contains(&name) || !spoken_of.contains(&name)
            })
            .collect()
    }
}

impl Nodes {
    /// Works out name and addresses anew, and tells of them if they changed.
    pub(crate) fn configure_network(&mut self, id: MachineId) {
        let Some(machine) = self.machines.get(&id) else { return };
        let Some(run) = &machine.run else { return };
        // It is forgotten with the first configuration for the whole machine.
        let given = run.partial.as_deref().filter(|_| run.active.is_none()).and_then(given_name);
        let sources = Sources { machine, platform: &run.platform, settings: run.settings(), given };
        let (hostname, domain) = sources.name();
        let mut addresses = sources.fixed();
        for at in sources.asking() {
            let lease = machine.hardware.nics.get(at).and_then(|nic| self.leases.get(&nic.mac));
            if let Some(ip) = lease {
                let bits = if ip.is_ipv4() { 24 } else { 64 };
                addresses.push(Address { link: format!("eth{at}"), ip: *ip, bits });
            }
        }
        if let Some(wrong) = self.faults.wrong_address(id) {
            addresses = vec![Address { link: "eth0".to_owned(), ip: wrong, bits: 24 }];
        }
        let network = Network { up: true, addresses, hostname, domain };
        if run.network == network {
            return;
        }
        let agent = run.image.extensions.iter().any(|name| name.ends_with("qemu-guest-agent"));
        let (addresses, hostname) = (network.ips(), network.hostname.clone());
        if let Some(run) = self.run_mut(id) {
            run.network = network;
        }
        let words = addresses.iter().map(IpAddr::to_string).collect();
        self.note(id, Happened::Address { hostname: hostname.clone(), addresses: words });
        self.news.push(News::Address { machine: id, addresses, hostname, agent });
        self.renew_certificate(id);
    }
}

impl Nodes {
    /// Addresses control planes share, and who has each of them: the first whose etcd is up and has a leader.
    pub(crate) fn shared_addresses(&self) -> Vec<(IpAddr, MachineId)> {
        let mut found: Vec<(IpAddr, MachineId)> = Vec::new();
        for (id, machine) in &self.machines {
            let Some(run) = &machine.run else { continue };
            let Some(settings) = run.settings().filter(|_| run.is_control_plane()) else { continue };
            let has_leader = || {
                let member = self.running_member(*id);
                member
                    .and_then(|data| self.clusters.get(&data.cluster))
                    .is_some_and(|known| known.leader.is_some())
            };
            if settings.shared_addresses.is_empty() || !run.is_service_up("etcd") || !has_leader() {
                continue;
            }
            for shared in &settings.shared_addresses {
                if !found.iter().any(|(ip, _)| ip == shared) {
                    found.push((*shared, *id));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read() {
        assert_eq!(parse_prefix("10.0.0.1/24"), Some(("10.0.0.1".parse().unwrap(), 24)));
        assert_eq!(parse_prefix("fd00::1"), Some(("fd00::1".parse().unwrap(), 128)));
        assert_eq!(parse_prefix("10.0.0.1/33"), None);
    }

    #[test]
    fn a_machine_without_a_name_keeps_the_one_it_makes_up() {
        assert_eq!(stable_name("1b2c3d4e-0000-4000-8000-0000000009af"), "talos-1b2-9af");
    }
}
