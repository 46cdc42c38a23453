//! Who is expected to notice what.

use std::fmt;

use talmox_types::sabotage::Defect;

/// Tests of one target whose names begin so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Guard {
    pub(super) target: &'static str,
    pub(super) filter: &'static str,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.target, self.filter)
    }
}

const fn exec(filter: &'static str) -> Guard {
    Guard { target: "exec", filter }
}

const fn gate(filter: &'static str) -> Guard {
    Guard { target: "gate", filter }
}

const fn rotate(filter: &'static str) -> Guard {
    Guard { target: "rotate", filter }
}

const fn line(filter: &'static str) -> Guard {
    Guard { target: "line", filter }
}

const fn plan(filter: &'static str) -> Guard {
    Guard { target: "plan", filter }
}

const fn pve(filter: &'static str) -> Guard {
    Guard { target: "pve", filter }
}

const fn bring_up(filter: &'static str) -> Guard {
    Guard { target: "bringup", filter }
}

const fn upgrade(filter: &'static str) -> Guard {
    Guard { target: "upgrade", filter }
}

const fn scale(filter: &'static str) -> Guard {
    Guard { target: "scale", filter }
}

const fn etcd(filter: &'static str) -> Guard {
    Guard { target: "etcd", filter }
}

/// The client's own tests.
const fn client(filter: &'static str) -> Guard {
    Guard { target: "talmox_pve", filter }
}

/// The tests that guard against a defect, most likely first.
pub(super) fn guards(defect: Defect) -> &'static [Guard] {
    match defect {
        Defect::MarkNotReadAgain
        | Defect::VolumesNotReadAgain
        | Defect::DeniedIsDone
        | Defect::RemovedByName
        | Defect::ForeignPoolRemoved => const { &[exec("remove::")] },
        Defect::LockNotWaitedFor | Defect::DoublesNotCounted => const { &[exec("create::")] },
        Defect::LostReplyIsFailure | Defect::DigestNotSent | Defect::StalePlanAccepted => {
            const { &[exec("change::")] }
        }
        Defect::TaskEndIgnored | Defect::SecretInError => const { &[pve("failures::")] },
        Defect::StorageLimitGone | Defect::TurnsIgnored | Defect::GateNotAsked => {
            const { &[exec("order::")] }
        }
        Defect::HostDrainedWithoutGate => const { &[scale("hosts::nobody_is_stopped")] },
        Defect::QuorumGivenUp => const { &[etcd("quorum::nothing_is_given_up")] },
        Defect::RolledBackStarted => const { &[scale("replace::one_that_was_rolled_back")] },
        Defect::KeptDisksLeftBehind => const { &[scale("kept::are_carried_over")] },
        Defect::EtcdNotAsked => const { &[gate("etcd::nobody_goes_down_while_another")] },
        Defect::VoteTakenForWorker => {
            const { &[gate("etcd::control_planes_that_are_described"), gate("etcd::a_vote_that_the_description")] }
        }
        Defect::AddressTaken => const { &[plan("renamed::a_node_under_another_name")] },
        Defect::WindowForgotten => const { &[gate("window::")] },
        Defect::AwayNotCounted => const { &[plan("unavailable::while_one_is_silent")] },
        Defect::AwayNotLookedFor => const { &[upgrade("unavailable::one_that_dies")] },
        Defect::StaleAnswers => const { &[upgrade("stale::a_member_that_goes_while_the_installer")] },
        Defect::PrunesEverything => const { &[plan("removing::most_of_a_cluster")] },
        Defect::CopyDestroysOriginal => const { &[plan("removing::a_copied_description")] },
        Defect::LeavesUnseen => const { &[plan("inside::layers::")] },
        Defect::ReturnedStaysDrained => const { &[scale("hosts::hosts_are_worked_on")] },
        Defect::DrainForgotten => const { &[gate("drains::a_budget_that_never_yields")] },
        Defect::WrongInstaller => const { &[upgrade("roll::one_node")] },
        Defect::UncordonForgotten => const { &[gate("etcd::control_planes_restart")] },
        Defect::ApprovalNotChecked => const { &[exec("apply::what_was_not_approved")] },
        Defect::CopyIsOurs | Defect::PoolIsOurs => const { &[plan("identity::")] },
        Defect::KeptVolumesGo => const { &[plan("removing::")] },
        Defect::PendingIgnored => const { &[plan("changing::")] },
        Defect::MacDropped => const { &[plan("drift::")] },
        Defect::OtherTemplateUsed | Defect::UsedTemplatePruned => const { &[plan("templates::")] },
        Defect::ForeignRuleChanged => const { &[plan("ha::")] },
        Defect::AdoptedWithoutProof => const { &[line("adopt::what_is_refused")] },
        Defect::IntentNotWritten
        | Defect::ConfigNotReadBack
        | Defect::DeadlineMissing
        | Defect::RefusalQuoted => const { &[bring_up("rules::")] },
        Defect::TrialSkipped => const { &[gate("config::a_change_that_cuts")] },
        Defect::BootstrappedAgain | Defect::ReadinessBelieved => const { &[plan("inside::")] },
        Defect::UuidNotCompared => const { &[bring_up("trouble::a_stranger")] },
        Defect::LeaseNotTaken => const { &[bring_up("trouble::somebody_who_works")] },
        Defect::SeedLeftBehind => const { &[bring_up("drive::nodes_read")] },
        Defect::SnapshotNotVerified => const { &[etcd("snapshots::")] },
        Defect::PhaseNotAwaited => const { &[rotate("turn::a_phase_does_not_begin")] },
        Defect::OldAuthorityKept => const { &[rotate("turn::one_of_them_alone")] },
        Defect::AuthorityPutBack => const { &[plan("rotation::authorities_others_replaced")] },
        Defect::NewcomerOfBefore => const { &[rotate("joining::nobody_joins_blindly")] },
        Defect::TokenGoesAnywhere => const { &[client("client::credentials")] },
    }
}
