//! Whether data of etcd is given up only where it is lost, and for something.

use talmox_types::NodeName;
use talmox_types::desired::Role;

use super::{Court, Rule};
use crate::{SeenEtcd, SeenMachine, Step};

/// While any member may have a leader, no control plane goes for a snapshot; and none goes without one.
pub(super) fn judge(court: &mut Court<'_>) {
    if !court.request.upkeep.quorum_lost {
        return;
    }
    let controllers = || court.desired.nodes.iter().filter(|node| node.role == Role::Controller);
    let led = controllers().find(|node| matches!(member(court, &node.name), Some(false)));
    let led = led.map(|node| node.name.clone());
    let snapshot = court.request.upkeep.restore.is_some();
    for step in court.steps() {
        let Step::RemoveVm { vm, .. } = &step.step else { continue };
        if !controllers().any(|node| node.name == vm.mark.node) {
            continue;
        }
        if let Some(led) = &led {
            court.violate(Rule::OneAtATime, step, format!("{led} may have a leader: nothing is lost yet"));
        }
        if !snapshot {
            court.violate(Rule::SnapshotFirst, step, "nothing takes the place of its data");
        }
    }
}

/// Whether a node is a member of etcd without a leader, whose data was given up for a snapshot.
pub(super) fn is_given_up(court: &Court<'_>, node: &NodeName) -> bool {
    let asked = court.request.upkeep.quorum_lost && court.request.upkeep.restore.is_some();
    asked && member(court, node) == Some(true)
}

/// Whether a member of etcd is known to have no leader; none if it is no member, as far as anybody knows.
fn member(court: &Court<'_>, node: &NodeName) -> Option<bool> {
    let seen = court.observed.talos.get(node).and_then(SeenMachine::configured)?;
    match &seen.etcd {
        Some(SeenEtcd::Member { healthy, leaderless, .. }) => Some(*leaderless && !healthy),
        Some(SeenEtcd::Empty | SeenEtcd::Unknown { .. }) | None => None,
    }
}
