//! Carrying a plan out.
//!
//! ```text
//!  needs done? ─▶ its node's turn to be down? ─▶ room on hosts, storages, template? ─▶ gate ─▶ look, act, see
//!        │                    (turns.rs)                    (room.rs)                   │
//!        └── a step it needs failed: skipped                          failed, or done ◀─┘ what waited is looked at again
//! ```
//!
//! One loop owns all of it, so that nothing is decided twice and a token that says stop is heard before each step.

mod patience;
mod room;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use talmox_plan::{Effect, Plan, Planned, Step, StepId, Upkeep};
use talmox_pve::client::Resource;
use talmox_types::{NodeName, StorageId};
use tokio::time::Instant;

use crate::gate::{Door, Known};
use crate::lease::Lease;
use crate::run::{Because, Done, Failure, Outcome, Run, Skip, is_noticed, takes_down};
use crate::unavailable::{Beside, away_beside, brought_back_by, made_by, takes_away};
use crate::work::{Reserved, Result as StepResult, Work};
use crate::{Event, StepError, heartbeat};
use patience::carry_out;
use room::{Claims, Room};
use turns::Turns;

/// The longest a step is silent.
const SILENCE: Duration = Duration::from_secs(30);

type Running<'a> = FuturesUnordered<Pin<Box<dyn Future<Output = (usize, StepResult)> + Send + 'a>>>;

/// Carries out what can be done of a plan: steps that need a failed one are skipped, the others go on.
///
/// # Cancel safety
///
/// Dropping it leaves whatever Proxmox is working on to Proxmox. Every step can be run again.
pub async fn execute(run: &Run<'_>, plan: &Plan) -> Outcome {
    execute_under(run, plan, None).await
}

/// The same under a lease, which every node that goes down must still find ours.
pub(crate) async fn execute_under<'a>(run: &Run<'a>, plan: &Plan, lease: Option<&Lease<'a>>) -> Outcome {
    let shared = shared_storages(run, plan).await;
    let reserved = Reserved::of(plan, shared.as_ref());
    let known = Known::default();
    let away = away_beside(run, plan).await;
    let mut board = Board::new(run, plan, shared.as_ref(), away);
    let mut running = Running::new();
    loop {
        for index in board.ready() {
            let storages = board.claims[index].storages();
            let work = Work::new(run, &plan.steps[index], &reserved, storages);
            let work = work.through(board.door(index, lease, &known)).beside(board.beside(index));
            running.push(Box::pin(async move { (index, begin(&work).await) }));
        }
        match running.next().await {
            Some((index, result)) => board.end(index, result),
            None => break,
        }
    }
    board.into_outcome()
}

async fn begin(work: &Work<'_>) -> StepResult {
    let started = Instant::now();
    let step = work.planned;
    work.event(Event::Started { step });
    tracing::debug!(step = %step.id, "step begins");
    let doing = async {
        if takes_down(step) {
            work.go_down().await?;
        }
        work.others_are_there().await?;
        carry_out(work).await
    };
    // Steps wait for many things one after the other, some of which say nothing. This is the one place that keeps them from being
    // silent for longer.
    let result = heartbeat(SILENCE, Box::pin(doing), |elapsed| work.still(elapsed)).await;
    match &result {
        Ok(_) => work.event(Event::Done { step, elapsed: started.elapsed() }),
        Err(StepError::Interrupted { .. }) => {
            work.event(Event::Skipped { step, because: &Because::Interrupted.to_string() });
        }
        // No failure: it is left for another time.
        Err(error @ StepError::Closed { .. }) => {
            work.event(Event::Skipped { step, because: &error.to_string() });
        }
        // No failure: what is there now is looked at, and planned anew.
        Err(error) if error.wants_another_plan() => {
            work.event(Event::Skipped { step, because: &error.to_string() });
        }
        Err(error) => work.event(Event::Failed { step, error }),
    }
    result
}

/// Storages several hosts share: those are locked for the whole cluster. If Proxmox does not tell, all are taken for
/// shared.
async fn shared_storages(run: &Run<'_>, plan: &Plan) -> Option<BTreeSet<StorageId>> {
    if plan.steps.iter().all(|step| Claims::storages_of(step).is_empty()) {
        return Some(BTreeSet::new());
    }
    let resources = run.client.resources().await.ok()?;
    let shared = resources.into_iter().filter_map(|resource| match resource {
        Resource::Storage(storage) if storage.shared => Some(storage.storage),
        Resource::Storage(_)
        | Resource::Qemu(_)
        | Resource::Lxc(_)
        | Resource::Node(_)
        | Resource::Pool(_)
        | Resource::Other => None,
    });
    Some(shared.collect())
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Done,
    /// Done otherwise than planned.
    Instead,
    NotDone,
}

