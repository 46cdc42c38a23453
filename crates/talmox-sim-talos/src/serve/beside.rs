//! Nodes beside a world: its server lets them follow everything it does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize as _;
use serde_json::Value;
use talmox_sim::World;
use talmox_sim::serve::Companion;
use tokio::sync::watch;

use crate::{Nodes, proxmox};

/// The nodes in a world's machines, and whether something happened to them.
pub struct Beside {
    nodes: Mutex<Nodes>,
    changes: watch::Sender<u64>,
    /// Authorities, as PEM, that machines trust when they fetch their configuration.
    trusts: Mutex<String>,
}

/// Nodes hold secrets: only that they are there is shown.
impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl Beside {
    pub fn new(nodes: Nodes) -> Self {
        Self { nodes: Mutex::new(nodes), changes: watch::Sender::new(0), trusts: Mutex::default() }
    }

    /// The nodes that were saved along with a world, or none yet. What cannot be read is no reason to lose the world. They stay with
    /// it too: until they are saved again, whoever saves the world saves them as they were.
    pub fn of_world(world: &World, seed: u64) -> Self {
        let saved = world.beside.as_ref().and_then(|saved| Nodes::deserialize(saved).ok());
        Self::new(saved.unwrap_or_else(|| Nodes::for_world(world, seed)))
    }

    /// The nodes as they were when somebody last looked. Time passes for them only through the world's server.
    pub fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has machines trust these authorities, as PEM, when they fetch their configuration; they begin with none.
    pub fn trust(&self, authorities: &str) {
        authorities.clone_into(&mut self.trusts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn trusts(&self) -> String {
        self.trusts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Tells whoever waits to look again.
    pub(crate) fn stir(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Companion for Beside {
    fn follow(&self, world: &mut World, now: u64) {
        let mut nodes = self.nodes();
        let before = nodes.next_event();
        // A machine may be switched on and have booted within one step of a fast clock: then there is no next event before
        // or after, and something happened all the same.
        let happened = proxmox::advance(world, &mut nodes, now) || nodes.next_event() != before;
        drop(nodes);
        if happened {
            self.stir();
        }
    }

    fn save(&self) -> Value {
        serde_json::to_value(&*self.nodes()).unwrap_or_default()
    }
}
