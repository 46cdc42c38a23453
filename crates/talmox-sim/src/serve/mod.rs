//! The HTTPS server around a world: every simulated host listens on loopback and behaves like the real API server.
//!
//! ```text
//! Server ─ owns ─┬─ Door per host (host.rs) ─ owns ─ connections (connection.rs)
//!                │        request ─▶ exchange.rs ─▶ Shared::handle ─▶ Simulation ─▶ reply, or a fault
//!                ├─ the Image Factory's door (factory.rs)
//!                └─ saver: the world to its folder after changes (state.rs)
//! ```

mod authority;
mod clock;
mod companion;
mod connection;
mod exchange;
mod factory;
mod host;
mod latency;
mod listen;
mod log;
mod outgoing;
mod state;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use authority::Authority;
use clock::Clock;
pub use companion::{Companion, Handle};
use host::Door;
use latency::Latency;
pub use latency::RECORDED_GET;
pub use log::{CallLog, LoggedCall};
pub use state::StateFolder;

use crate::factory::{FactoryReply, FactoryRequest};
use crate::saved::LoadError;
use crate::simulation::{Delivery, Progress, Simulation};
use crate::wire::Request;
use crate::world::{Reach, World};

/// How the server behaves.
#[derive(Clone)]
pub struct Settings {
    /// The median round trip of a GET; the others follow.
    pub latency: Duration,
    /// How much faster than the wall clock simulated time runs; 0 lets it stand still until it is moved.
    pub speed: f64,
    /// The port of the first host, or of all of them; 0 for any free ones.
    pub port: u16,
    pub addresses: Addresses,
    pub keep: Keep,
    /// Where calls are written to, if anywhere.
    pub log: Option<CallLog>,
    /// Who lives beside the world, if anybody does.
    pub companion: Option<Arc<dyn Companion>>,
}

/// Where hosts listen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// All at 127.0.0.1, each on a port of its own: the first on the one that is asked for, the others on the next ones.
    #[default]
    One,
    /// Each at an address of its own, 127.0.0.1 and so on, all on one port, as real hosts are: a client that learns of one
    /// from another finds it there. The addresses are loopback on Linux without further ado.
    Each,
}

/// What is written to disk.
#[derive(Clone, Debug, Default)]
pub enum Keep {
    #[default]
    Nothing,
    /// The authority's certificate and the token, for those who come from outside.
    Access(StateFolder),
    /// These, and the world after every change.
    World(StateFolder),
}

impl Keep {
    fn folder(&self) -> Option<&StateFolder> {
        match self {
            Self::Nothing => None,
            Self::Access(folder) | Self::World(folder) => Some(folder),
        }
    }

    fn world(&self) -> Option<&StateFolder> {
        match self {
            Self::Nothing | Self::Access(_) => None,
            Self::World(folder) => Some(folder),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let latency = Duration::from_millis(RECORDED_GET);
        let addresses = Addresses::default();
        Self { latency, speed: 1.0, port: 0, addresses, keep: Keep::Nothing, log: None, companion: None }
    }
}

/// Why the server cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("{hosts} hosts need as many ports, and there are not so many from {port} on")]
    Ports { port: u16, hosts: usize },
    #[error("could not make the hosts' certificates: {reason}")]
    Certificate { reason: String },
    #[error("could not keep the world in {}", .path.display())]
    State { path: PathBuf, source: io::Error },
    #[error("could not read {}", .path.display())]
    Load { path: PathBuf, source: LoadError },
    #[error("{} is used by another simulator{}", .path.display(), named(*.process))]
    InUse { path: PathBuf, process: Option<u32> },
    #[error("there is no host {name}")]
    NoHost { name: String },
}

fn named(process: Option<u32>) -> String {
    process.map_or_else(String::new, |id| format!(", process {id}"))
}

/// A host and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    pub name: String,
    pub address: SocketAddr,
    /// SHA-256 of its certificate, as `/nodes` reports it too.
    pub fingerprint: String,
}

impl HostAddress {
    /// `https://ADDRESS:PORT`
    pub fn endpoint(&self) -> String {
        format!("https://{}", self.address)
    }
}

/// What all connections work on.
pub(crate) struct Shared {
    simulation: Mutex<Simulation>,
    clock: Clock,
    latency: Latency,
    companion: Option<Arc<dyn Companion>>,
    calls: AtomicU64,
    log: Option<CallLog>,
    /// Where the world is kept, if it is.
    folder: Option<StateFolder>,
    /// How often the world changed; rises after the change is made.
    changes: AtomicU64,
    /// How many of these changes are on disk. Who holds it writes, all others wait for what that brings.
    saved: Arc<tokio::sync::Mutex<u64>>,
    /// The world changed since it was saved.
    changed: Notify,
    /// It was decided that a host is lost or boots, or the clock was moved.
    stirred: Notify,
    wanted: BTreeMap<String, watch::Sender<Reach>>,
    /// Connections that are open.
    open: watch::Sender<usize>,
}

