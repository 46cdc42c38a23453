//! Deliberate defects, to see whether tests notice them.
//!
//! Each is one line at the place it concerns, [`sabotaged`], which is false and costs nothing in every build but that of
//! `cargo xtask sabotage`. There the feature `sabotage` is on, and `TALMOX_SABOTAGE` names the one that is in force.

/// Declares the defects with their names on the command line and what is wrong.
macro_rules! defects {
    ($($variant:ident, $name:literal, $wrong:literal;)+) => {
        /// A defect that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Defect {
            $(#[doc = $wrong] $variant,)+
        }

        impl Defect {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name in the environment and in tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// What is wrong.
            pub const fn wrong(self) -> &'static str {
                match self {
                    $(Self::$variant => $wrong,)+
                }
            }
        }
    };
}

defects! {
    MarkNotReadAgain, "mark-not-read-again", "a VM is changed and removed without a second look at its mark";
    VolumesNotReadAgain, "volumes-not-read-again", "a VM is removed whatever volumes it holds by now";
    LockNotWaitedFor, "lock-not-waited-for", "the next id is taken while a lock hides whose the first is";
    DoublesNotCounted, "doubles-not-counted", "a second VM of the same node is not looked for";
    LostReplyIsFailure, "lost-reply-is-failure", "a lost reply counts as a failure of what was asked";
    TaskEndIgnored, "task-end-ignored", "a task that failed counts as done";
    DeniedIsDone, "denied-is-done", "a removal that was denied counts as done";
    RemovedByName, "removed-by-name", "the first VM of that name is removed, not the one that was looked at";
    DigestNotSent, "digest-not-sent", "a change is sent without the digest of what it was decided on";
    StalePlanAccepted, "stale-plan-accepted", "a planned change is sent though the VM has changed since";
    StorageLimitGone, "storage-limit-gone", "any number of steps allocates on one storage";
    TurnsIgnored, "turns-ignored", "control planes go down together";
    GateNotAsked, "gate-not-asked", "nodes go down without asking the gate";
    EtcdNotAsked, "etcd-not-asked", "control planes go down whatever the members of etcd say";
    AddressTaken, "address-taken", "a VM is started on the address of another node that lives";
    VoteTakenForWorker, "vote-taken-for-worker", "a member of etcd that is described as a worker goes down as one";
    WindowForgotten, "window-forgotten", "nodes go down though the window ended while members were waited for";
    AwayNotCounted, "away-not-counted", "workers that are away are not counted when others are to go down";
    AwayNotLookedFor, "away-not-looked-for", "workers that went away since the plan was made are not looked for";
    StaleAnswers, "stale-answers", "a node restarts on what the members of etcd said before its installer ran";
    HostDrainedWithoutGate, "host-drained-without-gate", "nodes of a host that is drained go down without asking the gate";
    QuorumGivenUp, "quorum-given-up", "etcd is given up for a snapshot though a member has a leader";
    RolledBackStarted, "rolled-back-started", "a member of etcd that was rolled back to a snapshot is simply started again";
    PrunesEverything, "prunes-everything", "--prune removes most of a cluster that nobody named";
    CopyDestroysOriginal, "copy-destroys-original", "what was copied from another cluster's description destroys that cluster";
    LeavesUnseen, "leaves-unseen", "nodes are removed from a cluster none of whose control planes answers";
    ReturnedStaysDrained, "returned-stays-drained", "a host that is back counts as drained for ever";
    DrainForgotten, "drain-forgotten", "nodes are taken down with their pods on them";
    UncordonForgotten, "uncordon-forgotten", "a node that is back stays closed to pods";
    ApprovalNotChecked, "approval-not-checked", "later rounds do what nobody has approved";
    ForeignPoolRemoved, "foreign-pool-removed", "a pool that is not ours any more is removed";
    CopyIsOurs, "copy-is-ours", "a copy counts as the VM its mark was written for";
    PoolIsOurs, "pool-is-ours", "another cluster's VM in our pool counts as ours";
    KeptVolumesGo, "kept-volumes-go", "disks that are to be kept go with their VM";
    KeptDisksLeftBehind, "kept-disks-left-behind", "disks that are kept are not carried over to the VM that takes a node's place";
    PendingIgnored, "pending-ignored", "what waits for a restart counts as there";
    MacDropped, "mac-dropped", "a changed network device gets another MAC address";
    OtherTemplateUsed, "other-template-used", "a template of another image is cloned";
    UsedTemplatePruned, "used-template-pruned", "a template goes though disks stand on it";
    ForeignRuleChanged, "foreign-rule-changed", "an HA rule of others is rewritten";
    AdoptedWithoutProof, "adopted-without-proof", "a VM is adopted though the next plan would interrupt it";
    SecretInError, "secret-in-error", "an error shows the credentials";
    WrongInstaller, "wrong-installer", "a node is upgraded with an installer that lacks its extensions";
    IntentNotWritten, "intent-not-written", "a machine is bootstrapped before anything says that it is to be";
    BootstrappedAgain, "bootstrapped-again", "a cluster that lost its data is bootstrapped a second time";
    UuidNotCompared, "uuid-not-compared", "whatever answers at the address of a node gets its configuration";
    ConfiguredAgain, "configured-again", "a node that was configured before gets its configuration from whoever answers in maintenance mode";
    RunningIsHalfMade, "running-is-half-made", "a VM that runs without the second witness counts as a clone that was not finished";
    ConfigNotReadBack, "config-not-read-back", "what configuration a machine has is not looked at after it was sent";
    TrialSkipped, "trial-skipped", "a change that could cut a machine off is not tried first";
    DeadlineMissing, "deadline-missing", "calls to machines wait for an answer for as long as it takes";
    LeaseNotTaken, "lease-not-taken", "two runs bootstrap at the same time";
    SeedLeftBehind, "seed-left-behind", "the drive with a machine's configuration stays on its storage";
    ReadinessBelieved, "readiness-believed", "a control plane that joins is well as soon as it says so";
    RefusalQuoted, "refusal-quoted", "what a machine says of its configuration is shown with the secrets in it";
    SnapshotNotVerified, "snapshot-not-verified", "a snapshot of etcd that is cut off or changed is kept";
    PhaseNotAwaited, "phase-not-awaited", "a phase of a rotation begins before the one before it is reached everywhere";
    OldAuthorityKept, "old-authority-kept", "an authority that was replaced is believed for ever";
    AuthorityPutBack, "authority-put-back", "an authority that others replaced is put back, machine by machine";
    NewcomerOfBefore, "newcomer-of-before", "a machine that joins while nobody says how far a rotation is gets what was true before it";
    TokenGoesAnywhere, "token-goes-anywhere", "a token is sent to endpoints it is not for";
}

/// Whether a defect is in force: never, unless this is the build that has them.
#[cfg(not(feature = "sabotage"))]
#[inline]
pub const fn sabotaged(_: Defect) -> bool {
    false
}

/// Whether a defect is in force.
///
/// # Panics
///
/// If the environment names one that does not exist: a run that proves nothing must not look like one that does.
#[cfg(feature = "sabotage")]
pub fn sabotaged(defect: Defect) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<Defect>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| {
        let name = std::env::var_os("TALMOX_SABOTAGE").filter(|name| !name.is_empty())?;
        let found = Defect::ALL.iter().find(|defect| name == defect.name());
        Some(*found.expect("TALMOX_SABOTAGE names a defect"))
    });
    *chosen == Some(defect)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = Defect::ALL.iter().map(|defect| defect.name()).collect();
        assert_eq!(names.len(), Defect::ALL.len());
    }

    #[test]
    #[cfg(not(feature = "sabotage"))]
    fn nothing_is_in_force() {
        assert!(Defect::ALL.iter().all(|defect| !sabotaged(*defect)));
    }
}
