//! Workers that are away keep the others up, in whatever run that is.

use std::time::Duration;

use futures_util::future::Either;
use talmox_types::desired::Power;

use crate::upgrade::bed::Bed;
use crate::upgrade::cluster::{NEW, OLD, behind, is_upgraded, machine, request, told, versions, watched};

/// Somebody at Proxmox restarts the VM of a node.
async fn restarted(bed: &Bed, node: &str) {
    let (client, vmid) = (bed.lab.root(), talmox_test::vmid(machine(bed, node).0));
    let host = talmox_test::host(1);
    let task = client.stop_vm(&host, vmid, false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    let task = client.start_vm(&host, vmid).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
}

/// What each node runs: without the `v`, or `silent`.
async fn runs(bed: &Bed) -> Vec<String> {
    let versions = versions(&bed.look(&request()).await);
    versions.into_values().map(|version| version.trim_start_matches('v').to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_run_does_not_go_on_to_the_next_worker() {
    let bed = behind(31, (1, 3)).await;
    // Its VM is on, and nothing answers: a bad image, or an earlier run.
    bed.lab.nodes(|nodes| nodes.power_off(machine(&bed, "worker-2")));
    tokio::time::sleep(Duration::from_mins(2)).await;
    for number in [2, 3] {
        let stopped = bed.attempt(&request(), number).await.unwrap_err();
        assert!(
            stopped.words.contains("worker-1, worker-3 stay up: worker-2 is away"),
            "{}\n{}",
            stopped.words,
            told(&bed)
        );
        assert!(stopped.hints.iter().any(|hint| hint.contains("--replace worker-2")), "{:?}", stopped.hints);
        assert!(stopped.hints.iter().any(|hint| hint.contains("--max-unavailable 2")), "{:?}", stopped.hints);
        assert_eq!(runs(&bed).await, [NEW, OLD, "silent", OLD], "all else was done");
    }
    restarted(&bed, "worker-2").await;
    watched(&bed, &request(), 4).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_says_that_more_may_be_away_is_heard() {
    let bed = behind(32, (1, 3)).await;
    bed.lab.nodes(|nodes| nodes.power_off(machine(&bed, "worker-2")));
    tokio::time::sleep(Duration::from_mins(2)).await;
    let mut more = request();
    more.upkeep.max_unavailable = std::num::NonZeroUsize::new(2);
    let before = bed.told.lines().len();
    watched(&bed, &more, 2).await.unwrap_err();
    assert_eq!(runs(&bed).await, [NEW, NEW, "silent", NEW], "{}", told(&bed));
    // Two may be away, and one of them is worker-2: the others go one by one.
    let lines = bed.told.lines().split_off(before);
    let at =
        |line: &str| lines.iter().position(|one| one == line).unwrap_or_else(|| panic!("{line}: {lines:#?}"));
    assert!(at("worker-1/return done") < at("worker-3/drain begins"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_dies_in_the_middle_keeps_up_whoever_is_not_down_yet() {
    // While an installer works nothing has gone down.
    let cases = [
        ("worker-1/upgrade-node begins", "worker-1, worker-2 stay up", [NEW, OLD, OLD, "silent"]),
        ("worker-1/return begins", "worker-2 stays up", [NEW, NEW, OLD, "silent"]),
    ];
    for (seed, (moment, who, left)) in (33..).zip(cases) {
        let bed = behind(seed, (1, 3)).await;
        let dies = async {
            while !bed.told.lines().iter().any(|line| line == moment) {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            bed.lab.nodes(|nodes| nodes.power_off(machine(&bed, "worker-3")));
        };
        let (end, ()) = futures_util::future::join(watched(&bed, &request(), 2), dies).await;
        let error = end.unwrap_err();
        assert!(error.contains(&format!("{who}: worker-3 is away")), "{moment}: {error}\n{}", told(&bed));
        assert_eq!(runs(&bed).await, left, "{moment}: {}", told(&bed));
        restarted(&bed, "worker-3").await;
        watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
        is_upgraded(&bed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_described_as_stopped_keeps_nobody_up_and_is_not_waited_for() {
    let mut bed = behind(35, (1, 2)).await;
    bed.desired.nodes[2].vm.power = Power::Stopped;
    watched(&bed, &request(), 2).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    assert_eq!(runs(&bed).await, [NEW, NEW], "{}", told(&bed));
    let plan = bed.plan(&request()).await;
    assert!(plan.is_empty(), "{plan:#?}");
    // Back again it gets what the others have.
    bed.desired.nodes[2].vm.power = Power::Running;
    watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
    is_upgraded(&bed).await;
}

/// Lets a run die as soon as it has told this.
async fn killed_at(bed: &Bed, moment: &str, number: u32) {
    let told = async {
        while !bed.told.lines().iter().any(|line| line == moment) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let request = request();
    let run = std::pin::pin!(watched(bed, &request, number));
    match futures_util::future::select(run, std::pin::pin!(told)).await {
        Either::Left((end, _)) => panic!("it ended before {moment}: {end:?}\n{}", self::told(bed)),
        Either::Right(((), _)) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_killed_run_the_next_one_goes_only_when_the_one_before_is_back() {
    // Upgraded and not seen well; and closed before anything was done to it.
    let cases = [
        ("worker-1/return begins", "worker-1", ["worker-2", "worker-3"]),
        ("worker-2/upgrade-node begins", "worker-2", ["worker-3", "worker-3"]),
        ("cp-3/return begins", "cp-3", ["cp-2", "cp-1"]),
    ];
    for (seed, (moment, closed, others)) in (36..).zip(cases) {
        let bed = behind(seed, if closed == "cp-3" { (3, 1) } else { (1, 3) }).await;
        killed_at(&bed, moment, 2).await;
        let before = bed.told.lines().len();
        watched(&bed, &request(), 3).await.unwrap_or_else(|error| panic!("{error}\n{}", told(&bed)));
        let lines = bed.told.lines().split_off(before);
        let at = |line: &str| lines.iter().position(|one| one == line);
        let back = at(&format!("{closed}/return done"));
        assert!(back.is_some(), "{moment}: {lines:#?}");
        for other in others {
            let goes = at(&format!("{other}/drain begins"));
            assert!(goes.is_none() || back < goes, "{moment}: {other} goes first\n{lines:#?}");
        }
        is_upgraded(&bed).await;
    }
}
