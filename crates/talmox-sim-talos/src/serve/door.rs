//! One port of one address: closed, or open with a certificate that changes as the node does.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::tls::Refusal;
use super::{Api, ServeError, Shared, grpc, kube, stopped, tls};
use crate::Listener;

/// A port that was just closed is free again long before.
const PATIENCE: Duration = Duration::from_secs(5);
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(50);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that may wait to be taken.
const BACKLOG: u32 = 128;

pub(super) struct Door {
    shared: Arc<Shared>,
    address: IpAddr,
    api: Api,
    real: SocketAddr,
    port: Option<Port>,
    /// Those of now, and those whose last calls are being answered.
    connections: JoinSet<()>,
    /// How many connections there were.
    taken: u64,
}

/// A port that is ours.
enum Port {
    /// Connections to it are refused.
    Closed(TcpSocket),
    /// They wait to be taken.
    Open(TcpListener),
}

/// What a connection is served with.
#[derive(Clone)]
struct Opening {
    listener: Listener,
    tls: Arc<ServerConfig>,
    /// The same, for a connection that ends without an alert if the client is refused.
    silent: Arc<ServerConfig>,
}

/// Whether the connection of this number is one that ends without an alert: about half of them are, the same in every run.
fn ends_silently(number: u64) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1
}

impl Door {
    /// Takes the port: the real one within loopback, any other at 127.0.0.1. If the node has it open it is open at once: whoever
    /// was told where it is may come before anybody runs this.
    pub(super) async fn reserve(shared: Arc<Shared>, address: IpAddr, api: Api) -> Result<Self, ServeError> {
        let wanted = if address.is_loopback() {
            SocketAddr::new(address, api.port())
        } else {
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
        };
        let failed = |source| ServeError::Listen { address: wanted, source };
        let closed = bind(wanted).await.map_err(failed)?;
        let real = closed.local_addr().map_err(failed)?;
        let mut door = Self { shared, address, api, real, port: None, connections: JoinSet::new(), taken: 0 };
        door.port = Some(match door.opening() {
            Some(_) => Port::Open(closed.listen(BACKLOG).map_err(failed)?),
            None => Port::Closed(closed),
        });
        Ok(door)
    }

    pub(super) fn real(&self) -> SocketAddr {
        self.real
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), ServeError> {
        let address = self.real;
        let failed = move |source| ServeError::Listen { address, source };
        let mut changes = self.shared.beside.changes();
        while !*stop.borrow() {
            changes.mark_unchanged();
            if let Some(opening) = self.opening() {
                let listener = match self.port.take() {
                    Some(Port::Open(listener)) => listener,
                    Some(Port::Closed(closed)) => closed.listen(BACKLOG).map_err(failed)?,
                    None => bind(self.real).await.and_then(|port| port.listen(BACKLOG)).map_err(failed)?,
                };
                self.accept(listener, opening, &mut changes, &mut stop).await;
                self.port = Some(Port::Closed(bind(self.real).await.map_err(failed)?));
            } else {
                if let Some(Port::Open(listener)) = self.port.take_if(|port| matches!(port, Port::Open(_))) {
                    drop(listener);
                    self.port = Some(Port::Closed(bind(self.real).await.map_err(failed)?));
                }
                tokio::select! {
                    _ = changes.changed() => {}
                    () = stopped(&mut stop) => {}
                }
            }
        }
        Ok(())
    }

    fn listener(&self) -> Listener {
        let nodes = self.shared.beside.nodes();
        match self.api {
            Api::Talos => nodes.listener(self.address),
            Api::Kubernetes => nodes.kube_listener(self.address),
        }
    }

    /// Whether only certificates or authorities are others. An API server of Kubernetes restarts for that.
    fn renews(&self, before: &Listener, now: &Listener) -> bool {
        let secure = |listener: &Listener| matches!(listener, Listener::Secure { .. });
        self.api == Api::Talos && secure(before) && secure(now)
    }

    fn opening(&self) -> Option<Opening> {
        let listener = self.listener();
        let old = self.shared.beside.nodes().takes_old_tls(self.address);
        let configuration = |refusal| {
            let clock = tls::LaterClock(Arc::clone(&self.shared.beside));
            tls::configuration(&listener, (self.api, refusal), old, clock).map(Arc::new)
        };
        let tls = configuration(Refusal::Alert)?;
        // An API server of Kubernetes refuses in HTTP, not in TLS.
        let silent = match self.api {
            Api::Talos => configuration(Refusal::Silent)?,
            Api::Kubernetes => Arc::clone(&tls),
        };
        Some(Opening { listener, tls, silent })
    }

    /// Takes connections as long as the node shows what it showed at first. Then those it has are told to end: calls
    /// under way are answered, others are not taken.
    ///
    /// Talos shows another certificate without closing anything: whoever is connected stays so, even a client it would not
    /// take any more.
    async fn accept(
        &mut self,
        listener: TcpListener,
        mut opening: Opening,
        changes: &mut watch::Receiver<u64>,
        stop: &mut watch::Receiver<bool>,
    ) {
        let open = watch::Sender::new(());
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let caller = Caller { shared: Arc::clone(&self.shared), address: self.address, open: open.subscribe() };
                        self.taken += 1;
                        let silent = ends_silently(self.taken);
                        self.connections.spawn(serve(caller, (self.api, silent), stream, opening.clone()));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = self.connections.join_next() => {}
                _ = changes.changed() => {
                    let now = self.listener();
                    if now == opening.listener {
                        continue;
                    }
                    match self.opening() {
                        Some(renewed) if self.renews(&opening.listener, &now) => opening = renewed,
                        _ => break,
                    }
                }
                () = stopped(stop) => break,
            }
        }
    }
}

/// What a connection works with.
pub(super) struct Caller {
    pub(super) shared: Arc<Shared>,
    pub(super) address: IpAddr,
    /// Gone when the door closes.
    open: watch::Receiver<()>,
}

impl Caller {
    /// Waits until the door closes.
    pub(super) async fn closed(&mut self) {
        while self.open.changed().await.is_ok() {}
    }
}

/// What is under way when a door closes has this long to be answered.
pub(super) const GRACE: Duration = Duration::from_millis(500);

async fn serve(caller: Caller, (api, silent): (Api, bool), stream: TcpStream, opening: Opening) {
    // Small replies wait for nothing.
    let _ = stream.set_nodelay(true);
    let settings = if silent { &opening.silent } else { &opening.tls };
    let accepting = TlsAcceptor::from(Arc::clone(settings)).accept(stream);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, accepting).await else { return };
    let peer =
        tls::peer(stream.get_ref().1, &opening.listener, &tls::LaterClock(Arc::clone(&caller.shared.beside)));
    if api == Api::Talos && tls::is_refused(&peer, &opening.listener) {
        return;
    }
    match api {
        Api::Talos => grpc::serve(caller, peer, stream).await,
        Api::Kubernetes => kube::serve(caller, peer, stream).await,
    }
}

/// Takes a port without listening. A process that is just being started holds it open for a moment longer.
async fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match try_bind(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            bound => return bound,
        }
    }
}

fn try_bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}
