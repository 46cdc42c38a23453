//! Ports and addresses for the hosts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpListener;

use super::ServeError;

/// How often a port is tried that is free at one address and may not be at the others.
const TRIES: usize = 16;

/// A host's listener and where it listens.
pub(super) type Listening = (TcpListener, SocketAddr);

/// Each on a port of its own at one address.
pub(super) async fn on_own_ports(hosts: usize, port: u16) -> Result<Vec<Listening>, ServeError> {
    if port != 0 && hosts > usize::from(u16::MAX - port) + 1 {
        return Err(ServeError::Ports { port, hosts });
    }
    let mut listeners = Vec::new();
    for index in 0..hosts {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        let port = if port == 0 { 0 } else { port.saturating_add(index) };
        listeners.push(listen(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?);
    }
    Ok(listeners)
}

/// Each at an address of its own, all on one port.
pub(super) async fn at_own_addresses(hosts: usize, port: u16) -> Result<Vec<Listening>, ServeError> {
    let mut tried = together(hosts, port).await;
    for _ in 1..TRIES {
        match &tried {
            // Somebody has that port at another address: any other will do.
            Err(ServeError::Listen { source, .. })
                if port == 0 && source.kind() == io::ErrorKind::AddrInUse =>
            {
                tried = together(hosts, port).await;
            }
            _ => break,
        }
    }
    tried
}

async fn together(hosts: usize, mut port: u16) -> Result<Vec<Listening>, ServeError> {
    let mut listeners = Vec::new();
    for index in 0..hosts {
        let (listener, address) = listen(SocketAddr::from((own_address(index), port))).await?;
        port = address.port();
        listeners.push((listener, address));
    }
    Ok(listeners)
}

/// The address of a host by its place among the others: 127.0.0.1 and so on.
pub(super) fn own_address(index: usize) -> Ipv4Addr {
    let first = u32::from(Ipv4Addr::LOCALHOST);
    Ipv4Addr::from(first + u32::try_from(index).unwrap_or_default())
}

async fn listen(address: SocketAddr) -> Result<Listening, ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}
