//! Whether an authority that others replaced is left as it is, stated again without the planner's code.
//!
//! What a machine is sent is all that is described for it. So it is not enough to look at what a step says it changes: what the
//! machine has counts.

use talmox_types::NodeName;

use super::{Court, Rule};
use crate::{Change, Planned, SeenMachine, Step, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    // What is refused is not carried out.
    if !court.plan.refusals.is_empty() {
        return;
    }
    for step in court.steps() {
        let replaced = step.changes.iter().any(is_authority) || has_another(court, step);
        if replaced && sends_configuration(step) {
            court.violate(
                Rule::AuthoritiesStay,
                step,
                "it would put back an authority that somebody replaced",
            );
        }
    }
}

/// Whether a machine is sent a configuration with an authority in it.
fn sends_configuration(step: &Planned) -> bool {
    matches!(
        step.step,
        Step::ConfigureNode { .. } | Step::Upkeep(Upkeep::ChangeNode { .. } | Upkeep::RotateAuthority { .. })
    )
}

/// Whether a machine the step is about runs with another authority than is described for it. Of whoever joins, all others are
/// asked: it would have to speak to them. One whose VM goes in this plan is not: what takes its place has another configuration, and a
/// worker that is built anew as a control plane even must.
fn has_another(court: &Court<'_>, step: &Planned) -> bool {
    let rotates = matches!(step.step, Step::Upkeep(Upkeep::RotateAuthority { .. }));
    let joins = matches!(step.step, Step::ConfigureNode { .. });
    let concerned = |node: &NodeName| rotates || joins || step.node.as_ref() == Some(node);
    let goes = |node: &NodeName| {
        let mut own = court.steps().iter().filter(|other| other.node.as_ref() == Some(node));
        own.any(|other| matches!(other.step, Step::RemoveVm { .. }))
    };
    let asked = court.observed.talos.iter().filter(|(node, _)| concerned(node) && !goes(node));
    asked.map(|(_, machine)| machine).any(|machine| {
        let configured = SeenMachine::configured(machine);
        configured.is_some_and(|seen| seen.config.iter().flatten().any(is_authority))
    })
}

/// Whether a field that differs is a certificate or key of who signs, in either layout: `machine.ca.crt`, `cluster.etcd.ca`,
/// `KubeAPIServerCAConfig issuingCA.cert`. What is only accepted beside it may be dropped, but for the one a worker has
/// in the first place because it has no other.
fn is_authority(change: &Change) -> bool {
    let path: Vec<&str> = change.key.split([' ', '.']).collect();
    match path.as_slice() {
        ["machine" | "cluster", "ca", ..]
        | ["cluster", "etcd", "ca", ..]
        | ["KubeAPIServerCAConfig", "issuingCA", ..] => true,
        ["KubeAPIServerCAConfig", "acceptedCAs[0]"] => change.old.is_some() && change.new.is_some(),
        _ => false,
    }
}
