//! Memory and space: sums, against what is free. Where each VM goes is for the plan to say.

use std::collections::{BTreeMap, BTreeSet};

use talmox_plan::{Storage, identify};
use talmox_types::desired::{Desired, Node};
use talmox_types::{HostName, StorageId};

use super::{gib, listed};
use crate::preflight::facts::Facts;
use crate::preflight::needs::hosts_of;
use crate::preflight::report::Check;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub(super) fn checks(desired: &Desired, facts: &Facts) -> Vec<Check> {
    let identities = identify(desired, &facts.seen);
    let missing: Vec<&Node> =
        desired.nodes.iter().filter(|node| identities.of_node(&node.name).next().is_none()).collect();
    if missing.is_empty() {
        return vec![Check::ok("capacity", "every node has its VM: no more memory or space is needed")];
    }
    let mut checks = memory(desired, facts, &missing);
    checks.extend(space(desired, facts, &missing));
    checks
}

/// Nodes by the hosts that may carry them.
fn by_hosts<'a>(
    desired: &Desired,
    facts: &Facts,
    nodes: &[&'a Node],
) -> BTreeMap<Vec<HostName>, Vec<&'a Node>> {
    let mut groups: BTreeMap<Vec<HostName>, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        groups.entry(hosts_of(desired, facts, node)).or_default().push(node);
    }
    groups
}

fn memory(desired: &Desired, facts: &Facts, missing: &[&Node]) -> Vec<Check> {
    let reserve = u64::from(desired.proxmox.placement.reserve_memory) * MIB;
    let free_on = |host: &HostName| -> Option<u64> {
        let seen = facts.seen.hosts.get(host).filter(|seen| seen.online)?;
        Some(seen.memory?.saturating_sub(seen.memory_used?).saturating_sub(reserve))
    };
    let one = |(hosts, nodes): (Vec<HostName>, Vec<&Node>)| {
        let wanted: u64 = nodes.iter().map(|node| u64::from(node.vm.memory) * MIB).sum();
        let largest = nodes.iter().map(|node| u64::from(node.vm.memory) * MIB).max().unwrap_or_default();
        let free: Vec<u64> = hosts.iter().filter_map(free_on).collect();
        let (sum, most) = (free.iter().sum::<u64>(), free.iter().copied().max().unwrap_or_default());
        let place = listed(&hosts);
        let told =
            format!("memory on {place}: {} free after the reserve, {} are needed", gib(sum), gib(wanted));
        if free.is_empty() {
            let message =
                format!("memory on {place} is unknown: Sys.Audit is missing, or the hosts are down");
            Check::not_checked("capacity", message, None)
        } else if wanted > sum {
            let message = format!("{told}: over-committed by {}", gib(wanted - sum));
            Check::warning(
                "capacity",
                message,
                "fewer or smaller nodes, more hosts, or a smaller placement.reserve_memory",
            )
        } else if largest > most {
            let message = format!("{told}, but no host has {} for the largest", gib(largest));
            Check::warning("capacity", message, "make the node smaller, or free a host for it")
        } else {
            Check::ok("capacity", told)
        }
    };
    by_hosts(desired, facts, missing).into_iter().map(one).collect()
}

/// What each storage is asked for, and by which hosts.
fn space(desired: &Desired, facts: &Facts, missing: &[&Node]) -> Vec<Check> {
    let mut wanted: BTreeMap<&StorageId, (u64, BTreeSet<HostName>)> = BTreeMap::new();
    for node in missing {
        let own = (&node.vm.storage, node.vm.disk_size);
        let extra = node.vm.extra_disks.iter().map(|disk| (&disk.storage, disk.size));
        for (storage, size) in extra.chain([own]) {
            let (sum, hosts) = wanted.entry(storage).or_default();
            *sum += u64::from(size) * GIB;
            hosts.extend(hosts_of(desired, facts, node));
        }
    }
    let one = |(id, (sum, hosts)): (&StorageId, (u64, BTreeSet<HostName>))| {
        let seen: Vec<&Storage> =
            facts.seen.storages.iter().filter(|seen| seen.id == *id && hosts.contains(&seen.host)).collect();
        // A shared one is there once, however many hosts see it.
        let counted = if seen.iter().any(|seen| seen.shared) { &seen[..1] } else { &seen[..] };
        (!counted.is_empty()).then(|| storage(desired, id, sum, counted))
    };
    wanted.into_iter().filter_map(one).collect()
}

fn storage(desired: &Desired, id: &StorageId, wanted: u64, seen: &[&Storage]) -> Check {
    let free: u64 = seen.iter().map(|seen| seen.total.saturating_sub(seen.used)).sum();
    let thousandths = u64::from(desired.proxmox.placement.storage_overcommit.thousandths());
    let bearable = |seen: &&Storage| (seen.total / 1000 * thousandths).saturating_sub(seen.used);
    let bearable: u64 = seen.iter().map(bearable).sum();
    let thick = seen.iter().any(|seen| seen.kind == "lvm");
    let thin = if thick { "" } else { " thin" };
    let told = format!("storage {id}: {} free, {}{thin} are needed", gib(free), gib(wanted));
    if wanted <= free {
        Check::ok("capacity", told)
    } else if wanted <= bearable {
        let message = format!(
            "{told}: over-committed by {}, as placement.storage_overcommit allows",
            gib(wanted - free)
        );
        Check::warning("capacity", message, "watch it: a storage that is full stops its VMs")
    } else {
        let message = format!("{told}: over-committed by {}", gib(wanted - free));
        Check::warning(
            "capacity",
            message,
            "smaller disks, another storage, or a larger placement.storage_overcommit",
        )
    }
}
