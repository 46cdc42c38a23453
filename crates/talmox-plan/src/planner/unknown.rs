//! Guests that may be a node that seems to be missing, because nobody can tell yet what they are.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::desired::{Desired, Node};
use talmox_types::{HostName, NodeName, VmId};

use crate::identity::by_name;
use crate::{Class, Guest, Identities, Observed, Seen, Waiting};

/// Found once for all nodes: looking through every guest for each of them would take the square of their number.
pub(super) struct Unknown<'a> {
    /// On hosts that do not answer, by name.
    named: BTreeMap<&'a str, Vec<Lost<'a>>>,
    /// The first on each host of those that may be any node.
    anyone: BTreeMap<&'a HostName, Lost<'a>>,
    /// On ids we want, in the making.
    in_flight: Vec<(VmId, HostName, String)>,
}

/// A guest that could not be read, and why not.
#[derive(Clone, Copy)]
struct Lost<'a> {
    guest: &'a Guest,
    reason: &'a str,
}

impl<'a> Unknown<'a> {
    pub(super) fn new(desired: &'a Desired, observed: &'a Observed, identities: &Identities) -> Self {
        let in_flight = identities.iter().filter_map(|(vmid, class)| match class {
            Class::InFlight { lock } => {
                observed.guests.get(&vmid).map(|guest| (vmid, guest.host.clone(), lock.clone()))
            }
            Class::Ours(_) | Class::Copy { .. } | Class::Lost { .. } | Class::Foreign => None,
        });
        let mut unknown =
            Self { named: BTreeMap::new(), anyone: BTreeMap::new(), in_flight: in_flight.collect() };
        let (declared, pool) = (by_name(desired), &desired.proxmox.pool);
        for guest in observed.guests.values() {
            let Seen::Unreadable(reason) = &guest.config else { continue };
            let lost = Lost { guest, reason };
            let Some(name) = guest.name.as_deref() else {
                unknown.anyone.entry(&guest.host).or_insert(lost);
                continue;
            };
            unknown.named.entry(name).or_default().push(lost);
            // In our pool under another name: a node that was renamed, or is not described any more.
            if pool.is_some() && guest.pool == *pool && !declared.contains_key(name) {
                unknown.anyone.entry(&guest.host).or_insert(lost);
            }
        }
        unknown
    }

    /// The host a node's VM may be on, though nobody can read it there, and why not. What is on hosts that are gone is gone.
    pub(super) fn out_of_reach(&self, node: &Node, gone: &BTreeSet<HostName>) -> Option<(HostName, String)> {
        let holder = talmox_types::shelf_name(&node.name);
        let holder = self.named.get(holder.as_str()).map_or(&[][..], Vec::as_slice);
        let named = self.named(&node.name).iter().chain(holder);
        let all = named.chain(self.anyone.values()).filter(|lost| !gone.contains(&lost.guest.host));
        let first = all.min_by_key(|lost| lost.guest.vmid)?;
        Some((first.guest.host.clone(), first.reason.to_owned()))
    }

    /// VMs of a node's name that nobody can read.
    pub(super) fn of_name(&self, node: &NodeName) -> Vec<&'a Guest> {
        self.named(node).iter().map(|lost| lost.guest).collect()
    }

    fn named(&self, node: &NodeName) -> &[Lost<'a>] {
        self.named.get(node.as_str()).map_or(&[], Vec::as_slice)
    }

    /// What has to be waited for before anything can be called missing.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = Waiting> {
        self.in_flight.iter().map(|(vmid, host, lock)| Waiting::InFlight {
            vmid: *vmid,
            host: host.clone(),
            lock: lock.clone(),
        })
    }
}
