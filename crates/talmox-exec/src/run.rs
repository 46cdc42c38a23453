//! What a run is given, and what came of a plan.

use talmox_plan::{Effect, Goal, Nonce, Planned, Request, Step, StepId, Upkeep};
use talmox_pve::client::Client;
use talmox_types::desired::{Desired, Role};
use talmox_types::{NodeName, Realm, VmId};
use tokio_util::sync::CancellationToken;

use crate::{Event, Gate, Images, Pace, Reach, Reporter, StepError};

/// Everything a plan is carried out with.
pub struct Run<'a> {
    pub client: &'a Client,
    /// Where images come from.
    pub images: &'a dyn Images,
    pub desired: &'a Desired,
    pub request: &'a Request,
    /// Tells the VMs this run makes from those of another.
    pub nonce: &'a Nonce,
    pub gate: &'a dyn Gate,
    pub reporter: &'a dyn Reporter,
    /// Once cancelled no step begins any more; those under way are finished.
    pub stop: &'a CancellationToken,
    /// How the machines themselves are reached; without it a run ends at the VMs.
    pub reach: Option<&'a Reach<'a>>,
    pub limits: Limits,
}

impl Run<'_> {
    pub(crate) fn event(&self, event: Event<'_>) {
        self.reporter.event(event);
    }

    /// How fast the time of what it works on runs.
    pub(crate) fn pace(&self) -> Pace {
        self.reach.map_or(Pace::REAL, |reach| reach.pace)
    }

    /// The role of a node; none if the description does not name it.
    pub(crate) fn role(&self, node: &NodeName) -> Option<Role> {
        self.desired.nodes.iter().find(|declared| declared.name == *node).map(|node| node.role)
    }

    /// Whether what runs may be interrupted now; without a clock nobody can tell when that is.
    pub(crate) fn may_interrupt(&self) -> bool {
        let window = &self.request.upkeep.window;
        let unbounded = window.not_before.is_none() && window.not_after.is_none();
        unbounded || self.reach.is_some_and(|reach| window.is_open(reach.clock.now()))
    }

    /// Whether the whole cluster goes: then no node needs to wait for another.
    pub(crate) fn destroys_all(&self) -> bool {
        self.request.goal == Goal::Destroy && self.request.targets.is_empty()
    }
}

/// How much is done at once. The defaults are what a Proxmox of ordinary disks bears without a task failing for want of
/// a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Steps at once, on all hosts together. Most of a step's time is looking, which costs Proxmox little; how much one
    /// host, storage or template is asked to do at once is limited by the others.
    pub parallelism: usize,
    /// What one host works on at once: Proxmox's own limit where it acts on many VMs. Clones that stand on their template's
    /// disk are no work. Of this and the following, three times as many steps may be under way, so that some look while
    /// others' work is done.
    pub per_host: usize,
    /// What makes or removes volumes on one storage at once. Proxmox lets them through one by one and gives up on those
    /// that waited ten seconds for the storage's lock.
    pub per_storage: usize,
    /// Clones of one template at once. They share its lock, but each reads all of it from the same disks.
    pub per_template: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { parallelism: 36, per_host: 4, per_storage: 2, per_template: 3 }
    }
}

impl Limits {
    /// At most so many steps at once.
    #[must_use]
    pub fn with_parallelism(self, parallelism: usize) -> Self {
        Self { parallelism: parallelism.max(1), ..self }
    }
}

/// What came of one plan.
#[derive(Debug, Default)]
pub struct Outcome {
    pub done: Vec<Done>,
    pub failed: Vec<Failure>,
    pub skipped: Vec<Skip>,
    /// Whether it was told to stop before everything was tried.
    pub interrupted: bool,
    /// Whether steps were left because nothing may be interrupted now.
    pub closed: bool,
}

/// A step whose result was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub step: StepId,
    /// [`Step::word`](talmox_plan::Step::word).
    pub kind: &'static str,
    pub node: Option<NodeName>,
    pub effect: Effect,
    /// Whether anything was written: a step that finds its work done writes nothing.
    pub wrote: bool,
    /// The VM the node has in place of the planned one: another id, or one that another run made. What follows is
    /// planned anew, which is no failure.
    pub instead: Option<VmId>,
}

/// A step that was not done, and why.
#[derive(Debug)]
pub struct Failure {
    pub step: StepId,
    pub node: Option<NodeName>,
    pub error: StepError,
}

/// A step that was not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    pub step: StepId,
    pub node: Option<NodeName>,
    pub because: Because,
}

/// Why a step was not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Because {
    /// A step it needs failed, or was skipped for that reason.
    Needs(StepId),
    /// A step it needs ended otherwise than planned, and what follows is planned anew.
    PlannedAnew(StepId),
    /// A node that was taken down before it has not come back.
    NotBack(NodeName),
    /// It interrupts what runs, and the maintenance window is closed.
    Closed(String),
    Interrupted,
}

impl std::fmt::Display for Because {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Needs(step) => match step.as_str().split_once('/') {
                Some((node, _)) => write!(f, "{node} comes first, and is not done"),
                None => write!(f, "{step} comes first, and is not done"),
            },
            Self::PlannedAnew(step) => write!(f, "{step} ended otherwise: it is planned anew"),
            Self::NotBack(node) => write!(f, "{node} is in trouble, and nobody follows it"),
            Self::Closed(window) => write!(f, "nothing is interrupted now ({window})"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl Outcome {
    /// Whether every step was done as planned.
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.skipped.is_empty()
    }

    /// Whether anything in Proxmox is other than before.
    pub fn wrote(&self) -> bool {
        self.done.iter().any(|done| done.wrote)
    }

    /// Whether more is known or done than before.
    pub(crate) fn got_further(&self) -> bool {
        self.done.iter().any(|done| done.wrote || done.instead.is_some())
    }

    /// Whether another look and another plan may get further: nothing failed for good.
    pub fn wants_another_plan(&self) -> bool {
        !self.interrupted && self.failed.iter().all(|failure| failure.error.wants_another_plan())
    }
}

/// Whether somebody may notice while a step is carried out, so that it waits for the maintenance window: nodes go down, or every
/// control plane's pods are made anew.
pub(crate) fn is_noticed(planned: &Planned) -> bool {
    let rolls_pods = matches!(
        planned.step,
        Step::Upkeep(
            Upkeep::UpgradeKubernetes { .. } | Upkeep::RotateAuthority { realm: Realm::Kubernetes, .. }
        )
    );
    takes_down(planned) || rolls_pods
}

/// Whether a step takes down what may be running.
pub(crate) fn takes_down(planned: &Planned) -> bool {
    match planned.effect {
        Effect::Drain | Effect::Move | Effect::Reboot | Effect::Stop | Effect::Replace | Effect::Destroy => {
            planned.node.is_some()
        }
        Effect::Wait | Effect::Create | Effect::ChangeLive | Effect::Start | Effect::ChangePending => false,
    }
}