/// What has been done, what runs, and what may begin.
struct Board<'a> {
    run: &'a Run<'a>,
    steps: &'a [Planned],
    index: BTreeMap<&'a StepId, usize>,
    claims: Vec<Claims>,
    states: Vec<State>,
    room: Room,
    turns: Turns,
    /// Nodes that come up for the first time.
    new: BTreeSet<NodeName>,
    /// Nodes the plan brings back.
    back: BTreeSet<NodeName>,
    outcome: Outcome,
}

impl<'a> Board<'a> {
    fn new(
        run: &'a Run<'a>,
        plan: &'a Plan,
        shared: Option<&BTreeSet<StorageId>>,
        away: BTreeSet<NodeName>,
    ) -> Self {
        let steps = plan.steps.as_slice();
        Self {
            run,
            steps,
            index: steps.iter().enumerate().map(|(index, step)| (&step.id, index)).collect(),
            claims: steps.iter().map(|step| Claims::of(step, shared)).collect(),
            states: vec![State::Waiting; steps.len()],
            room: Room::new(run.limits),
            turns: Turns::new(run, away),
            new: made_by(plan),
            back: brought_back_by(plan),
            outcome: Outcome::default(),
        }
    }

    /// Steps that may begin now; they count as running from here on.
    fn ready(&mut self) -> Vec<usize> {
        self.skip_what_cannot_be();
        let mut begun = self.begin_what_fits();
        // Whoever has the turn waits for somebody who wants it: then it goes round.
        if begun.is_empty() && !self.states.contains(&State::Running) && self.turns.pass_on() {
            begun = self.begin_what_fits();
        }
        begun
    }

    fn begin_what_fits(&mut self) -> Vec<usize> {
        let mut begun = Vec::new();
        for index in 0..self.steps.len() {
            let step = &self.steps[index];
            if self.states[index] != State::Waiting || !self.may_begin(index) {
                continue;
            }
            if takes_down(step) && !self.turns.may_go_down(step) {
                continue;
            }
            if self.room.take(&self.claims[index]) {
                if takes_down(step) {
                    self.turns.take(step);
                }
                self.states[index] = State::Running;
                begun.push(index);
            }
        }
        begun
    }

    fn needs(&self, index: usize) -> impl Iterator<Item = &State> {
        // A step that is not in the plan cannot be waited for.
        self.steps[index]
            .needs
            .iter()
            .map(|need| self.index.get(need).map_or(&State::NotDone, |i| &self.states[*i]))
    }

    /// Whether what a step needs is done. A node that pods were moved off gets them back whatever became of what was to be
    /// done to it.
    fn may_begin(&self, index: usize) -> bool {
        let ended = |need: &State| matches!(need, State::Done | State::Instead | State::NotDone);
        self.needs(index).all(|need| need == &State::Done)
            || (self.opens_again(index) && self.needs(index).all(ended))
    }

    /// Whether a step lets pods back onto a node that this plan has drained.
    fn opens_again(&self, index: usize) -> bool {
        let step = &self.steps[index];
        let is_drained = |(other, state): (&Planned, &State)| {
            let drains = matches!(other.step, Step::Upkeep(Upkeep::DrainNode { .. }));
            drains && other.node == step.node && *state == State::Done
        };
        matches!(step.step, Step::Upkeep(Upkeep::ReturnNode { .. }))
            && self.steps.iter().zip(&self.states).any(is_drained)
    }

    /// Skips steps whose needs will not be met, and everything that has not begun once it was said to stop.
    fn skip_what_cannot_be(&mut self) {
        let (stopped, closed) = (self.run.stop.is_cancelled(), !self.run.may_interrupt());
        for index in 0..self.steps.len() {
            if self.states[index] != State::Waiting || self.opens_again(index) {
                continue;
            }
            if stopped {
                self.skip(index, Because::Interrupted);
                continue;
            }
            let step = &self.steps[index];
            let state = |need: &StepId| self.index.get(need).map_or(&State::NotDone, |i| &self.states[*i]);
            let failed = step.needs.iter().find(|need| *state(need) == State::NotDone);
            let instead = step.needs.iter().find(|need| *state(need) == State::Instead);
            if let Some(need) = failed {
                let because = self.why_not(need);
                self.skip(index, because);
            } else if let Some(need) = instead {
                self.skip(index, Because::PlannedAnew(need.clone()));
            } else if closed && (is_noticed(step) || self.is_only_before_what_is_noticed(step)) {
                self.skip(index, Because::Closed(self.run.request.upkeep.window.to_string()));
            } else if takes_down(step)
                && let Some(sick) = self.turns.kept_up_by(step)
            {
                self.skip(index, Because::NotBack(sick));
            }
        }
    }

