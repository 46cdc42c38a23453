//! What is done to a cluster that lives, stated again without the planner's code.

use crate::{ChangeMode, Effect, Upkeep};

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
