//! The transport: from the client's hands into the simulator, on tokio's clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use talmox_pve::client::{BoxFuture, HttpRequest, HttpResponse, Target, Transport, TransportError};
use talmox_sim::{FaultPlan, Reach, Reply, Step, Waiting, World};
use talmox_sim_talos::{CallFault, Fetched, MachineId, Nodes, StreamId, proxmox};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::wire::{arriving, body_bytes};
use crate::{Call, CallLog, End, Fault, Seeded, Watched, When};

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

struct State {
    world: World,
    /// The web server of the client; without one nobody answers machines.
    web: Option<Web>,
    /// What runs in its machines, if anybody asked for that.
    nodes: Option<Nodes>,
    plan: FaultPlan<Fault>,
    log: CallLog,
    /// What befalls workers, by time.
    later: BTreeMap<u64, Vec<(String, Fate)>>,
    /// Clients a fault killed.
    dead: BTreeSet<ClientId>,
    struck: usize,
    /// If somebody watches over etcd.
    watched: Option<Watched>,
    /// How many calls each client made.
    asked: BTreeMap<ClientId, usize>,
}

/// Whoever makes calls: clients die one by one. Clients from [`BYSTANDER`] on meet no faults.
pub type ClientId = u32;

/// The first client that meets no faults: whoever tests does not want its own looks disturbed.
pub const BYSTANDER: ClientId = 8;

