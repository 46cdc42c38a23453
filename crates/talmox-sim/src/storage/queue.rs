//! The lock of a storage, under which volumes are made: one at a time, cluster-wide where the storage is shared.
//!
//! Its holders are served in the order they came. How long each holds it is known beforehand, so the queue is no more than
//! the time when the last in it will be done.

use std::collections::BTreeMap;

use super::Storage;
use crate::locks::LOCK_WAIT;
use crate::world::World;

/// How many volumes are to be made on each storage.
pub(crate) type Allocations = BTreeMap<String, u64>;

/// When somebody's turn comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// At that time; the storage that is waited for.
    At(u64, String),
    /// Not within the time anybody waits: the storage, and when that is given up.
    Never(u64, String),
}

impl Storage {
    /// What a worker says that got no turn, or was interrupted while it waited.
    fn lock_text(&self, cause: &str) -> String {
        match (self.shared, cause) {
            (false, _) => {
                format!("can't lock file '/var/lock/pve-manager/pve-storage-{}' - {cause}", self.id)
            }
            (true, "got timeout") => {
                format!("cfs-lock 'storage-{}' error: got lock request timeout", self.id)
            }
            (true, _) => format!("cfs-lock 'storage-{}' error: {cause}", self.id),
        }
    }
}

impl World {
    pub(crate) fn storage_lock_text(&self, id: &str, cause: &str) -> String {
        self.storage(id).map_or_else(|text| text, |storage| storage.lock_text(cause))
    }

    /// What a worker says while it waits for so many milliseconds.
    pub(crate) fn waiting_lines(&self, id: &str, wait: u64) -> Vec<String> {
        let shared = self.storage(id).is_ok_and(|storage| storage.shared);
        let line = if shared {
            format!("trying to acquire cfs lock 'storage-{id}' ...")
        } else {
            "trying to acquire lock...".to_owned()
        };
        // The cluster's lock is asked for every second.
        let times = if shared { usize::try_from(wait.div_ceil(1000)).unwrap_or(1) } else { 1 };
        vec![line; times]
    }

    fn storage_place(&self, node: &str, id: &str) -> String {
        self.volume_key(node, &format!("{id}:"))
    }

    /// Queues for the locks of all these storages.
    pub(crate) fn queue_for(&mut self, node: &str, wanted: &Allocations) -> Turn {
        let busy = |world: &Self, id: &str| {
            let until = world.storage_locks.get(&world.storage_place(node, id)).copied();
            until.unwrap_or_default().max(world.clock)
        };
        let slowest = wanted.keys().map(|id| (busy(self, id), id.clone())).max();
        let Some((start, id)) = slowest else { return Turn::Now };
        if start - self.clock > LOCK_WAIT {
            return Turn::Never(self.clock + LOCK_WAIT, id);
        }
        let hold = self.timing.per_disk;
        for (id, volumes) in wanted {
            let place = self.storage_place(node, id);
            *self.storage_holds.entry(place.clone()).or_default() += volumes * hold;
            self.storage_locks.insert(place, start + volumes * hold);
        }
        if start == self.clock { Turn::Now } else { Turn::At(start, id) }
    }

    /// Until when one of the storages is busy, if it is.
    pub(crate) fn storages_busy(&self, node: &str, wanted: &Allocations) -> Option<(u64, String)> {
        let busy = wanted.keys().filter_map(|id| {
            let until = self.storage_locks.get(&self.storage_place(node, id)).copied()?;
            (until > self.clock).then(|| (until, id.clone()))
        });
        busy.max()
    }
}
