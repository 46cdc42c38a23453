//! The proof: what a plan would be if the mark were there.

use std::collections::BTreeSet;

use talmox_plan::{
    Change, Effect, Guest, Nonce, NoteKind, Observed, Plan, Planned, Power, Request, Seen, Step, Waiting,
    check, plan,
};
use talmox_types::NodeName;
use talmox_types::desired::Desired;
use talmox_types::sabotage::{Defect, sabotaged};

use crate::judge::Candidate;

/// What was observed, with the marks of these VMs in place.
pub(crate) fn as_if_marked(observed: &Observed, candidates: &[&Candidate<'_>]) -> Observed {
    let mut after = observed.clone();
    for candidate in candidates {
        let Some(guest) = after.guests.get_mut(&candidate.guest.vmid) else { continue };
        let stopped = guest.power == Power::Stopped;
        let Seen::Read(seen) = &mut guest.config else { continue };
        seen.live.set("description", &candidate.description);
        seen.next.set("description", &candidate.description);
        seen.next.set("smbios1", &candidate.smbios);
        if stopped {
            seen.live.set("smbios1", &candidate.smbios);
        }
    }
    after
}

fn request(nodes: &BTreeSet<NodeName>, allow_reboot: bool) -> Request {
    Request { targets: nodes.clone(), allow_reboot, ..Request::default() }
}

/// Differences that would follow unless they are simply carried out one day: a name, a pool, disks and devices the
/// description asks for.
const MAY_FOLLOW: [&str; 5] = ["name", "vm_disks", "vm_networks", "cluster_name", "cluster_uid"];

/// Fields that still differ, for want of a word in the description.
pub(crate) fn unsaid(desired: &Desired, after: &Observed, node: &NodeName, nonce: &Nonce) -> Vec<String> {
    let plan = plan(desired, after, &request(&BTreeSet::from([node.clone()]), true), nonce);
    let steps = plan.steps.iter().filter(|planned| planned.node.as_ref() == Some(node));
    let fields = |change: &Change| -> Vec<String> {
        if change.sub.is_empty() {
            change.field.clone().into_iter().collect()
        } else {
            change.sub.iter().filter_map(|sub| sub.field.clone()).collect()
        }
    };
    let mut found: Vec<String> = steps
        .filter(|planned| matches!(planned.step, Step::ConfigureVm { .. }))
        .flat_map(|planned| planned.changes.iter().flat_map(fields))
        .filter(|field| !MAY_FOLLOW.contains(&field.as_str()))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// What would follow, if that is nothing a running VM would notice.
#[derive(Debug)]
pub(crate) struct Proof {
    pub(crate) plan: Plan,
}

/// Proves that with this description and these marks the next plan refuses nothing and interrupts nothing.
pub(crate) fn prove(
    desired: &Desired,
    after: &Observed,
    nodes: &BTreeSet<NodeName>,
    nonce: &Nonce,
) -> Result<Proof, Vec<String>> {
    let request = request(nodes, false);
    let plan = plan(desired, after, &request, nonce);
    let mut against: Vec<String> = plan.refusals.iter().map(|refusal| refusal.problem.clone()).collect();
    against.extend(plan.steps.iter().filter(|planned| !is_harmless(planned)).map(told));
    against.extend(plan.waiting.iter().filter_map(|waiting| blocks(waiting, after)));
    let violations = check(&plan, desired, after, &request);
    against.extend(violations.iter().map(ToString::to_string));
    let proven = against.is_empty() || sabotaged(Defect::AdoptedWithoutProof);
    if proven { Ok(Proof { plan }) } else { Err(against) }
}

fn is_harmless(planned: &Planned) -> bool {
    let makes_vm = matches!(planned.step, Step::CloneVm { .. });
    planned.effect <= Effect::ChangeLive && !makes_vm
}

fn told(planned: &Planned) -> String {
    let changes: Vec<String> = planned.changes.iter().map(in_words).collect();
    let what = if changes.is_empty() { planned.reason.clone() } else { changes.join(", ") };
    format!("the next plan would {}: {what}", planned.step.word())
}

/// A change for people.
pub(crate) fn in_words(change: &Change) -> String {
    if !change.sub.is_empty() {
        let subs: Vec<String> = change.sub.iter().map(ToString::to_string).collect();
        return format!("{} {}", change.key, subs.join(", "));
    }
    let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
    format!("{} {} → {}", change.key, word(&change.old), word(&change.new))
}

/// What somebody changed and has not restarted for may go on waiting; anything else must not.
fn blocks(waiting: &Waiting, after: &Observed) -> Option<String> {
    match waiting {
        Waiting::Reboot { vmid, keys, .. } => {
            let pending = after.guests.get(vmid).and_then(Guest::seen).map(talmox_plan::GuestConfig::pending);
            let pending = pending.unwrap_or_default();
            let new: Vec<&str> =
                keys.iter().map(String::as_str).filter(|key| !pending.contains(key)).collect();
            (!new.is_empty()).then(|| format!("{} would wait for a restart", new.join(", ")))
        }
        Waiting::Locked { lock, .. } => Some(format!("it is locked ({lock})")),
        Waiting::HostDown { host, .. } => Some(format!("{host} does not answer")),
        Waiting::InFlight { .. }
        | Waiting::Trial { .. }
        | Waiting::Workers { .. }
        | Waiting::Answer { .. }
        | Waiting::Bootstrap { .. } => None,
    }
}

/// What the next apply would do to a node, in words.
pub(crate) fn follows(plan: &Plan, node: &NodeName) -> Vec<String> {
    let own = plan.steps.iter().filter(|planned| planned.node.as_ref() == Some(node));
    own.flat_map(|planned| {
        if planned.changes.is_empty() {
            vec![format!("{}: {}", planned.step.word(), planned.reason)]
        } else {
            planned.changes.iter().map(in_words).collect()
        }
    })
    .collect()
}

/// What of a VM stays undeclared and is left alone.
pub(crate) fn left_alone(plan: &Plan, node: &NodeName) -> Vec<String> {
    let notes = plan.notes.iter().filter(|note| note.node.as_ref() == Some(node));
    notes.filter(|note| note.kind == NoteKind::Foreign).map(|note| note.text.clone()).collect()
}
