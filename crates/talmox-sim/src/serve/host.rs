//! A host's door: open, closed, or leading nowhere.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{ServeError, Shared, connection, stopped};
use crate::world::Reach;

/// What is under way when the server stops has this long to be answered.
const GRACE: Duration = Duration::from_millis(500);
/// After a connection that could not be taken: too many files are open, most likely.
const PAUSE: Duration = Duration::from_millis(50);

/// A port that was just closed is free again long before.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that may wait to be taken.
const BACKLOG: u32 = 1024;

pub(super) struct Door {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    pub(super) tls: Arc<ServerConfig>,
    pub(super) shared: Arc<Shared>,
    /// How the host shall look.
    pub(super) wanted: watch::Receiver<Reach>,
    /// How it looks.
    pub(super) actual: watch::Sender<Reach>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Door {
    /// Serves until the server stops. Everything it starts ends with it.
    pub(super) async fn run(mut self, listener: TcpListener) -> Result<(), ServeError> {
        let mut listener = Some(listener);
        while !*self.stop.borrow() {
            let reach = *self.wanted.borrow_and_update();
            if reach == Reach::ProxyDown {
                // The port stays ours, so that nobody else is found there meanwhile and it can be opened again.
                drop(listener.take());
                let closed = self.reserve().await.map_err(|error| self.taken(error))?;
                self.actual.send_replace(reach);
                self.change().await;
                listener = Some(closed.listen(BACKLOG).map_err(|error| self.taken(error))?);
            } else if let Some(open) = &listener {
                self.actual.send_replace(reach);
                self.accept(open, reach).await;
            }
        }
        Ok(())
    }

    /// Takes the port without listening, so that connections are refused. A process that is just being started has the
    /// listener open for a moment longer than we have.
    async fn reserve(&self) -> io::Result<TcpSocket> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.bind() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                bound => return bound,
            }
        }
    }

    fn bind(&self) -> io::Result<TcpSocket> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.address)?;
        Ok(socket)
    }

    fn taken(&self, source: io::Error) -> ServeError {
        ServeError::Listen { address: self.address, source }
    }

    async fn change(&mut self) {
        tokio::select! {
            _ = self.wanted.changed() => {}
            () = stopped(&mut self.stop) => {}
        }
    }

    /// Takes connections until the host shall look otherwise or the server stops.
    async fn accept(&self, listener: &TcpListener, reach: Reach) {
        let mut connections = JoinSet::new();
        let mut silent = Vec::new();
        let (mut wanted, mut stop) = (self.wanted.clone(), self.stop.clone());
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) if reach == Reach::Up => self.spawn(&mut connections, stream),
                    // Nothing answers on a link that is gone; loopback cannot do worse than stay silent.
                    Ok((stream, _)) => silent.push(stream),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
                _ = wanted.changed() => break,
                () = stopped(&mut stop) => {
                    let _ = tokio::time::timeout(GRACE, async { while connections.join_next().await.is_some() {} }).await;
                    break;
                }
            }
        }
        connections.shutdown().await;
    }

    fn spawn(&self, connections: &mut JoinSet<()>, stream: TcpStream) {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
        let (shared, host, stop) = (Arc::clone(&self.shared), self.name.clone(), self.stop.clone());
        connections.spawn(connection::serve(stream, acceptor, shared, host, stop));
    }
}
