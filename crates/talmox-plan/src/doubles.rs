//! Nodes that have more than one VM.
//!
//! Which of them is the node decides what a person is told to remove, so nothing is guessed. The lower id says little: a host that was
//! given up for good and is back all the same brings the old VM with it, and the one that took its place has the higher.

use talmox_types::NodeName;

use crate::{Identities, Nonce, Observed, Owned, Power};

/// The VM of a node that is the node: its only one, the only one that runs, or, where none does, the only one that may ever have run. Of
/// those that never did, and of those this very run made, the one with the lowest id. None: it cannot be told.
pub(crate) fn who_stays<'a>(
    identities: &'a Identities,
    observed: &Observed,
    node: &'a NodeName,
    nonce: &Nonce,
) -> Option<&'a Owned> {
    let all: Vec<&Owned> = identities.of_node(node).collect();
    let runs = |owned: &&&Owned| power(observed, owned) != Power::Stopped;
    let mut running = all.iter().filter(runs);
    match (running.next(), running.next()) {
        (Some(one), None) => return Some(one),
        (Some(_), Some(_)) => return None,
        (None, _) => {}
    }
    // One without a witness was never finished, and is started only then.
    let may_have_run = |owned: &&&Owned| owned.finished && owned.mark.incarnation != nonce.as_str();
    let mut used = all.iter().filter(may_have_run);
    match (used.next(), used.next()) {
        (Some(one), None) => Some(one),
        (Some(_), Some(_)) => None,
        (None, _) => all.first().copied(),
    }
}

/// A VM for people: `2002 (pve3, stopped)`.
pub(crate) fn called(observed: &Observed, owned: &Owned) -> String {
    let does = match power(observed, owned) {
        Power::Running => "runs",
        Power::Stopped => "stopped",
        Power::Unknown => "nobody knows whether it runs",
    };
    format!("{} ({}, {does})", owned.mark.vmid, owned.host)
}

fn power(observed: &Observed, owned: &Owned) -> Power {
    observed.guests.get(&owned.mark.vmid).map_or(Power::Unknown, |guest| guest.power)
}
