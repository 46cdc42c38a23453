//! The one door for everything that takes a running node down.
//!
//! ```text
//!  about to drain, restart, stop, move, replace, reset or upgrade a node
//!    ├─ lease still ours? ── another's: refused
//!    ├─ a worker: does it say so itself, or do the members not list it? (vote.rs) ── it has a vote: refused
//!    └─ a control plane, or nobody knows: ask every member (ask.rs) ─▶ can they do without it? (judge.rs)
//!           │ not yet: waited for, by name, and asked again          │ never, or time is up: refused
//!           ▼ yes
//!  whoever watches the run is asked (`Gate`), once for each node ─▶ is the maintenance window still open?
//! ```
//!
//! The executor asks here before every interrupting step, whatever layer wants it: there is no way round. A step that works for a
//! while before it takes its node down asks once more right before that (`Work::go_down_now`). What cannot be told
//! is refused. Only where nobody could ask, because no secrets of the cluster are at hand, it is left to a person; whoever watches
//! is told whether there may be an etcd at all, so that a run without a person can refuse. So it is where neither a worker nor any
//! member says whether it is one.

pub(crate) mod ask;
mod judge;
mod vote;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use talmox_plan::{Goal, Planned, identify};
use talmox_types::NodeName;
use talmox_types::desired::{Power, Role};
use talmox_types::sabotage::{Defect, sabotaged};
use tokio::time::Instant;

pub(crate) use self::judge::peers;
use self::judge::{Fate, Leaving, Verdict, judge};
pub(crate) use self::vote::Known;
use crate::lease::{Held, Lease};
use crate::work::{Result, Work};
use crate::{Event, Reach, Run, StepError, observe_for};

/// How long members are waited for that are not well: as long as a machine takes to restart, and some.
const LIMIT: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_secs(5);

/// A node that is about to go down.
#[derive(Clone, Debug)]
pub struct Interruption<'a> {
    pub node: &'a NodeName,
    /// None for a node the description does not name: it may have been a control plane.
    pub role: Option<Role>,
    pub step: &'a Planned,
    /// Whether it is known that etcd can do without it. If not, nobody could be asked.
    pub etcd_agrees: bool,
    /// Whether there is, or may be, an etcd that could miss it: a mark says that it was begun, or nobody can tell.
    pub etcd_begun: bool,
}

pub type GateFuture<'a> = Pin<Box<dyn Future<Output = std::result::Result<(), String>> + Send + 'a>>;

/// Whoever watches a run: says whether a node may go down now; the error says why not. The executor itself sees to it that
/// only one control plane at a time is asked about and down, and that etcd can do without it.
pub trait Gate: Send + Sync {
    fn pass<'a>(&'a self, interruption: Interruption<'a>) -> GateFuture<'a>;
}

/// How a step's node goes down.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the step, and none follows from another"
)]
pub(crate) struct Door<'a> {
    pub(crate) lease: Option<&'a Lease<'a>>,
    /// Whether the plan takes the node out of etcd in good order before it goes.
    pub(crate) leaves: bool,
    /// Whether the plan has its disks go too.
    pub(crate) for_good: bool,
    /// Whether whoever watches is asked too.
    pub(crate) asks: bool,
    /// Whether a step before this one has taken the node down.
    pub(crate) is_down: bool,
    pub(crate) known: &'a Known,
}

impl Work<'_> {
    /// Lets the step's node go down, if the step takes it down, or says why not.
    pub(crate) async fn go_down(&self) -> Result<()> {
        match self.door {
            Some(door) => {
                EtcdGate { work: self, door, begins: true }.pass().await?;
                self.in_time()
            }
            None => Ok(()),
        }
    }

    /// The same for a step that was at work for a while since, right before the call that takes the node down: an installer takes
    /// minutes, and what the members said before it is no answer any more.
    pub(crate) async fn go_down_now(&self) -> Result<()> {
        self.pass_again(true).await?;
        if self.door.is_some() { self.in_time() } else { Ok(()) }
    }

    /// The same for what belongs to an interruption that began in time: a restart that was lost, the way back to what ran before. To
    /// leave that undone because the window has ended would only keep the node down for longer.
    pub(crate) async fn go_down_again(&self) -> Result<()> {
        self.pass_again(false).await
    }

    async fn pass_again(&self, begins: bool) -> Result<()> {
        if sabotaged(Defect::StaleAnswers) {
            return Ok(());
        }
        match self.door {
            Some(door) => {
                let door = Door { asks: false, ..door };
                Box::pin(EtcdGate { work: self, door, begins }.pass()).await
            }
            None => Ok(()),
        }
    }

    /// Whether the window is still open: members, or whoever watches, may have been waited for until it was not.
    fn in_time(&self) -> Result<()> {
        if self.run.may_interrupt() || sabotaged(Defect::WindowForgotten) {
            return Ok(());
        }
        Err(StepError::Closed { window: self.run.request.upkeep.window.to_string() })
    }
}

/// The door, for one step.
struct EtcdGate<'a> {
    work: &'a Work<'a>,
    door: Door<'a>,
    /// Whether an interruption begins here: then nobody is waited for beyond the end of the window.
    begins: bool,
}

