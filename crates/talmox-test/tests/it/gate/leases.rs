//! One writer at a time, whatever their clocks say.

use std::time::Duration;

use talmox_exec::{ProcessHome, ProcessId};
use talmox_plan::{Goal, Request};

use crate::gate::bed::{Bed, described, healthy};

const MORE_MEMORY: &str = "proxmox_vm_controller_defaults: {memory: 6144}";
const FAR: i64 = 600;

async fn wishing_for_memory(seed: u64) -> Bed {
    let mut bed = Bed::new(seed, described(3, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed.settles().await;
    bed.desired = described(3, 0, MORE_MEMORY);
    bed
}

/// Who is alive renews its lease, and that is seen: the time in it says little to somebody whose clock is ten minutes ahead, and that of
/// somebody whose clock is behind looks as if it had run out long ago.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_off_takes_nobodys_lease() {
    for (seed, clocks) in [(61, [(3, FAR)]), (62, [(2, -FAR)])] {
        let mut bed = wishing_for_memory(seed).await;
        bed.clocks.extend(clocks);
        let request = healthy();
        let later = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            bed.converge(&request, 3).await
        };
        let (first, second) = tokio::join!(bed.converge(&request, 2), later);
        first.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
        let told = second.unwrap_err();
        assert!(told.contains("test-2"), "{told}");
        bed.is_healthy().await;
    }
}

/// What somebody left behind whose clock was a day ahead is in nobody's way for a day.
#[tokio::test(start_paused = true)]
async fn a_lease_from_the_future_is_watched_and_taken() {
    let mut bed = wishing_for_memory(63).await;
    bed.clocks.insert(2, 86_400);
    let request = healthy();
    {
        let run = std::pin::pin!(bed.converge(&request, 2));
        let killed = std::pin::pin!(tokio::time::sleep(Duration::from_secs(45)));
        futures_util::future::select(run, killed).await;
    }
    bed.converge(&request, 3)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    bed.is_healthy().await;
}

/// Begins a run and kills it when it holds the lease and has taken a node down.
async fn killed(bed: &Bed, number: u32) {
    let request = healthy();
    let run = std::pin::pin!(bed.converge(&request, number));
    let killed = std::pin::pin!(tokio::time::sleep(Duration::from_secs(45)));
    futures_util::future::select(run, killed).await;
}

/// Whether a run waited for the lease of another.
fn waited_for(bed: &Bed, other: &str) -> bool {
    bed.told.lines().iter().any(|line| line.contains(&format!("{other} to finish")))
}

fn home(namespace: u64) -> ProcessHome {
    ProcessHome { boot: "8c1f6a2b90d347e5".to_owned(), namespace }
}

fn process(namespace: u64, pid: u32) -> ProcessId {
    ProcessId { home: home(namespace), pid, started: 100 }
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_process_that_is_gone_from_this_machine_is_taken_at_once() {
    let mut bed = wishing_for_memory(67).await;
    bed.processes.runs = [(2, process(1, 7))].into();
    bed.processes.here = Some(home(1));
    killed(&bed, 2).await;
    bed.converge(&healthy(), 3).await.unwrap();
    assert!(!waited_for(&bed, "test-2"), "{}", bed.told.lines().join("\n"));
    bed.is_healthy().await;
}

/// Both are called alike, run under one kernel, and count their processes from 1: what one does not see may well run in the other.
#[tokio::test(start_paused = true)]
async fn a_run_in_another_container_with_the_same_host_name_keeps_its_lease() {
    let mut bed = wishing_for_memory(68).await;
    bed.processes.runs = [(2, process(1, 7)), (3, process(2, 7))].into();
    bed.processes.here = Some(home(2));
    let request = healthy();
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        bed.converge(&request, 3).await
    };
    let (first, second) = tokio::join!(bed.converge(&request, 2), later);
    first.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    let told = second.unwrap_err();
    assert!(told.contains("test-2 works on this cluster"), "{told}");
    assert!(waited_for(&bed, "test-2"));
    bed.is_healthy().await;
}

/// The clock of the server that keeps it says so, whatever those of the two runs say.
#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_a_whole_term_ago_is_taken_without_watching() {
    for (seed, clocks) in [(69, [(2, 0)]), (70, [(2, 86_400)]), (71, [(3, -FAR)])] {
        let mut bed = wishing_for_memory(seed).await;
        bed.clocks.extend(clocks);
        killed(&bed, 2).await;
        tokio::time::sleep(Duration::from_secs(241)).await;
        bed.converge(&healthy(), 3).await.unwrap();
        assert!(!waited_for(&bed, "test-2"), "{}", bed.told.lines().join("\n"));
        bed.is_healthy().await;
    }
}

/// Of one that ran out a moment ago the next run says how long ago it was written, and when the wait ends.
#[tokio::test(start_paused = true)]
async fn a_lease_that_just_ran_out_is_watched_and_the_wait_shows_its_end() {
    let bed = wishing_for_memory(72).await;
    killed(&bed, 2).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    let begun = tokio::time::Instant::now();
    bed.converge(&healthy(), 3).await.unwrap();
    let lines = bed.told.lines();
    let told: Vec<&String> = lines.iter().filter(|line| line.contains("test-2 to finish")).collect();
    assert!(told.iter().any(|line| line.contains("it last wrote 2 min ago")), "{told:#?}");
    assert!(begun.elapsed() > Duration::from_secs(45));
    bed.is_healthy().await;
}

fn destroy() -> Request {
    Request { goal: Goal::Destroy, ..Request::default() }
}

/// Nobody destroys what another is at work on, or keeps its members busy.
#[tokio::test(start_paused = true)]
async fn whoever_destroys_or_defragments_is_alone_too() {
    let bed = wishing_for_memory(64).await;
    let request = healthy();
    let others = async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let destroyed = bed.converge(&destroy(), 3).await;
        let defragmented = bed.defragment(4).await;
        (destroyed, defragmented)
    };
    let (first, (destroyed, defragmented)) = tokio::join!(bed.converge(&request, 2), others);
    first.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    assert!(destroyed.unwrap_err().contains("test-2 works on this cluster"));
    assert!(defragmented.unwrap_err().contains("test-2 works on this cluster"));
    assert_eq!(bed.lab.calls().asking("DELETE", "/qemu/").count(), 0);
    assert_eq!(bed.accepted("EtcdDefragment"), 0);
    bed.is_healthy().await;
    bed.defragment(4).await.unwrap();
    bed.converge(&destroy(), 3).await.unwrap();
}

/// There is nobody left to give a lease, and nobody is waited for.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_dead_is_destroyed_at_once() {
    let bed = wishing_for_memory(65).await;
    let client = bed.lab.root();
    // Two are off, and the third answers without a majority.
    for vmid in [2001, 2002] {
        let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(vmid), false).await.unwrap();
        bed.lab.done(&client, &task).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let begun = tokio::time::Instant::now();
    bed.converge(&destroy(), 3).await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(3), "{:?}", begun.elapsed());
    assert_eq!(bed.lab.calls().asking("DELETE", "/qemu/").count(), 3);
}

/// An etcd without space takes no lease, and is what defragmenting is for.
#[tokio::test(start_paused = true)]
async fn members_without_space_are_defragmented_all_the_same() {
    let bed = wishing_for_memory(66).await;
    let machine = bed.machine("10.0.7.12");
    bed.lab.nodes(|nodes| nodes.raise_alarm(machine));
    assert_eq!(bed.defragment(2).await.unwrap().len(), 3);
}
