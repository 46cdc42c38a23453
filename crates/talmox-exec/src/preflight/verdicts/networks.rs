//! Bridges and VLANs on the hosts.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::HostName;
use talmox_types::desired::Desired;

use super::listed;
use crate::preflight::facts::Facts;
use crate::preflight::needs::{bridge_path, hosts_of};
use crate::preflight::report::Check;

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let mut wanted: BTreeMap<(String, Option<u16>), BTreeSet<HostName>> = BTreeMap::new();
    for node in &desired.nodes {
        for nic in &node.vm.nics {
            let hosts = wanted.entry((nic.bridge.to_string(), nic.vlan)).or_default();
            hosts.extend(hosts_of(desired, facts, node));
        }
    }
    wanted.iter().flat_map(|((bridge, vlan), hosts)| bridge_on(facts, bridge, *vlan, hosts)).collect()
}

fn bridge_on(facts: &Facts, bridge: &str, vlan: Option<u16>, hosts: &BTreeSet<HostName>) -> Vec<Check> {
    let name = "bridge";
    let path = bridge_path(facts, bridge, vlan);
    let visible = facts.holds(&path, "SDN.Use") == Some(true);
    let what = vlan.map_or_else(|| bridge.to_owned(), |vlan| format!("{bridge} with VLAN {vlan}"));
    let (mut checks, mut fine, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    for host in hosts {
        let Some(host_facts) = facts.hosts.get(host) else { continue };
        let Ok(bridges) = &host_facts.bridges else { continue };
        match bridges.iter().find(|seen| seen.iface == bridge) {
            Some(seen) if !seen.active => checks.push(Check::problem(
                name,
                format!("{bridge} on {host} is not active"),
                format!("on the host: ifup {bridge}"),
            )),
            Some(seen) => {
                fine.push(host);
                if vlan.is_some() && !seen.bridge_vlan_aware {
                    plain.push(host);
                }
            }
            None if visible => checks.push(Check::problem(
                name,
                format!("{host} has no bridge {bridge}"),
                format!("its bridges are {}", listed(bridges.iter().map(|seen| &seen.iface))),
            )),
            None => {
                let message = format!("{what} on {host}: SDN.Use to see it is missing on {path}");
                checks.push(Check::not_checked(name, message, None));
            }
        }
    }
    if !fine.is_empty() {
        let aware = if plain.is_empty() {
            ""
        } else {
            "; it is not VLAN-aware, so Proxmox adds a bridge for the VLAN"
        };
        checks.push(Check::ok(name, format!("{what} is there on {}{aware}", listed(fine))));
    }
    checks
}
