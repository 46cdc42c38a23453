//! Control planes that have come to be on one host: moved by hand, by HA, or made when there was no other.
//!
//! Where a VM is made they are kept apart. Afterwards nothing is moved unasked: what one host's end would take is said.

use std::collections::BTreeMap;

use talmox_types::desired::{Node, Role, Spread};
use talmox_types::{AwayWord, HostName};

use super::place::allowed_hosts;
use super::{NoteKind, Planner};

impl Planner<'_> {
    /// Says which control planes share a host although another could have one of them.
    pub(super) fn watch_spread(&mut self) {
        let mut hosts: BTreeMap<&HostName, Vec<&Node>> = BTreeMap::new();
        let mut all = 0_usize;
        for owned in self.identities.ours().filter(|owned| owned.mark.away != Some(AwayWord::Retired)) {
            let node = self.names.get(owned.mark.node.as_str()).copied();
            if let Some(node) = node.filter(|node| node.role == Role::Controller) {
                let host = self.request.moves.get(&node.name).unwrap_or(&owned.host);
                hosts.entry(host).or_default().push(node);
                all += 1;
            }
        }
        let could = allowed_hosts(self.desired, self.observed).unwrap_or_default();
        let mut free =
            could.into_iter().filter(|host| !hosts.contains_key(host) && !self.places.is_drained(host));
        let is_required = self.desired.proxmox.control_plane_spread == Spread::Required;
        let mut told = Vec::new();
        for (host, nodes) in hosts.iter().filter(|(_, nodes)| nodes.len() > 1) {
            // Those that the description puts there stay.
            let movable = nodes.iter().rev().find(|node| node.vm.host.is_none());
            let Some(node) = movable.filter(|_| nodes.iter().any(|node| self.request.covers(&node.name)))
            else {
                continue;
            };
            let way = match free.next() {
                Some(to) => format!("talmox apply --move {}={to} moves one", node.name),
                None if is_required => "no other host of the cluster is free of control planes".to_owned(),
                None => continue,
            };
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            told.push(format!(
                "{} are on one host, {host}: without it {} of {all} control planes are left; {way}",
                names.join(" and "),
                all - nodes.len(),
            ));
        }
        for text in told {
            self.note(None, NoteKind::Warning, text);
        }
    }
}
