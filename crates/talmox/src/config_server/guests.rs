//! Who is connected, and which connection has to make room for a new one.
//!
//! A connection costs its owner nothing, so there may be any number that never ask for anything. None of them may keep a machine from
//! its configuration: where there is no room the longest silent one is closed.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, Id};

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long TLS may take, and after it the head of the request.
    pub(super) opening: Duration,
    /// How long a connection may last.
    pub(super) whole: Duration,
    /// How many connections there may be.
    pub(super) at_once: usize,
    /// How many of them may be of one peer. Machines behind one gateway are one peer.
    pub(super) of_a_peer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { opening: Duration::from_secs(3), whole: Duration::from_secs(20), at_once: 128, of_a_peer: 32 }
    }
}

/// Whether a connection has sent a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Asked(Arc<AtomicBool>);

impl Asked {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Guest {
    peer: IpAddr,
    asked: Asked,
    task: AbortHandle,
}

/// The connections that are open, the oldest first.
#[derive(Default)]
pub(super) struct Guests(Vec<Guest>);

impl Guests {
    /// Closes a connection if there is no room for one more of this peer: one of the peer itself if it has too many, else any. The
    /// oldest goes that has asked for nothing, and if all have, the oldest.
    pub(super) fn make_room(&mut self, peer: IpAddr, limits: &Limits) {
        let peer = network(peer);
        let of_peer = |guest: &&Guest| guest.peer == peer;
        let leaving = if self.0.iter().filter(of_peer).count() >= limits.of_a_peer {
            self.oldest(|guest| guest.peer == peer)
        } else if self.0.len() >= limits.at_once {
            self.oldest(|_| true)
        } else {
            None
        };
        if let Some(index) = leaving {
            self.0.remove(index).task.abort();
        }
    }

    fn oldest(&self, may_go: impl Fn(&Guest) -> bool) -> Option<usize> {
        let candidates = || self.0.iter().enumerate().filter(|(_, guest)| may_go(guest));
        let silent = candidates().find(|(_, guest)| !guest.asked.is_set());
        silent.or_else(|| candidates().next()).map(|(index, _)| index)
    }

    pub(super) fn add(&mut self, peer: IpAddr, asked: Asked, task: AbortHandle) {
        self.0.push(Guest { peer: network(peer), asked, task });
    }

    /// A connection has ended.
    pub(super) fn remove(&mut self, task: Id) {
        self.0.retain(|guest| guest.task.id() != task);
    }
}

/// What is counted as one peer: an IPv4 address, or the 64 bits of an IPv6 network, in which a machine takes any address it likes.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_addresses_is_one_peer() {
        let same = |one: &str, other: &str| network(one.parse().unwrap()) == network(other.parse().unwrap());
        assert!(same("10.0.0.1", "::ffff:10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
    }

    /// Peers of the connections that are left after each of these came; `*` marks those that ask.
    fn left(arrivals: &[&str], limits: Limits) -> Vec<String> {
        let mut guests = Guests::default();
        let mut tasks = tokio::task::JoinSet::new();
        for arrival in arrivals {
            let (peer, asks) = arrival.strip_suffix('*').map_or((*arrival, false), |peer| (peer, true));
            let (peer, asked) = (peer.parse().unwrap(), Asked::default());
            guests.make_room(peer, &limits);
            let task = tasks.spawn(std::future::pending::<()>());
            guests.add(peer, asked.clone(), task);
            if asks {
                asked.set();
            }
        }
        guests.0.iter().map(|guest| guest.peer.to_string()).collect()
    }

    #[tokio::test]
    async fn silent_connections_make_room_first() {
        let limits = Limits { at_once: 3, of_a_peer: 2, ..Limits::default() };
        assert_eq!(
            left(&["1.1.1.1", "1.1.1.1", "1.1.1.1", "2.2.2.2"], limits),
            ["1.1.1.1", "1.1.1.1", "2.2.2.2"]
        );
        let full = ["1.1.1.1*", "2.2.2.2", "3.3.3.3", "4.4.4.4"];
        assert_eq!(left(&full, limits), ["1.1.1.1", "3.3.3.3", "4.4.4.4"]);
        let all_ask = ["1.1.1.1*", "2.2.2.2*", "3.3.3.3*", "4.4.4.4"];
        assert_eq!(left(&all_ask, limits), ["2.2.2.2", "3.3.3.3", "4.4.4.4"]);
        // A peer with too many loses its own, whatever the others do.
        let greedy = ["2.2.2.2", "1.1.1.1", "1.1.1.1*", "1.1.1.1"];
        assert_eq!(left(&greedy, limits), ["2.2.2.2", "1.1.1.1", "1.1.1.1"]);
    }
}
