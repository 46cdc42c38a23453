//! Somebody who lives beside the world on its clock, and the way from outside to both.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::Value;

use super::Shared;
use crate::simulation::Simulation;
use crate::world::World;

/// Whoever simulates what runs in the machines of a world.
pub trait Companion: Send + Sync {
    /// Lets time pass for both until then, and hears what happened. Called before and after everything that is done to
    /// the world, while nobody else can do anything to it.
    fn follow(&self, world: &mut World, now: u64);

    /// What is saved with the world.
    fn save(&self) -> Value;
}

/// A way into a running simulator that others can have too.
#[derive(Clone)]
pub struct Handle(pub(super) Arc<Shared>);

impl Handle {
    /// Looks at the world between two calls, without changing it. Time has passed up to now.
    pub fn look<T>(&self, look: impl FnOnce(&mut Simulation, u64) -> T) -> T {
        let mut simulation = self.0.caught_up();
        let now = simulation.world.clock();
        look(&mut simulation, now)
    }

    /// Changes the world, or what lives beside it, between two calls.
    pub fn change<T>(&self, change: impl FnOnce(&mut Simulation, u64) -> T) -> T {
        let result = self.look(|simulation, now| {
            let result = change(simulation, now);
            self.0.follow(simulation, now);
            result
        });
        self.0.note_change();
        self.0.stirred.notify_one();
        result
    }

    /// Simulated milliseconds since the hosts booted.
    pub fn now(&self) -> u64 {
        self.0.clock.now()
    }

    /// How long until the clock shows this moment; none if it only moves when it is told.
    pub fn until(&self, moment: u64) -> Option<Duration> {
        let wait = self.0.clock.wall(moment.saturating_sub(self.0.clock.now()));
        // A moment more, so that a clock read in whole milliseconds has passed it then.
        self.0.clock.runs().then_some(wait + Duration::from_millis(1))
    }

    /// How long so many simulated milliseconds take.
    pub fn wall(&self, milliseconds: u64) -> Duration {
        self.0.clock.wall(milliseconds)
    }
}

impl Shared {
    /// The world as it is now.
    pub(super) fn caught_up(&self) -> MutexGuard<'_, Simulation> {
        let mut simulation = self.lock();
        let now = self.clock.now().max(simulation.world.clock());
        self.follow(&mut simulation, now);
        simulation.world.advance_to(now);
        simulation
    }

    pub(super) fn follow(&self, simulation: &mut Simulation, now: u64) {
        if let Some(companion) = &self.companion {
            let now = now.max(simulation.world.clock());
            companion.follow(&mut simulation.world, now);
        }
    }
}
