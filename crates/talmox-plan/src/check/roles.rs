//! Whether nobody with a vote in etcd is taken down as if it were a worker.

use std::collections::BTreeSet;

use talmox_types::Mark;
use talmox_types::desired::Role;

use super::{Court, Rule};
use crate::{Goal, Guest, SeenEtcd, SeenMachine};

/// What the members of etcd call themselves counts, not what the description calls them.
pub(super) fn judge(court: &mut Court<'_>) {
    // `destroy` has a rule of its own.
    if court.request.goal == Goal::Destroy {
        return;
    }
    let mut voters: BTreeSet<String> = BTreeSet::new();
    for machine in court.observed.talos.values().filter_map(SeenMachine::configured) {
        if let Some(SeenEtcd::Member { members: Some(members), .. }) = &machine.etcd {
            voters.extend(members.iter().cloned());
        }
    }
    // Where the machines are not asked, the mark of one that etcd was begun on still says so.
    let mark = |guest: &Guest| Mark::of_description(guest.seen()?.live.description()?);
    let is_ours = |mark: &Mark| court.desired.uid.as_ref() == Some(&mark.uid) && mark.bootstrap.is_some();
    let marks = court.observed.guests.values().filter_map(mark).filter(is_ours);
    voters.extend(marks.map(|mark| mark.node.to_string()));
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
