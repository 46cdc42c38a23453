//! Who is expected to notice what.

use std::fmt;

use talmox_types::sabotage::Defect;

/// Tests of one program whose names contain the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Guard {
    pub(super) program: ProgramName,
    pub(super) filter: &'static str,
}

/// A test program: the folder of its package, and its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProgramName {
    pub(super) package: &'static str,
    pub(super) target: &'static str,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.filter)
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.package, self.target)
    }
}

/// The engine on simulators.
pub(super) const fn engine(filter: &'static str) -> Guard {
    Guard { program: ProgramName { package: "talmox-test", target: "it" }, filter }
}

const fn plan(filter: &'static str) -> Guard {
    Guard { program: ProgramName { package: "talmox-plan", target: "plan" }, filter }
}

/// The client's own tests.
const fn client(filter: &'static str) -> Guard {
    Guard { program: ProgramName { package: "talmox-pve", target: "talmox_pve" }, filter }
}

/// The tests that guard against a defect, most likely first.
pub(super) fn guards(defect: Defect) -> &'static [Guard] {
    match defect {
        Defect::MarkNotReadAgain
        | Defect::VolumesNotReadAgain
        | Defect::DeniedIsDone
        | Defect::RemovedByName
        | Defect::ForeignPoolRemoved => const { &[engine("exec::remove::")] },
        Defect::LockNotWaitedFor | Defect::DoublesNotCounted => const { &[engine("exec::create::")] },
        Defect::LostReplyIsFailure | Defect::DigestNotSent | Defect::StalePlanAccepted => {
            const { &[engine("exec::change::")] }
        }
        Defect::TaskEndIgnored | Defect::SecretInError => const { &[engine("pve::failures::")] },
        Defect::StorageLimitGone | Defect::TurnsIgnored | Defect::GateNotAsked => {
            const { &[engine("exec::order::")] }
        }
        Defect::HostDrainedWithoutGate => const { &[engine("scale::hosts::nobody_is_stopped")] },
        Defect::QuorumGivenUp => const { &[engine("etcd::quorum::nothing_is_given_up")] },
        Defect::RolledBackStarted => const { &[engine("scale::replace::one_that_was_rolled_back")] },
        Defect::KeptDisksLeftBehind => const { &[engine("scale::kept::are_carried_over")] },
        Defect::EtcdNotAsked => const { &[engine("gate::etcd::nobody_goes_down_while_another")] },
        Defect::VoteTakenForWorker => {
            const {
                &[
                    engine("gate::etcd::control_planes_that_are_described"),
                    engine("gate::etcd::a_vote_that_the_description"),
                ]
            }
        }
        Defect::AddressTaken => const { &[plan("renamed::a_node_under_another_name")] },
        Defect::WindowForgotten => const { &[engine("gate::window::")] },
        Defect::AwayNotCounted => const { &[plan("unavailable::while_one_is_silent")] },
        Defect::AwayNotLookedFor => const { &[engine("upgrade::unavailable::one_that_dies")] },
        Defect::StaleAnswers => const { &[engine("upgrade::stale::a_member_that_goes_while_the_installer")] },
        Defect::PrunesEverything => const { &[plan("removing::most_of_a_cluster")] },
        Defect::CopyDestroysOriginal => const { &[plan("removing::a_copied_description")] },
        Defect::LeavesUnseen => const { &[plan("inside::layers::")] },
        Defect::ReturnedStaysDrained => const { &[engine("scale::hosts::hosts_are_worked_on")] },
        Defect::DrainForgotten => const { &[engine("gate::drains::a_budget_that_never_yields")] },
        Defect::WrongInstaller => const { &[engine("upgrade::roll::one_node")] },
        Defect::UncordonForgotten => const { &[engine("gate::etcd::control_planes_restart")] },
        Defect::ApprovalNotChecked => const { &[engine("exec::apply::what_was_not_approved")] },
        Defect::CopyIsOurs | Defect::PoolIsOurs => const { &[plan("identity::")] },
        Defect::KeptVolumesGo => const { &[plan("removing::")] },
        Defect::PendingIgnored => const { &[plan("changing::")] },
        Defect::MacDropped => const { &[plan("drift::")] },
        Defect::OtherTemplateUsed | Defect::UsedTemplatePruned => const { &[plan("templates::")] },
        Defect::ForeignRuleChanged => const { &[plan("ha::")] },
        Defect::AdoptedWithoutProof => const { &[engine("line::adopt::what_is_refused")] },
        Defect::IntentNotWritten
        | Defect::ConfigNotReadBack
        | Defect::DeadlineMissing
        | Defect::RefusalQuoted => const { &[engine("bringup::rules::")] },
        Defect::TrialSkipped => const { &[engine("gate::config::a_change_that_cuts")] },
        Defect::BootstrappedAgain | Defect::ReadinessBelieved => const { &[plan("inside::")] },
        Defect::UuidNotCompared => const { &[engine("bringup::trouble::a_stranger")] },
        Defect::ConfiguredAgain => const { &[engine("bringup::again::a_machine_that_takes")] },
        Defect::RunningIsHalfMade => const { &[plan("identity::one_that_runs")] },
        Defect::LeaseNotTaken => const { &[engine("bringup::trouble::somebody_who_works")] },
        Defect::SeedLeftBehind => const { &[engine("bringup::drive::nodes_read")] },
        Defect::SnapshotNotVerified => const { &[engine("etcd::snapshots::")] },
        Defect::PhaseNotAwaited => const { &[engine("rotate::turn::a_phase_does_not_begin")] },
        Defect::OldAuthorityKept => const { &[engine("rotate::turn::one_of_them_alone")] },
        Defect::AuthorityPutBack => const { &[plan("rotation::authorities_others_replaced")] },
        Defect::NewcomerOfBefore => const { &[engine("rotate::joining::nobody_joins_blindly")] },
        Defect::TokenGoesAnywhere => const { &[client("client::credentials")] },
    }
}