/// A connection as long as it is open.
pub(crate) struct Opened(Arc<Shared>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

impl Shared {
    fn opened(self: &Arc<Self>) -> Opened {
        self.open.send_modify(|open| *open += 1);
        Opened(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, Simulation> {
        self.simulation.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it says who calls, and rightly.
    fn knows(&self, request: &Request) -> bool {
        self.lock().world.authenticate(request).is_ok()
    }

    /// Answers a call. One that waits for a worker or a lock keeps nobody else waiting; the time it waited is gone when
    /// this returns, and what it changed is saved. An error says that it is not.
    async fn handle(self: &Arc<Self>, request: &Request) -> Result<Delivery, ServeError> {
        let begun = self.clock.now();
        let (mut progress, decided) = {
            let mut simulation = self.lock();
            self.follow(&mut simulation, begun);
            let progress = simulation.begin(request, begun);
            self.follow(&mut simulation, begun);
            (progress, simulation.world.next_host_event().is_some())
        };
        if decided {
            self.stirred.notify_one();
        }
        let delivery = loop {
            match progress {
                Progress::Done(delivery) => break delivery,
                Progress::Wait { until, call } => {
                    let wait = self.clock.wall(until.saturating_sub(self.clock.now()));
                    if !wait.is_zero() {
                        tokio::time::sleep(wait).await;
                    }
                    let now = until.max(self.clock.now());
                    let mut simulation = self.lock();
                    self.follow(&mut simulation, now);
                    progress = simulation.resume(request, now, call);
                    self.follow(&mut simulation, now);
                }
            }
        };
        // What a read does to the world is to let time pass, which a loaded world does again by itself.
        if request.method != "GET" {
            let change = self.note_change();
            self.save(change).await?;
        }
        if delivery == Delivery::HostDown {
            self.show_reach();
        }
        Ok(delivery)
    }

    /// Asks the Image Factory; none if it is dead, or there is none. What it was told is saved before it answers.
    async fn ask_factory(self: &Arc<Self>, request: &FactoryRequest) -> Option<FactoryReply> {
        let reply = self.lock().world.factory.as_mut()?.handle(request)?;
        if request.method == "POST" {
            let change = self.note_change();
            self.save(change).await.ok()?;
        }
        tokio::time::sleep(self.clock.wall(reply.delay)).await;
        Some(reply)
    }

    /// Counts a change that was made and has it saved, whether anybody waits for that or not.
    fn note_change(&self) -> u64 {
        let change = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.notify_one();
        change
    }

    /// Returns when this change is on disk, if the world is kept. One save is for all changes made before it.
    async fn save(self: &Arc<Self>, change: u64) -> Result<(), ServeError> {
        let Some(folder) = self.folder.clone() else { return Ok(()) };
        let mut saved = Arc::clone(&self.saved).lock_owned().await;
        if *saved >= change {
            return Ok(());
        }
        let shared = Arc::clone(self);
        let path = folder.path().to_owned();
        // Off the runtime's threads. The text is taken under the world's lock, the disk is waited for without it; the
        // right to write goes along, so that a caller who gives up does not make room for a second writer.
        let written = tokio::task::spawn_blocking(move || {
            let made = shared.changes.load(Ordering::SeqCst);
            let text = {
                let mut simulation = shared.lock();
                simulation.world.beside = shared.companion.as_ref().map(|companion| companion.save());
                simulation.world.save()
            };
            folder.save_world(&text)?;
            *saved = made;
            Ok(())
        });
        // What did not end by itself saved nothing, and nobody may be told otherwise.
        written.await.unwrap_or_else(|error| Err(ServeError::State { path, source: io::Error::other(error) }))
    }

    /// Lets happen to hosts what is due; answers how long it is until there is more, if the clock runs.
    fn let_hosts_change(&self) -> Option<Duration> {
        let now = self.clock.now();
        let next = {
            let mut simulation = self.lock();
            if simulation.world.next_host_event().is_some_and(|at| at <= now) {
                self.follow(&mut simulation, now);
                simulation.world.advance_to(now);
                self.follow(&mut simulation, now);
            }
            simulation.world.next_host_event()
        };
        self.show_reach();
        // A moment more, so that a clock read in whole milliseconds has passed it then.
        next.map(|at| self.clock.wall(at.saturating_sub(now)) + Duration::from_millis(1))
            .filter(|_| self.clock.runs())
    }

    /// Tells the doors how their hosts shall look.
    fn show_reach(&self) {
        let simulation = self.lock();
        for (name, wanted) in &self.wanted {
            let reach = simulation.world.nodes.get(name).map(|node| node.reach);
            wanted.send_if_modified(|shown| {
                let differs = reach.is_some_and(|reach| reach != *shown);
                *shown = reach.unwrap_or(*shown);
                differs
            });
        }
    }

    fn wire_time(&self, method: &str) -> Duration {
        self.latency.of(method, self.calls.fetch_add(1, Ordering::Relaxed))
    }

    fn note_call(&self, request: &Request, delivery: &Delivery, took: Duration) {
        if let Some(log) = &self.log {
            log.write(request, delivery, took);
        }
    }

    fn wall(&self, milliseconds: u64) -> Duration {
        self.clock.wall(milliseconds)
    }
}

/// A running simulator. Dropping it ends everything at once; [`Server::stop`] lets calls finish and saves the world.
pub struct Server {
    shared: Arc<Shared>,
    hosts: Vec<HostAddress>,
    factory: Option<SocketAddr>,
    authority: Authority,
    actual: BTreeMap<String, watch::Receiver<Reach>>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<Result<(), ServeError>>,
}

impl Server {
    /// Starts every host of the world. When this returns, they listen.
    pub async fn start(world: impl Into<Simulation>, settings: Settings) -> Result<Self, ServeError> {
        let Simulation { mut world, faults } = world.into();
        let Settings { latency, speed, port, addresses, keep, log, companion } = settings;
        let authority = authority_for(&world, keep.folder())?;
        let listeners = match addresses {
            Addresses::One => listen::on_own_ports(world.nodes.len(), port).await?,
            Addresses::Each => listen::at_own_addresses(world.nodes.len(), port).await?,
        };
        let doors: Vec<_> = listeners.into_iter().zip(world.nodes.keys().cloned()).collect();
        let factory = factory_door(&mut world, port, doors.len()).await?;
        let mut hosts = Vec::new();
        for ((_, address), name) in &doors {
            let (_, fingerprint) = authority.of(name)?;
            if let Some(node) = world.nodes.get_mut(name) {
                node.fingerprint.clone_from(&fingerprint);
                // Hosts that say they are on this machine are where they listen.
                let is_here = node.ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
                if is_here || addresses == Addresses::Each {
                    node.ip = address.ip().to_string();
                }
            }
            hosts.push(HostAddress { name: name.clone(), address: *address, fingerprint });
        }
        if let Some(folder) = keep.folder() {
            folder.save_access(&authority, world.starter_token().as_deref())?;
        }
        if let Some(folder) = keep.world() {
            folder.save_world(&world.save())?;
        }
        let wanted = world.nodes.iter().map(|(name, node)| (name.clone(), watch::Sender::new(node.reach)));
        let wanted: BTreeMap<String, watch::Sender<Reach>> = wanted.collect();
        let shared = Arc::new(Shared {
            clock: Clock::new(world.clock(), speed),
            simulation: Mutex::new(Simulation { world, faults }),
            latency: Latency::new(latency),
            companion,
            calls: AtomicU64::new(0),
            log,
            folder: keep.world().cloned(),
            changes: AtomicU64::new(0),
            saved: Arc::default(),
            changed: Notify::new(),
            stirred: Notify::new(),
            wanted,
            open: watch::Sender::new(0),
        });
        let mut server = Self {
            shared,
            hosts,
            factory: factory.as_ref().map(|(_, address)| *address),
            authority,
            actual: BTreeMap::new(),
            stop: watch::Sender::new(false),
            tasks: JoinSet::new(),
        };
        for ((listener, address), name) in doors {
            server.open(listener, address, name)?;
        }
        if let Some((listener, _)) = factory {
            let (shared, stop) = (Arc::clone(&server.shared), server.stop.subscribe());
            server.tasks.spawn(factory::run(listener, shared, stop));
        }
        server.save_changes();
        server.follow_hosts();
        Ok(server)
    }

    fn open(&mut self, listener: TcpListener, address: SocketAddr, name: String) -> Result<(), ServeError> {
        let (tls, _) = self.authority.of(&name)?;
        let no_host = || ServeError::NoHost { name: name.clone() };
        let wanted = self.shared.wanted.get(&name).ok_or_else(no_host)?.subscribe();
        let actual = watch::Sender::new(*wanted.borrow());
        self.actual.insert(name.clone(), actual.subscribe());
        let (shared, stop) = (Arc::clone(&self.shared), self.stop.subscribe());
        let door = Door { name, address, tls, shared, wanted, actual, stop };
        self.tasks.spawn(door.run(listener));
        Ok(())
    }

    /// Saves the world after changes, those too whose maker does not wait for it.
    fn save_changes(&mut self) {
        if self.shared.folder.is_none() {
            return;
        }
        let (shared, mut stop) = (Arc::clone(&self.shared), self.stop.subscribe());
        self.tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = shared.changed.notified() => {}
                    () = stopped(&mut stop) => return Ok(()),
                }
                shared.save(shared.changes.load(Ordering::SeqCst)).await?;
            }
        });
    }

    /// Shows hosts lost and booted at the time that is decided for it, whether anybody calls or not.
    fn follow_hosts(&mut self) {
        let (shared, mut stop) = (Arc::clone(&self.shared), self.stop.subscribe());
        self.tasks.spawn(async move {
            loop {
                let due = shared.let_hosts_change();
                let due = async {
                    match due {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = shared.stirred.notified() => {}
                    () = due => {}
                    () = stopped(&mut stop) => return Ok(()),
                }
            }
        });
    }

    pub fn hosts(&self) -> &[HostAddress] {
        &self.hosts
    }

    /// Where the simulated Image Factory listens: `http://127.0.0.1:PORT`.
    pub fn factory(&self) -> Option<String> {
        self.factory.map(|address| format!("http://{address}"))
    }

    /// The certificate of the authority that vouches for all hosts.
    pub fn authority(&self) -> &str {
        &self.authority.certificate
    }

    /// Looks at the world or changes it, and its fault plan, between two calls. Time has passed up to now.
    pub fn with<T>(&self, act: impl FnOnce(&mut Simulation) -> T) -> T {
        self.handle().change(|simulation, _| act(simulation))
    }

    /// A way in that others can have too.
    pub fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// How many calls came in so far, those a fault was for included.
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Waits until no connection is open.
    pub async fn quiet(&self) {
        // The sender lives as long as the server, so this cannot fail.
        let _ = self.shared.open.subscribe().wait_for(|open| *open == 0).await;
    }

    /// Moves the clock ahead.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
        self.shared.stirred.notify_one();
    }

    /// Takes a host down or brings it back. When this returns, clients see it so.
    pub async fn set_reach(&self, host: &str, reach: Reach) -> Result<(), ServeError> {
        let no_host = || ServeError::NoHost { name: host.to_owned() };
        let mut actual = self.actual.get(host).ok_or_else(no_host)?.clone();
        self.with(|simulation| simulation.set_reach(host, reach));
        self.shared.show_reach();
        // A door that is gone could not be opened again; whoever stops the server hears why.
        actual.wait_for(|shown| *shown == reach).await.map(drop).map_err(|_| no_host())
    }

    /// Serves until `end`, then stops; or until something fails.
    pub async fn run_until(mut self, end: impl Future<Output = ()>) -> Result<(), ServeError> {
        tokio::select! {
            () = end => {}
            Some(ended) = self.tasks.join_next() => {
                if let Ok(Err(error)) = ended {
                    return Err(error);
                }
            }
        }
        self.stop().await
    }

    /// Closes the doors, lets calls under way finish for a moment, and saves the world.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Err(error)) = ended {
                result = Err(error);
            }
        }
        self.with(|_| ());
        self.shared.save(self.shared.changes.load(Ordering::SeqCst)).await?;
        result
    }
}

/// Opens the factory's port, if the world has one: the next after those of the hosts, or any if that is taken.
async fn factory_door(
    world: &mut World,
    port: u16,
    hosts: usize,
) -> Result<Option<(TcpListener, SocketAddr)>, ServeError> {
    let Some(factory) = &mut world.factory else { return Ok(None) };
    let next = u16::try_from(hosts).ok().and_then(|hosts| port.checked_add(hosts)).filter(|_| port != 0);
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let opened = match listen::listen(at(next.unwrap_or_default())).await {
        Err(_) if next.is_some() => listen::listen(at(0)).await?,
        opened => opened?,
    };
    factory.listen_on(&opened.1.to_string());
    Ok(Some(opened))
}

fn authority_for(world: &World, folder: Option<&StateFolder>) -> Result<Authority, ServeError> {
    let saved = folder.map(StateFolder::load_authority).transpose()?.flatten();
    match saved.filter(|saved| saved.covers(world.nodes.keys())) {
        Some(saved) => Ok(saved),
        None => Authority::new(world.nodes.keys()),
    }
}

/// Waits until the server stops; gone is stopped too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
