//! Whether nobody with a vote in etcd is taken down as if it were a worker.

use std::collections::BTreeSet;

use talmox_types::desired::Role;

use super::{Court, Rule};
use crate::{SeenEtcd, SeenMachine};

/// What the members of etcd call themselves counts, not what the description calls them.
pub(super) fn judge(court: &mut Court<'_>) {
    if !court.request.looks_inside() {
        return;
    }
    let mut voters: BTreeSet<&str> = BTreeSet::new();
    for machine in court.observed.talos.values().filter_map(SeenMachine::configured) {
        if let Some(SeenEtcd::Member { members: Some(members), .. }) = &machine.etcd {
            voters.extend(members.iter().map(String::as_str));
        }
    }
    for step in court.steps().iter().filter(|step| step.effect.interrupts()) {
        let node = step.node.as_ref().and_then(|node| court.node(node));
        if let Some(node) =
            node.filter(|node| node.role == Role::Worker && voters.contains(node.name.as_str()))
        {
            let problem = format!("{} is described as a worker and has a vote in etcd", node.name);
            court.violate(Rule::OneAtATime, step, problem);
        }
    }
}
