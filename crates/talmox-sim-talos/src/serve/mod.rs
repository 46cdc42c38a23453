//! Nodes on sockets: gRPC for the Talos API, HTTPS for Kubernetes.
//!
//! ```text
//!  talmox_sim::serve::Server ── Companion ──▶ Beside (the nodes, on the world's clock)
//!                                                │ changed
//!                 │ files that machines want ─▶ fetch.rs ─▶ web servers on loopback
//!  NodesServer ─ keeper ─ Door per address and port ─ connections ─ grpc.rs, kube.rs ─▶ Nodes::call, Nodes::kube
//! ```
//!
//! An address within 127.0.0.0/8 is bound for real, on the ports of Talos and Kubernetes. Any other is found at loopback by
//! [`NodesServer::dial`].

mod beside;
mod door;
mod fetch;
mod grpc;
mod kube;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use talmox_sim::serve::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

pub use beside::Beside;
use door::Door;

use crate::{Fetched, Wanted};

/// Where Talos listens.
pub const TALOS_PORT: u16 = 50_000;
/// Where Talos has the Kubernetes API unless told otherwise.
pub const KUBERNETES_PORT: u16 = 6443;

/// Which of a node's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    Talos,
    Kubernetes,
}

impl Api {
    fn port(self) -> u16 {
        match self {
            Self::Talos => TALOS_PORT,
            Self::Kubernetes => KUBERNETES_PORT,
        }
    }
}

/// Why nodes cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not listen on {address}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// What all doors work on.
pub(crate) struct Shared {
    pub(crate) handle: Handle,
    pub(crate) beside: Arc<Beside>,
    /// Where each API of each address really is.
    doors: Mutex<BTreeMap<(IpAddr, Api), SocketAddr>>,
}

impl Shared {
    fn doors(&self) -> MutexGuard<'_, BTreeMap<(IpAddr, Api), SocketAddr>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A door that was opened for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub address: IpAddr,
    pub api: Api,
    /// Where it really is.
    pub real: SocketAddr,
}

/// Nodes that can be reached over sockets. Dropping it closes everything.
pub struct NodesServer {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<Result<(), ServeError>>,
    opened: mpsc::UnboundedReceiver<Opened>,
}

impl NodesServer {
    /// Opens doors for these addresses at once, and for others when a node has them.
    pub async fn start(
        handle: Handle,
        beside: Arc<Beside>,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Self, ServeError> {
        let shared = Arc::new(Shared { handle, beside, doors: Mutex::default() });
        let stop = watch::Sender::new(false);
        let (tell, opened) = mpsc::unbounded_channel();
        let mut keeper = Keeper {
            shared: Arc::clone(&shared),
            stop: stop.subscribe(),
            doors: JoinSet::new(),
            asked: BTreeSet::new(),
            fetches: JoinSet::new(),
            tell,
        };
        for address in addresses {
            keeper.open(address).await?;
        }
        let mut tasks = JoinSet::new();
        tasks.spawn(keeper.run());
        Ok(Self { shared, stop, tasks, opened })
    }

    /// The next door that was opened, in order. None once everything has stopped.
    pub async fn opened(&mut self) -> Option<Opened> {
        self.opened.recv().await
    }

    /// Where an API of an address really is, as far as a door was opened for it.
    pub fn dial(&self, api: Api) -> BTreeMap<IpAddr, SocketAddr> {
        let doors = self.shared.doors();
        let of_api = doors.iter().filter(|((_, of), _)| *of == api);
        of_api.map(|((address, _), real)| (*address, *real)).collect()
    }

    /// Closes all doors. The error is the first thing that went wrong with one of them.
    pub async fn stop(mut self) -> Result<(), ServeError> {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Err(error)) = ended {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Opens doors, and lets time pass for nodes whether anybody calls or not.
struct Keeper {
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    doors: JoinSet<Result<(), ServeError>>,
    /// Files that are being fetched.
    asked: BTreeSet<Wanted>,
    fetches: JoinSet<(Wanted, Fetched)>,
    tell: mpsc::UnboundedSender<Opened>,
}

impl Keeper {
    async fn run(mut self) -> Result<(), ServeError> {
        let mut changed = self.shared.beside.changes();
        loop {
            let (addresses, next, wanted) = self.shared.handle.look(|_, _| {
                let nodes = self.shared.beside.nodes();
                (nodes.addresses(), nodes.next_event(), nodes.wanted())
            });
            changed.mark_unchanged();
            self.fetch(wanted);
            for (address, _) in addresses {
                self.open(address).await?;
            }
            let due = next.and_then(|at| self.shared.handle.until(at));
            let due = async {
                match due {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changed.changed() => {}
                () = due => {}
                Some(ended) = self.doors.join_next() => {
                    if let Ok(Err(error)) = ended {
                        return Err(error);
                    }
                }
                Some(Ok((wanted, fetched))) = self.fetches.join_next() => self.deliver(&wanted, fetched),
                () = stopped(&mut self.stop) => break,
            }
        }
        self.fetches.shutdown().await;
        self.doors.shutdown().await;
        Ok(())
    }

    /// Asks web servers for what machines want, once for each file.
    fn fetch(&mut self, wanted: Vec<Wanted>) {
        for one in wanted {
            if self.asked.insert(one.clone()) {
                let trusts = self.shared.beside.trusts();
                self.fetches.spawn(async move {
                    let fetched = fetch::fetch(&one.url, &trusts).await;
                    (one, fetched)
                });
            }
        }
    }

    fn deliver(&mut self, wanted: &Wanted, fetched: Fetched) {
        self.asked.remove(wanted);
        self.shared.handle.change(|_, now| self.shared.beside.nodes().fetched(wanted, fetched, now));
        self.shared.beside.stir();
    }

    /// Opens both doors of an address, if they are not there yet.
    async fn open(&mut self, address: IpAddr) -> Result<(), ServeError> {
        for api in [Api::Talos, Api::Kubernetes] {
            if self.shared.doors().contains_key(&(address, api)) {
                continue;
            }
            let door = Door::reserve(Arc::clone(&self.shared), address, api).await?;
            self.shared.doors().insert((address, api), door.real());
            // Nobody has to listen.
            let _ = self.tell.send(Opened { address, api, real: door.real() });
            self.doors.spawn(door.run(self.stop.clone()));
        }
        Ok(())
    }
}

/// Waits until everything stops; gone is stopped too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}