impl EtcdGate<'_> {
    async fn pass(&self) -> Result<()> {
        let (run, step) = (self.work.run, self.work.planned);
        let Some(node) = step.node.as_ref() else { return Ok(()) };
        if run.request.goal == Goal::Hosts && sabotaged(Defect::HostDrainedWithoutGate) {
            return Ok(());
        }
        let role = run.role(node);
        let known = run.reach.filter(|reach| reach.machines.identity().is_some());
        let etcd_agrees = match (role, known) {
            (Some(Role::Worker), None) => {
                self.hold_lease(node).await?;
                true
            }
            (role, Some(reach)) if run.request.goal == Goal::Destroy => {
                self.may_be_destroyed(node, role, reach).await?
            }
            (Some(Role::Worker), Some(reach)) => self.is_worker(node, reach).await?,
            (Some(Role::Controller) | None, Some(reach)) => {
                self.await_etcd(node, reach).await?;
                true
            }
            (Some(Role::Controller) | None, None) => false,
        };
        if !self.door.asks {
            return Ok(());
        }
        let etcd_begun = etcd_agrees || self.was_begun().await;
        let interruption = Interruption { node, role, step, etcd_agrees, etcd_begun };
        run.gate.pass(interruption).await.map_err(|reason| self.refused(node, reason))
    }

    /// Whether a mark says that etcd was begun; what cannot be read may say so.
    async fn was_begun(&self) -> bool {
        let run = self.work.run;
        let Ok(observed) = observe_for(run.client, run.desired, run.request).await else { return true };
        let identities = identify(run.desired, &observed);
        identities.marks().any(|mark| mark.bootstrap.as_ref().is_some_and(|word| word.done))
    }

    /// Waits until etcd can do without the node and the lease is ours.
    async fn await_etcd(&self, node: &NodeName, reach: &Reach<'_>) -> Result<()> {
        if sabotaged(Defect::EtcdNotAsked) {
            return Ok(());
        }
        let begun = Instant::now();
        let name = format!("etcd to do without {node}");
        loop {
            let verdict = match self.held().await? {
                Some(why) => Verdict::NotYet(why),
                None => self.look(node, reach).await,
            };
            match verdict {
                Verdict::Pass => return Ok(()),
                Verdict::Never(reason) => return Err(self.refused(node, reason)),
                Verdict::NotYet(reason) if begun.elapsed() > LIMIT => return Err(self.refused(node, reason)),
                Verdict::NotYet(reason) => self.wait(&name, &reason, begun, LIMIT).await?,
            }
        }
    }

    async fn hold_lease(&self, node: &NodeName) -> Result<()> {
        let begun = Instant::now();
        loop {
            let Some(reason) = self.held().await? else { return Ok(()) };
            if begun.elapsed() > LIMIT {
                return Err(self.refused(node, reason));
            }
            self.wait("the lease to be renewed", &reason, begun, LIMIT).await?;
        }
    }

    async fn wait(&self, name: &str, detail: &str, begun: Instant, limit: Duration) -> Result<()> {
        let (step, elapsed) = (self.work.planned, begun.elapsed());
        if self.begins {
            self.work.in_time()?;
        }
        self.work.event(Event::Waiting { step, name, detail, elapsed, limit });
        self.work.pause(name, PAUSE).await
    }

    /// Why nobody can tell whether the lease is still ours; nothing if it is.
    async fn held(&self) -> Result<Option<String>> {
        let Some(lease) = self.door.lease else { return Ok(None) };
        match lease.confirm().await {
            Held::Ours => Ok(None),
            Held::Unknown { reason } => Ok(Some(format!("the lease cannot be renewed: {reason}"))),
            Held::Theirs { holder, seconds } => Err(StepError::Leased { holder, seconds }),
        }
    }

    async fn look(&self, node: &NodeName, reach: &Reach<'_>) -> Verdict {
        let run = self.work.run;
        match ask::members(run, reach, node).await {
            Err(error) => Verdict::NotYet(format!("Proxmox does not say where the members are: {error}")),
            Ok(ask::Answers { asked, begun }) => judge(&self.leaving(node, run, begun), &asked),
        }
    }

    /// What the judge has to know beside what the members say.
    fn leaving<'n>(&self, node: &'n NodeName, run: &Run<'_>, begun: bool) -> Leaving<'n> {
        let upkeep = &run.request.upkeep;
        let Door { leaves, for_good, .. } = self.door;
        let given_up = upkeep.quorum_lost && upkeep.restore.is_some();
        let controllers = || run.desired.nodes.iter().filter(|node| node.role == Role::Controller);
        Leaving {
            node,
            declared: controllers().count(),
            is_declared: controllers().any(|one| one.name == *node),
            fate: match (leaves, for_good && run.request.upkeep.restore.is_none()) {
                _ if for_good && given_up => Fate::GivenUp,
                (true, _) => Fate::Leaves,
                (false, true) => Fate::Gone,
                (false, false) => Fate::Returns,
            },
            all_stop: controllers().all(|one| one.vm.power == Power::Stopped),
            begun,
        }
    }

    fn refused(&self, node: &NodeName, reason: String) -> StepError {
        StepError::Gate { node: node.to_string(), reason, is_down: self.door.is_down }
    }
}
