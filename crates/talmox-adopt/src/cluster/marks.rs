//! VMs of a cluster that carry its mark already: what they are has to be described all the same.

use std::collections::BTreeSet;

use talmox_plan::{Observed, Seen};
use talmox_types::{ClusterUid, Mark, VmId};

use crate::{Already, Proposal};

/// What was observed as if nobody had marked anything, and who was marked.
pub(super) fn taken_off(observed: &Observed, uid: &ClusterUid) -> (Observed, BTreeSet<VmId>) {
    let (mut unmarked, mut marked) = (observed.clone(), BTreeSet::new());
    for guest in unmarked.guests.values_mut() {
        let Seen::Read(seen) = &mut guest.config else { continue };
        for config in [&mut seen.live, &mut seen.next] {
            let Some(notes) = config.description().map(str::to_owned) else { continue };
            if Mark::of_description(&notes).is_some_and(|mark| mark.uid == *uid && mark.vmid == guest.vmid) {
                let kept = notes.trim_end().rsplit_once('\n').map(|(kept, _)| kept).unwrap_or_default();
                config.set("description", kept);
                marked.insert(guest.vmid);
            }
        }
    }
    (unmarked, marked)
}

/// Whoever was marked needs no other mark.
pub(super) fn put_back(proposal: &mut Proposal, marked: &BTreeSet<VmId>) {
    let (already, adoptions) =
        std::mem::take(&mut proposal.adoptions).into_iter().partition(|one| marked.contains(&one.vmid));
    proposal.adoptions = adoptions;
    let already: Vec<crate::Adoption> = already;
    proposal.already.extend(already.into_iter().map(|one| Already { node: one.node, vmid: one.vmid }));
}
