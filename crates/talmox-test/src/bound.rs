//! The least time a piece of work can take, from what the simulator has on record of it.
//!
//! Whoever does the same work with the same calls cannot be faster than the greatest of three: the VM with the longest way
//! of its own, the storage whose lock is held longest, and the host with the most to do. The last holds only for who lets a
//! host do no more than so many tasks of any kind at once; who lets small ones pass has the starts of VMs as a limit still.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use talmox_sim::{TaskRecord, World};

use crate::CallLog;

/// Times below which the work cannot be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// The longest way of one VM: what its tasks worked, and the round trips that begin them, see their end, and change
    /// what needs no task.
    pub chain: Duration,
    /// The longest time one storage was locked to make volumes, one after the other.
    pub storage: Duration,
    /// What the tasks of one host worked, divided by how many may at once.
    pub host: Duration,
    /// The same for those that start VMs.
    pub starts: Duration,
}

impl Bound {
    /// The least time if every task takes one of the host's turns.
    pub fn least(&self) -> Duration {
        let Self { chain, storage, host, starts: _ } = *self;
        chain.max(storage).max(host)
    }

    /// The least time if only starts do.
    pub fn least_of_starts(&self) -> Duration {
        let Self { chain, storage, host: _, starts } = *self;
        chain.max(storage).max(starts)
    }

    /// How many times as long a run took.
    pub fn ratio(&self, took: Duration) -> f64 {
        took.as_secs_f64() / self.least().as_secs_f64()
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { chain, storage, host, starts } = self;
        write!(
            f,
            "longest VM {:.2} s, longest locked storage {:.2} s, busiest host {:.2} s, of which starts {:.2} s",
            chain.as_secs_f64(),
            storage.as_secs_f64(),
            host.as_secs_f64(),
            starts.as_secs_f64()
        )
    }
}

/// What is known of a world at some time, so that only what came after is judged.
#[derive(Clone, Debug, Default)]
pub struct Before {
    tasks: usize,
    holds: BTreeMap<String, u64>,
    calls: usize,
}

impl Before {
    /// What was on record before a piece of work.
    pub fn of(world: &World, calls: &CallLog) -> Self {
        let holds = world.storage_holds().map(|(place, held)| (place.to_owned(), held)).collect();
        Self { tasks: world.task_records().len(), holds, calls: calls.len() }
    }

    /// The least time of everything since: `workers` tasks may run on a host at once, and no round trip takes less than
    /// `trip`.
    pub fn bound(&self, world: &World, calls: &CallLog, workers: usize, trip: Duration) -> Bound {
        let tasks = world.task_records().split_off(self.tasks);
        let held = |(place, held): (&str, u64)| held - self.holds.get(place).copied().unwrap_or_default();
        Bound {
            chain: longest_chain(&tasks, &changes(calls, self.calls), trip),
            storage: Duration::from_millis(world.storage_holds().map(held).max().unwrap_or_default()),
            host: busiest_host(&tasks, workers),
            starts: busiest_host(tasks.iter().filter(|task| task.kind == "qmstart"), workers),
        }
    }
}

/// How often the configuration of each VM was changed without a task.
fn changes(calls: &CallLog, skip: usize) -> BTreeMap<u32, u32> {
    let mut changes = BTreeMap::new();
    for call in calls.iter().skip(skip).filter(|call| call.method == "PUT" && call.status() == Some(200)) {
        let vmid = call.path.split("/qemu/").nth(1).and_then(|rest| rest.split('/').next()?.parse().ok());
        if let Some(vmid) = vmid {
            *changes.entry(vmid).or_default() += 1;
        }
    }
    changes
}

fn longest_chain(tasks: &[TaskRecord], changes: &BTreeMap<u32, u32>, trip: Duration) -> Duration {
    let mut chains: BTreeMap<u32, Duration> = BTreeMap::new();
    for (vmid, times) in changes {
        *chains.entry(*vmid).or_default() += trip * *times;
    }
    for task in tasks {
        if let Some(vmid) = task.vmid {
            *chains.entry(vmid).or_default() += Duration::from_millis(task.worked) + trip * 2;
        }
    }
    chains.into_values().max().unwrap_or_default()
}

fn busiest_host<'a>(tasks: impl IntoIterator<Item = &'a TaskRecord>, workers: usize) -> Duration {
    let mut hosts: BTreeMap<&str, Duration> = BTreeMap::new();
    for task in tasks {
        *hosts.entry(&task.node).or_default() += Duration::from_millis(task.worked);
    }
    let busiest = hosts.into_values().max().unwrap_or_default();
    busiest / u32::try_from(workers.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(20);

    fn task(node: &str, vmid: u32, worked: u64) -> TaskRecord {
        TaskRecord {
            node: node.to_owned(),
            kind: "qmstart".to_owned(),
            vmid: Some(vmid),
            status: "OK".to_owned(),
            spawned: 0,
            // Long waits for locks are no work.
            ended: worked + 5_000,
            worked,
        }
    }

    #[test]
    fn the_longest_vm_counts_its_tasks_and_trips() {
        let tasks = [task("a", 1, 100), task("b", 2, 300), task("a", 1, 150)];
        let changes = BTreeMap::from([(1, 3), (2, 1)]);
        // 100 + 150 and seven trips; 300 and three trips.
        assert_eq!(longest_chain(&tasks, &changes, TRIP), Duration::from_millis(390));
        assert_eq!(longest_chain(&tasks, &changes, Duration::ZERO), Duration::from_millis(300));
        assert_eq!(longest_chain(&[], &BTreeMap::new(), TRIP), Duration::ZERO);
    }

    #[test]
    fn the_busiest_host_shares_its_work() {
        let tasks = [task("a", 1, 100), task("a", 2, 300), task("b", 3, 350)];
        assert_eq!(busiest_host(&tasks, 1), Duration::from_millis(400));
        assert_eq!(busiest_host(&tasks, 4), Duration::from_millis(100));
        assert_eq!(busiest_host(&tasks, 0), Duration::from_millis(400), "nothing at once would never end");
    }

    #[test]
    fn the_greatest_of_the_three_binds() {
        let seconds = Duration::from_secs;
        let bound = Bound { chain: seconds(2), storage: seconds(5), host: seconds(4), starts: seconds(3) };
        assert_eq!((bound.least(), bound.least_of_starts()), (seconds(5), seconds(5)));
        let quick = Bound { storage: seconds(1), ..bound };
        assert_eq!((quick.least(), quick.least_of_starts()), (seconds(4), seconds(3)));
        assert!((bound.ratio(seconds(6)) - 1.2).abs() < 1e-9);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_before_does_not_count() {
        let lab = crate::Lab::one_host(1);
        let client = lab.client();
        lab.template(&client, crate::vmid(9000)).await;
        let calls = lab.calls();
        let before = lab.world(|world| Before::of(world, &calls));
        let nothing = lab.world(|world| before.bound(world, &calls, 4, TRIP));
        assert_eq!(nothing, Bound::default());
        lab.template(&client, crate::vmid(9001)).await;
        let calls = lab.calls();
        let bound = lab.world(|world| before.bound(world, &calls, 4, TRIP));
        let timing = lab.world(|world| world.timing.clone());
        // Three volumes are made, and two of them become base images.
        assert_eq!(bound.storage, Duration::from_millis(5 * timing.per_disk));
        assert!(bound.chain > bound.host && bound.host > Duration::ZERO, "{bound}");
    }
}
