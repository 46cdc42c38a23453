//! A host's door: open, closed, or leading nowhere.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{ServeError, Shared, connection, stopped};
use crate::world::Reach;

/// What is under way when the server stops has this long to be answered.
const GRACE: Duration = Duration::from_millis(500);
/// After a connection that could not be taken: too many files are open, most likely.
const PAUSE: Duration = Duration::from_millis(50);

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
            let open = match (reach, listener.take()) {
                (Reach::ProxyDown, _) => None,
                (_, Some(open)) => Some(open),
                (_, None) => Some(TcpListener::bind(self.address).await.map_err(|error| self.taken(error))?),
            };
            self.actual.send_replace(reach);
            match &open {
                Some(open) => self.accept(open, reach).await,
                None => self.change().await,
            }
            listener = open;
        }
        Ok(())
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
