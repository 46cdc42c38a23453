//! What became of workers, by the clock: the log from which times are judged.

use serde::{Deserialize, Serialize};

use crate::world::World;

/// When a worker was what, in milliseconds since boot.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Times {
    /// The VM it makes, changes or removes.
    pub(crate) vmid: Option<u32>,
    pub(crate) spawned: u64,
    /// When it had every lock it wanted; none if it never got that far.
    pub(crate) entered: Option<u64>,
    pub(crate) ended: u64,
}

/// A worker that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    pub node: String,
    /// As in its UPID: `qmclone`, `qmstart`.
    pub kind: String,
    /// The VM it made, changed or removed; of a clone the new one.
    pub vmid: Option<u32>,
    /// `OK`, or why it failed.
    pub status: String,
    /// When it was begun, in milliseconds since boot.
    pub spawned: u64,
    pub ended: u64,
    /// How long it worked: its start and what came after it had its locks, not the waits between.
    pub worked: u64,
}

impl World {
    /// Workers that have ended, in the order they were begun.
    pub fn task_records(&self) -> Vec<TaskRecord> {
        let ended = self.tasks.iter().filter_map(|task| Some((task, task.status.clone()?)));
        ended
            .map(|(task, status)| TaskRecord {
                node: task.node.clone(),
                kind: task.kind.clone(),
                vmid: task.times.vmid,
                status,
                spawned: task.times.spawned,
                ended: task.times.ended,
                worked: task
                    .times
                    .entered
                    .map_or(0, |entered| self.timing.fork + task.times.ended.saturating_sub(entered)),
            })
            .collect()
    }

    /// How long the lock of each storage has been held, in milliseconds: of one that is not shared, on each host.
    pub fn storage_holds(&self) -> impl Iterator<Item = (&str, u64)> {
        self.storage_holds.iter().map(|(place, held)| (place.as_str(), *held))
    }
}

#[cfg(test)]
mod tests {
    use crate::starter::Starter;

    #[test]
    fn workers_and_locks_are_on_record() {
        let mut world = Starter::new(1, 7, 1_800_000_000_000).build().world;
        for id in ["100", "101"] {
            let form = [("vmid", id), ("scsi0", "local-zfs:1"), ("scsi1", "local-zfs:1")];
            world.root_call("POST", "/nodes/pve1/qemu", &form).unwrap();
        }
        world.advance_to(60_000);
        let records = world.task_records();
        assert_eq!(records.iter().map(|task| task.vmid).collect::<Vec<_>>(), [Some(100), Some(101)]);
        assert!(records.iter().all(|task| task.status == "OK" && task.kind == "qmcreate"), "{records:?}");
        let took = |index: usize| records[index].ended - records[index].spawned;
        assert_eq!(took(0), records[0].worked);
        assert!(took(1) > records[1].worked, "the second waited for the storage: {records:?}");
        assert_eq!(
            world.storage_holds().map(|(_, held)| held).collect::<Vec<_>>(),
            [4 * world.timing.per_disk]
        );
    }
}
