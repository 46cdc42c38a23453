//! The file lock of a VM's configuration: one writer or many readers, and a queue of workers that wait.

use serde::{Deserialize, Serialize};

use crate::tasks::TaskId;
use crate::world::World;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileLock {
    pub(crate) holders: Vec<TaskId>,
    pub(crate) exclusive: bool,
    pub(crate) waiters: Vec<(TaskId, bool)>,
}

/// How long workers and calls wait for the lock, in milliseconds.
pub(crate) const LOCK_WAIT: u64 = 10_000;

pub(crate) fn lock_text(vmid: u32, cause: &str) -> String {
    format!("can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - {cause}")
}

impl World {
    /// Takes the lock or queues for it.
    pub(crate) fn try_lock(&mut self, vmid: u32, task: TaskId, exclusive: bool) -> bool {
        let lock = self.locks.entry(vmid).or_default();
        let free = lock.holders.is_empty() || (!lock.exclusive && !exclusive);
        if free {
            lock.holders.push(task);
            lock.exclusive = exclusive;
        } else {
            lock.waiters.push((task, exclusive));
        }
        free
    }

    /// Gives up the lock and returns the workers that hold it now.
    pub(crate) fn unlock(&mut self, vmid: u32, task: TaskId) -> Vec<TaskId> {
        let Some(lock) = self.locks.get_mut(&vmid) else { return Vec::new() };
        lock.waiters.retain(|(waiter, _)| *waiter != task);
        lock.holders.retain(|holder| *holder != task);
        let mut granted = Vec::new();
        while lock.holders.is_empty()
            || (!lock.exclusive && lock.waiters.first().is_some_and(|(_, own)| !own))
        {
            if lock.waiters.is_empty() {
                break;
            }
            let (next, exclusive) = lock.waiters.remove(0);
            lock.holders.push(next);
            lock.exclusive = exclusive;
            granted.push(next);
        }
        if lock.holders.is_empty() {
            self.locks.remove(&vmid);
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_queue() {
        let mut world = World::new(1, 0);
        assert!(world.try_lock(100, 1, false) && world.try_lock(100, 2, false));
        assert!(!world.try_lock(100, 3, true) && !world.try_lock(100, 4, true));
        assert!(world.unlock(100, 1).is_empty());
        assert_eq!(world.unlock(100, 2), [3]);
        assert_eq!(world.unlock(100, 3), [4]);
        assert!(world.unlock(100, 4).is_empty() && world.locks.is_empty());
    }
}
