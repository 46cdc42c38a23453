//! The table of privileges, asked with what a preflight knows.

use std::collections::BTreeSet;

pub(crate) use talmox_plan::TEMPLATES_POOL;
pub(crate) use talmox_plan::disk_storages;
use talmox_plan::{Guest, Surroundings};
pub use talmox_plan::{Need, Release, Weight};
use talmox_types::desired::{Desired, Node};
use talmox_types::{HostName, StorageId};

use super::facts::Facts;

/// Asks with hosts that were listed and everything that was seen on them.
fn with<T>(facts: &Facts, ask: impl FnOnce(&Surroundings<'_>) -> T) -> T {
    let hosts: BTreeSet<HostName> = facts.hosts.keys().cloned().collect();
    ask(&Surroundings {
        version: &facts.version,
        hosts: &hosts,
        guests: &facts.seen.guests,
        storages: &facts.seen.storages,
        zones: &facts.zones,
    })
}

/// Every privilege this description needs, each path once for each privilege.
pub fn needs(desired: &Desired, facts: &Facts) -> Vec<Need> {
    with(facts, |around| talmox_plan::needs(desired, around))
}

/// Templates the nodes are cloned from, as far as they can be seen.
pub(crate) fn templates<'a>(desired: &'a Desired, facts: &'a Facts) -> impl Iterator<Item = &'a Guest> {
    talmox_plan::templates(desired, &facts.seen.guests)
}

/// Where images go.
pub(crate) fn image_storage<'a>(desired: &'a Desired, facts: &'a Facts) -> &'a StorageId {
    talmox_plan::image_storage(desired, &facts.seen.storages, &hosts(desired, facts))
}

/// Hosts that may carry a node.
pub(crate) fn hosts_of(desired: &Desired, facts: &Facts, node: &Node) -> Vec<HostName> {
    with(facts, |around| talmox_plan::hosts_of(desired, around, node))
}

/// Hosts that may carry any node.
pub(crate) fn hosts(desired: &Desired, facts: &Facts) -> BTreeSet<HostName> {
    with(facts, |around| talmox_plan::possible_hosts(desired, around))
}

/// Where a bridge is among the resources of the network.
pub(crate) fn bridge_path(facts: &Facts, bridge: &str, vlan: Option<u16>) -> String {
    talmox_plan::bridge_path(&facts.zones, bridge, vlan)
}
