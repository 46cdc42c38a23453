//! What is done to a cluster that lives, stated again without the planner's code.

use talmox_types::desired::Role;

use super::{Court, Rule};
use crate::{ChangeMode, Effect, Planned, SeenEtcd, SeenMachine, Step, Upkeep};

pub(super) fn judge(court: &mut Court<'_>) {
    for step in court.steps() {
        after_a_snapshot(court, step);
    }
}

/// Upgrades of control planes and of Kubernetes, and the end of a control plane, come after a snapshot, as long as somebody has
/// data.
fn after_a_snapshot(court: &mut Court<'_>, step: &Planned) {
    let Step::Upkeep(upkeep) = &step.step else { return };
    let controller = || {
        let node = step.node.as_ref().and_then(|node| court.node(node));
        node.is_some_and(|node| node.role == Role::Controller)
    };
    let risky = match upkeep {
        Upkeep::UpgradeKubernetes { .. } => true,
        Upkeep::UpgradeNode { .. } | Upkeep::RetireNode { .. } => controller(),
        Upkeep::SnapshotEtcd { .. }
        | Upkeep::DrainNode { .. }
        | Upkeep::ReturnNode { .. }
        | Upkeep::ChangeNode { .. }
        | Upkeep::ForgetNode { .. }
        | Upkeep::RecoverEtcd { .. } => false,
    };
    let has_data = |machine: &SeenMachine| {
        machine.configured().is_some_and(|seen| matches!(seen.etcd, Some(SeenEtcd::Member { .. })))
    };
    if !risky || court.request.upkeep.no_snapshot || !court.observed.talos.values().any(has_data) {
        return;
    }
    let taken = |before: &&Planned| matches!(before.step, Step::Upkeep(Upkeep::SnapshotEtcd { .. }));
    if !court.before(step).iter().any(taken) {
        court.violate(Rule::SnapshotFirst, step, "no snapshot of etcd is taken before it");
    }
}

/// Whether a step of upkeep says what it does to what runs.
pub(super) fn is_honest(upkeep: &Upkeep, effect: Effect) -> bool {
    match upkeep {
        Upkeep::SnapshotEtcd { .. } | Upkeep::RecoverEtcd { .. } => effect == Effect::Create,
        Upkeep::DrainNode { .. } => effect == Effect::Drain,
        Upkeep::ReturnNode { .. } | Upkeep::UpgradeKubernetes { .. } => effect == Effect::ChangeLive,
        Upkeep::ChangeNode { mode, .. } => match mode {
            ChangeMode::NoReboot | ChangeMode::Try => effect == Effect::ChangeLive,
            ChangeMode::Staged => effect == Effect::ChangePending,
            ChangeMode::Reboot => effect == Effect::Reboot,
        },
        Upkeep::UpgradeNode { stage, .. } => {
            effect == if *stage { Effect::ChangePending } else { Effect::Reboot }
        }
        Upkeep::RetireNode { .. } => matches!(effect, Effect::Destroy | Effect::Replace),
        Upkeep::ForgetNode { .. } => effect == Effect::ChangeLive,
    }
}