    /// Whether a step is a snapshot of etcd before what is not done now: whoever tries again every hour would have the old ones
    /// thrown away for new ones, and nothing to show for it.
    fn is_only_before_what_is_noticed(&self, step: &Planned) -> bool {
        let mut followers = self.steps.iter().filter(|other| other.needs.contains(&step.id)).peekable();
        matches!(step.step, Step::Upkeep(Upkeep::SnapshotEtcd { .. }))
            && followers.peek().is_some()
            && followers.all(|other| is_noticed(other) || matches!(other.step, Step::AwaitHealth))
    }

    /// A step that was itself skipped passes its reason on.
    fn why_not(&self, need: &StepId) -> Because {
        let skipped = self.outcome.skipped.iter().find(|skip| skip.step == *need);
        skipped.map_or_else(|| Because::Needs(need.clone()), |skip| skip.because.clone())
    }

    fn skip(&mut self, index: usize, because: Because) {
        let step = &self.steps[index];
        self.states[index] = State::NotDone;
        self.run.event(Event::Skipped { step, because: &because.to_string() });
        self.outcome.interrupted |= because == Because::Interrupted;
        self.outcome.closed |= matches!(because, Because::Closed(_));
        self.outcome.skipped.push(Skip { step: step.id.clone(), node: step.node.clone(), because });
        self.release_turn(index, false);
    }

    /// The gate a step has to pass, if it takes a node down; the one that waits for a machine's first answer only does if it never comes.
    fn door<'l>(&mut self, index: usize, lease: Option<&'l Lease<'l>>, known: &'l Known) -> Option<Door<'l>> {
        let step = &self.steps[index];
        let may_go_down = takes_down(step) || matches!(step.step, Step::ConfigureNode { .. });
        if !may_go_down || !self.turns.has_gate() {
            return None;
        }
        // What this plan does to the VM before is no business of the one that takes its place.
        let own = || self.steps.iter().filter(|other| takes_down(step) && other.node == step.node);
        let leaves = own().any(|other| matches!(other.step, Step::Upkeep(Upkeep::RetireNode { .. })));
        let for_good = own().any(|other| matches!(other.effect, Effect::Replace | Effect::Destroy));
        let mut before = self.steps.iter().zip(&self.states);
        let is_down = before.any(|(other, state)| {
            other.node == step.node && takes_down(other) && matches!(state, State::Done | State::Instead)
        });
        let asks = takes_down(step) && self.turns.asks(step);
        Some(Door { lease, leaves, for_good, asks, is_down, known })
    }

    /// Whom a step goes down beside that takes a worker down.
    fn beside(&self, index: usize) -> Option<Beside> {
        let step = &self.steps[index];
        if !takes_away(self.run, step) || !self.turns.has_gate() {
            return None;
        }
        let (ours, at_most) = self.turns.workers_beside(step);
        Some(Beside { ours, new: self.new.clone(), back: self.back.clone(), at_most })
    }

    fn end(&mut self, index: usize, result: StepResult) {
        let step = &self.steps[index];
        let (id, node) = (step.id.clone(), step.node.clone());
        self.room.give_back(&self.claims[index]);
        let failed = !matches!(result, Ok(_) | Err(StepError::Closed { .. }));
        self.states[index] = match result {
            Ok(end) => {
                let instead = end.instead();
                self.outcome.done.push(Done {
                    step: id,
                    kind: step.step.word(),
                    node,
                    effect: step.effect,
                    wrote: end.wrote(),
                    instead,
                });
                if instead.is_some() { State::Instead } else { State::Done }
            }
            Err(StepError::Interrupted { .. }) => {
                self.outcome.interrupted = true;
                self.outcome.skipped.push(Skip { step: id, node, because: Because::Interrupted });
                State::NotDone
            }
            Err(StepError::Closed { window }) => {
                self.outcome.closed = true;
                self.outcome.skipped.push(Skip { step: id, node, because: Because::Closed(window) });
                State::NotDone
            }
            Err(error) => {
                self.outcome.failed.push(Failure { step: id, node, error });
                State::NotDone
            }
        };
        self.release_turn(index, failed);
    }

    /// A node that is down keeps its turn until nothing more happens to it in this plan.
    fn release_turn(&mut self, index: usize, failed: bool) {
        let Some(node) = &self.steps[index].node else { return };
        let busy = self.steps.iter().zip(&self.states).any(|(step, state)| {
            step.node.as_ref() == Some(node) && matches!(state, State::Waiting | State::Running)
        });
        self.turns.ended(node, failed, !busy);
    }

    /// Steps that need each other never become ready; nobody plans such, and nobody waits for them.
    fn into_outcome(mut self) -> Outcome {
        for index in 0..self.steps.len() {
            if self.states[index] == State::Waiting {
                let need = self.steps[index].needs.first().unwrap_or(&self.steps[index].id).clone();
                self.skip(index, Because::Needs(need));
            }
        }
        self.outcome
    }
}