impl MemoryTransport {
    /// A transport to the cluster, whose clock goes on from where it stands.
    pub fn new(world: World, seed: u64, latency: Latency) -> Self {
        let begun = world.clock();
        let state = State {
            world,
            web: None,
            nodes: None,
            plan: FaultPlan::default(),
            log: CallLog::default(),
            later: BTreeMap::new(),
            dead: BTreeSet::new(),
            struck: 0,
            watched: None,
            asked: BTreeMap::new(),
        };
        Self {
            state: Mutex::new(state),
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

    /// Notes the call and finds what will befall it.
    pub(crate) fn depart(
        &self,
        client: ClientId,
        host: &str,
        method: &'static str,
        path: &str,
        body: &[u8],
    ) -> Departed {
        let now = self.now();
        let travel = self.latency.least + self.random.below(self.latency.spread + 1);
        let mut state = self.state();
        let number = state.log.last_number() + 1;
        let mut call = Call::new(number, now, host, method, path);
        call.stir(body);
        let fault = match client {
            BYSTANDER.. => None,
            _ if state.dead.contains(&client) => Some(Fault::KillClient { sent: false }),
            _ => state.plan.take(host, method, &call.path),
        };
        state.note_order(&call);
        state.log.push(call);
        *state.asked.entry(client).or_default() += 1;
        state.struck += usize::from(fault.as_ref().is_some_and(Fault::always_strikes));
        Departed { client, number, fault, there: travel / 2, back: travel - travel / 2 }
    }

    pub(crate) async fn travel(
        &self,
        target: &Target,
        request: &HttpRequest,
        body: &[u8],
        departed: &Departed,
    ) -> Result<HttpResponse, TransportError> {
        self.before_sending(departed)?;
        pause(departed.there).await;
        let host = self.contacted(target)?;
        match &departed.fault {
            Some(Fault::Hang { reached: false }) => return std::future::pending().await,
            Some(Fault::Reply { status, reason }) => {
                pause(departed.back).await;
                return Ok(refusal(*status, reason));
            }
            Some(Fault::Simulated(fault)) => {
                if fault == &talmox_sim::Fault::HostDown {
                    self.world(|world| set_reach(world, &host, Reach::ProxyDown));
                    return Err(lost("Connection reset by peer"));
                }
                let refused = self.befall(fault, &host, &request.path);
                if let Some(reply) = refused {
                    pause(reply.delay + departed.back).await;
                    return Ok(response(&reply));
                }
            }
            _ => {}
        }
        let reply = self.answer(&arriving(request, body, &host)?, departed.fault.as_ref()).await;
        pause(reply.delay + departed.back).await;
        match &departed.fault {
            Some(Fault::Hang { .. }) => std::future::pending().await,
            Some(Fault::ReplyLost) => Err(lost("the connection was closed before a reply came")),
            Some(Fault::BodyCut) => Err(lost("the reply was cut off")),
            Some(Fault::KillClient { .. }) => Err(lost(DEAD)),
            Some(Fault::ReplyShortened) => {
                let mut response = response(&reply);
                response.body.truncate(response.body.len() / 2);
                Ok(response)
            }
            Some(Fault::Simulated(talmox_sim::Fault::Answer { status, text, .. })) => {
                Ok(refusal(*status, text))
            }
            Some(Fault::Simulated(talmox_sim::Fault::Slow { by })) => {
                pause(*by).await;
                Ok(response(&reply))
            }
            _ => Ok(response(&reply)),
        }
    }

    /// Has a fault of the simulator's own happen; a reply if the call gets no further.
    fn befall(&self, fault: &talmox_sim::Fault, host: &str, path: &str) -> Option<Reply> {
        use talmox_sim::Fault as Sim;
        let (reply, struck) = self.world(|world| {
            let reply = world.befall(fault, host, path);
            let runs = |id: u32| world.dump().vms.get(&id).is_some_and(|vm| vm.running);
            let struck = (matches!(fault, Sim::DiskError) && vm_of(path).is_some_and(runs))
                || (matches!(fault, Sim::Backup { .. })
                    && world.dump().vms.values().any(|vm| vm.is_locked_by("backup")));
            (reply, struck)
        });
        self.state().struck += usize::from(struck);
        reply
    }

    /// Whether a fault takes the client's life before it sends its call, or just after.
    pub(crate) fn dies(&self, departed: &Departed) -> Option<bool> {
        let Some(Fault::KillClient { sent }) = departed.fault else { return None };
        self.state().dead.insert(departed.client);
        Some(sent)
    }

    fn before_sending(&self, departed: &Departed) -> Result<(), TransportError> {
        if self.dies(departed) == Some(false) {
            return Err(TransportError::Unsendable { reason: DEAD.to_owned() });
        }
        match &departed.fault {
            Some(Fault::Refused) => Err(TransportError::Connect { reason: "Connection refused".to_owned() }),
            Some(Fault::HostDown { host, reach }) => {
                self.world(|world| set_reach(world, host, *reach));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The host behind an endpoint, by name or address, if it can be reached.
    fn contacted(&self, target: &Target) -> Result<String, TransportError> {
        let wanted = target.endpoint.host();
        let state = self.state();
        let found = state.world.nodes.iter().find(|(name, node)| *name == wanted || node.ip == wanted);
        let reason = match found {
            Some((name, node)) if node.reach == Reach::Up => return Ok(name.clone()),
            Some((_, node)) if node.reach == Reach::ProxyDown => "Connection refused",
            Some(_) => "No route to host",
            None => "Name or service not known",
        };
        Err(TransportError::Connect { reason: reason.to_owned() })
    }

    /// Has the simulator answer, however long the call waits there for a worker or a lock.
    async fn answer(&self, request: &talmox_sim::Request, fault: Option<&Fault>) -> Reply {
        let mut waiting = Waiting::default();
        loop {
            match self.step(request, waiting, fault) {
                Step::Done(reply) => return reply,
                Step::Wait { until, waiting: so_far } => {
                    self.pause_until(until).await;
                    waiting = so_far;
                }
            }
        }
    }

    /// On a running clock the moment may have passed since it was named.
    pub(crate) async fn pause_until(&self, moment: u64) {
        pause(moment.saturating_sub(self.now())).await;
    }

    /// Hands the request to the simulator, and plans what befalls the worker it starts.
    fn step(&self, request: &talmox_sim::Request, waiting: Waiting, fault: Option<&Fault>) -> Step {
        let now = self.now();
        let mut state = self.state();
        state.catch_up(now);
        let step = state.world.step(request, now, waiting);
        state.link();
        self.changed.notify_waiters();
        let Step::Done(reply) = &step else { return step };
        if let (Some((after, fate)), Some(upid)) = (fault.and_then(Fate::of), upid_of(reply)) {
            state.later.entry(now + millis(after)).or_default().push((upid, fate));
        }
        step
    }
}

/// A call on its way.
pub(crate) struct Departed {
    pub(crate) client: ClientId,
    pub(crate) number: usize,
    pub(crate) fault: Option<Fault>,
    /// How long it travels there, and its reply back: milliseconds.
    pub(crate) there: u64,
    pub(crate) back: u64,
}

impl Departed {
    /// What simulated nodes themselves have to do wrong.
    pub(crate) fn node_fault(&self) -> Option<CallFault> {
        if let Some(Fault::Node(fault)) = &self.fault { Some(fault.clone()) } else { None }
    }
}

/// How a worker ends before its time.
enum Fate {
    Dies,
    Fails(String),
}

impl Fate {
    fn of(fault: &Fault) -> Option<(Duration, Self)> {
        match fault {
            Fault::KillWorker { after } => Some((*after, Self::Dies)),
            Fault::FailWorker { after, words } => Some((*after, Self::Fails(words.clone()))),
            Fault::Reply { .. }
            | Fault::ReplyLost
            | Fault::BodyCut
            | Fault::ReplyShortened
            | Fault::Hang { .. }
            | Fault::Refused
            | Fault::HostDown { .. }
            | Fault::Simulated(_)
            | Fault::Status { .. }
            | Fault::Node(_)
            | Fault::KillClient { .. } => None,
        }
    }
}

pub(crate) const DEAD: &str = "the client was killed";

impl State {
    /// Lets everything happen that is due.
    fn catch_up(&mut self, now: u64) {
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            let (at, befallen) = entry.remove_entry();
            self.advance_to(at);
            for (upid, fate) in befallen {
                self.struck += usize::from(self.world.task_status(&upid) == Some(None));
                match fate {
                    Fate::Dies => self.world.kill_worker(&upid),
                    Fate::Fails(words) => self.world.fail_worker(&upid, &words),
                }
            }
        }
        self.advance_to(now);
        self.answer_machines(now);
    }

    /// Hands machines the files they wait for.
    fn answer_machines(&mut self, now: u64) {
        let (Some(nodes), Some(web)) = (&mut self.nodes, &self.web) else { return };
        for wanted in nodes.wanted() {
            let fetched = if self.dead.is_empty() {
                web(&wanted.url)
            } else {
                Fetched::Failed("connection refused".to_owned())
            };
            nodes.fetched(&wanted, fetched, now);
        }
    }

    fn advance_to(&mut self, now: u64) {
        match &mut self.nodes {
            Some(nodes) => proxmox::advance(&mut self.world, nodes, now),
            None => self.world.advance_to(now),
        }
        if let (Some(watched), Some(nodes)) = (&mut self.watched, &self.nodes) {
            watched.look(nodes);
        }
    }

    /// Notes for whoever watches which machine a call tells to do something.
    fn note_order(&mut self, call: &Call) {
        let (Some(watched), Some(nodes)) = (&mut self.watched, &self.nodes) else { return };
        let machine = match call.method {
            "GET" => None,
            "CALL" => {
                let address: Option<std::net::IpAddr> = call.host.parse().ok();
                nodes.addresses().into_iter().find(|(one, _)| Some(*one) == address).map(|(_, id)| id)
            }
            // Notes and leases are written into a VM's configuration while it runs.
            "DELETE" => vm_of(&call.path).map(MachineId),
            _ if call.path.contains("/status/") || call.path.ends_with("/migrate") => {
                vm_of(&call.path).map(MachineId)
            }
            _ => None,
        };
        if let Some(machine) = machine {
            watched.order(machine, nodes.clock());
        }
    }

    /// Machines and what runs in them hear of each other.
    fn link(&mut self) {
        if let Some(nodes) = &mut self.nodes {
            proxmox::link(&mut self.world, nodes);
        }
    }
}

/// A client's way to Proxmox.
pub(crate) struct PveMemory {
    pub(crate) cluster: Arc<MemoryTransport>,
    pub(crate) client: ClientId,
}

impl Transport for PveMemory {
    fn send<'a>(
        &'a self,
        target: &'a Target,
        request: HttpRequest,
    ) -> BoxFuture<'a, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            let Self { cluster, client } = self;
            let body = body_bytes(&request.body)?;
            let host = target.endpoint.host();
            let departed = cluster.depart(*client, host, request.method.as_str(), &request.path, &body);
            let answer = cluster.travel(target, &request, &body, &departed).await;
            let at = cluster.now();
            match &answer {
                Ok(HttpResponse { status, body, .. }) => {
                    cluster.note_end(departed.number, body, End::Answered { status: *status, at });
                }
                Err(error) => {
                    cluster.note_end(departed.number, b"", End::Failed { reason: error.to_string(), at });
                }
            }
            answer
        })
    }
}

/// The VM a path is about.
fn vm_of(path: &str) -> Option<u32> {
    path.split_once("/qemu/")?.1.split('/').next()?.parse().ok()
}

fn set_reach(world: &mut World, host: &str, reach: Reach) {
    if let Some(node) = world.nodes.get_mut(host) {
        node.reach = reach;
    }
}

pub(crate) async fn pause(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn lost(reason: &str) -> TransportError {
    TransportError::Lost { reason: reason.to_owned() }
}

fn response(reply: &Reply) -> HttpResponse {
    HttpResponse { status: reply.status, reason: reply.reason.clone(), body: Bytes::from(reply.body.clone()) }
}

/// A refusal as Proxmox 9 words it; statuses of a hop come without a body.
fn refusal(status: u16, reason: &str) -> HttpResponse {
    let message = serde_json::json!({"data": null, "message": format!("{reason}\n")});
    let body = if status >= 595 { String::new() } else { message.to_string() };
    HttpResponse { status, reason: reason.to_owned(), body: Bytes::from(body) }
}

fn upid_of(reply: &Reply) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(&reply.body).ok()?;
    body["data"].as_str().filter(|text| text.starts_with("UPID:")).map(str::to_owned)
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
