//! The transport: from the client's hands into the simulator, on tokio's clock.

mod state;
mod travel;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use talmox_sim::{FaultPlan, World};
use talmox_sim_talos::{Fetched, MachineId, Nodes, StreamId};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{CallLog, End, Fault, Seeded, Watched, When};
use state::State;
pub(crate) use travel::{DEAD, Departed, pause};

/// How long a request and its reply travel, together: between `least` and `least + spread`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub least: u64,
    pub spread: u64,
}

impl Latency {
    /// Requests of one moment arrive in that moment, in the order they were sent.
    pub const NONE: Self = Self { least: 0, spread: 0 };
    /// Around the median of the recordings, 29 ms.
    pub const RECORDED: Self = Self { least: 20, spread: 18 };
}

/// Carries requests to a simulated cluster. Time passes only while everybody waits.
pub struct MemoryTransport {
    state: Mutex<State>,
    start: Instant,
    /// Where the cluster's clock stood then.
    begun: u64,
    latency: Latency,
    random: Seeded,
    /// Something was done to the cluster or its nodes.
    changed: Notify,
}

/// What a web server answers machines that fetch a URL.
pub type Web = Arc<dyn Fn(&str) -> Fetched + Send + Sync>;

/// Whoever makes calls: clients die one by one. Clients from [`BYSTANDER`] on meet no faults.
pub type ClientId = u32;

/// The first client that meets no faults: whoever tests does not want its own looks disturbed.
pub const BYSTANDER: ClientId = 8;

impl MemoryTransport {
    /// A transport to the cluster, whose clock goes on from where it stands.
    pub fn new(world: World, seed: u64, latency: Latency) -> Self {
        let begun = world.clock();
        Self {
            state: Mutex::new(State::new(world)),
            start: Instant::now(),
            begun,
            latency,
            random: Seeded::new(seed),
            changed: Notify::new(),
        }
    }

    /// From now on Talos nodes come up in the cluster's machines.
    pub(crate) fn add_nodes(&self, seed: u64) {
        let mut state = self.state();
        let nodes = Nodes::for_world(&state.world, seed);
        state.nodes.get_or_insert(nodes);
        state.link();
    }

    /// From now on machines fetch files from this, or from nobody. It goes with the client if that is killed.
    pub fn serve_web(&self, web: Option<Web>) {
        self.state().web = web;
    }

    /// Looks at the nodes as they are now, or changes something about them. None if the cluster has none.
    pub fn nodes<R>(&self, look: impl FnOnce(&mut Nodes, u64) -> R) -> Option<R> {
        let now = self.now();
        let mut state = self.state();
        state.catch_up(now);
        let result = state.nodes.as_mut().map(|nodes| look(nodes, now));
        state.link();
        drop(state);
        self.changed.notify_waiters();
        result
    }

    /// Waits until a stream may have brought something: it is due, or somebody did something to the nodes. What is done before this is first
    /// polled counts too.
    pub(crate) fn stirred(&self, stream: StreamId) -> impl Future<Output = ()> + '_ {
        let mut told = Box::pin(self.changed.notified());
        told.as_mut().enable();
        let due =
            |nodes: &Nodes| [nodes.next_event(), nodes.next_message(stream)].into_iter().flatten().min();
        let due = self.state().nodes.as_ref().and_then(due);
        async move {
            let due = async {
                match due {
                    Some(moment) => self.pause_until(moment.max(self.now() + 1)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = told => {}
                () = due => {}
            }
        }
    }

    /// The same without anybody taking notice.
    pub(crate) fn peek_nodes<R>(&self, look: impl FnOnce(&mut Nodes, u64) -> R) -> Option<R> {
        let now = self.now();
        let mut state = self.state();
        state.catch_up(now);
        state.nodes.as_mut().map(|nodes| look(nodes, now))
    }

    /// Something that came back to a call.
    pub(crate) fn note_bytes(&self, number: usize, bytes: &[u8]) {
        self.state().log.change(number, |call| call.stir(bytes));
    }

    /// How a call ended.
    pub(crate) fn note_end(&self, number: usize, bytes: &[u8], end: End) {
        self.state().log.change(number, |call| {
            call.stir(bytes);
            call.end = end;
        });
    }

    /// Plans a fault.
    pub fn plan(&self, when: When, fault: Fault) {
        when.plan(&mut self.state().plan, fault);
    }

    /// Follows a plan of the simulator's own, as a file says it, behind what is planned already.
    pub fn follow_plan(&self, plan: FaultPlan<talmox_sim::Fault>) {
        self.state().plan.append(plan.map(Fault::from));
    }

    /// Whatever was to go wrong and has not yet does not.
    pub fn forget_faults(&self) {
        self.state().plan.clear();
    }

    /// From now on etcd is looked at whenever anything happens.
    pub fn watch_etcd(&self) {
        self.state().watched.get_or_insert_default();
    }

    /// What was seen of it.
    pub fn watched(&self) -> Watched {
        self.state().watched.clone().unwrap_or_default()
    }

    /// Others take a machine down, or let it die: what comes of that is not the clients' doing.
    pub fn others_take(&self, machine: MachineId) {
        let mut state = self.state();
        let State { watched, nodes, .. } = &mut *state;
        if let (Some(watched), Some(nodes)) = (watched, nodes) {
            watched.others_take(machine, nodes);
        }
    }

    /// How many calls a client made so far.
    pub fn call_count(&self, client: ClientId) -> usize {
        self.state().asked.get(&client).copied().unwrap_or_default()
    }

    /// Everything asked so far.
    pub fn calls(&self) -> CallLog {
        self.state().log.clone()
    }

    /// How many faults made a difference to their call or to the world. A worker that is to die may have ended before,
    /// a call may start none or be about no VM, and there are no connections in memory that lie idle.
    pub fn faults_struck(&self) -> usize {
        self.state().struck
    }

    /// Whether a fault killed a client.
    pub fn client_died(&self) -> bool {
        !self.state().dead.is_empty()
    }

    /// Whether a fault killed this client.
    pub fn died(&self, client: ClientId) -> bool {
        self.state().dead.contains(&client)
    }

    /// Others take the place of clients that died.
    pub fn revive_client(&self) {
        self.state().dead.clear();
    }

    /// Looks at the cluster as it is now, or changes it by other means than its API.
    pub fn world<R>(&self, look: impl FnOnce(&mut World) -> R) -> R {
        let now = self.now();
        let mut state = self.state();
        state.catch_up(now);
        let result = look(&mut state.world);
        state.link();
        drop(state);
        self.changed.notify_waiters();
        result
    }

    /// Milliseconds since the cluster's hosts booted.
    pub fn now(&self) -> u64 {
        self.begun.saturating_add(millis(self.start.elapsed()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_has_passed_is_not_waited_for() {
        let transport = MemoryTransport::new(World::new(1, 0), 1, Latency::NONE);
        transport.pause_until(5).await;
        assert_eq!(transport.now(), 5);
        transport.pause_until(3).await;
        assert_eq!(transport.now(), 5);
    }
}
