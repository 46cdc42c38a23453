//! An etcd or a kubelet that does not come up: images that are missing, programs that cannot start, clocks that are wrong.

use std::time::Duration;

use talmox_exec::Summary;
use talmox_plan::{SeenEtcd, Step};
use talmox_sim_talos::{MachineId, Trouble};
use talmox_types::{BootstrapWord, Mark};

use crate::bringup::bed::{Bed, described, healthy};

const FIRST: MachineId = MachineId(2000);
const ETCD: &str = "registry.k8s.io/etcd";
const KUBELET: &str = "ghcr.io/siderolabs/kubelet";

fn crashes(bed: &Bed, service: &str) {
    bed.lab.nodes(|nodes| nodes.faults.trouble(FIRST, Trouble::Crashes(service.to_owned())));
}

fn bootstrap_word(bed: &Bed) -> Option<BootstrapWord> {
    let dump = bed.lab.world(|world| world.dump());
    Mark::of_description(&dump.vms[&2000].config["description"]).unwrap().bootstrap
}

fn got_there(end: Result<Summary, String>, bed: &Bed) {
    end.unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
}

/// The run waits for etcd as long as it may, says what it waits for, and leaves no word behind that etcd was begun.
async fn stands_still(bed: &Bed, said: &[&str]) {
    let begun = bed.now();
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("cp-1 at 10.0.7.11: waited 15 min for etcd to run"), "{error}");
    assert!(bed.now() - begun >= 900, "it gave up after {} s", bed.now() - begun);
    for words in said {
        assert!(error.contains(words), "{words}: {error}");
        assert!(bed.told.lines().iter().any(|line| line.contains(words)), "{words} was not told");
    }
    assert!(!error.contains("forgotten"), "{error}");
    assert_eq!(bed.etcd_clusters(), 0);
    assert_eq!(bootstrap_word(bed).map(|word| word.done), Some(false));
}

#[tokio::test(start_paused = true)]
async fn programs_that_cannot_start_are_no_bootstrap_that_was_forgotten() {
    let bed = Bed::new(141, described(1, 0, ""));
    crashes(&bed, "etcd");
    crashes(&bed, "kubelet");
    stands_still(&bed, &["Error running Containerd(etcd), going to restart forever"]).await;
    // What was begun is gone on with, not begun anew.
    bed.lab.nodes(|nodes| nodes.faults.mend(FIRST));
    got_there(bed.converge(&healthy(), 2).await, &bed);
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1);
}

#[tokio::test(start_paused = true)]
async fn images_that_are_missing_are_waited_for_by_name_of_the_service() {
    let bed = Bed::new(142, described(3, 1, ""));
    for image in [ETCD, KUBELET] {
        bed.lab.nodes(|nodes| nodes.missing_images.insert(image.to_owned()));
    }
    stands_still(&bed, &["Running pre state", "kubelet is Preparing"]).await;
    bed.lab.nodes(|nodes| nodes.missing_images.clear());
    got_there(bed.converge(&healthy(), 2).await, &bed);
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1);
}

#[tokio::test(start_paused = true)]
async fn images_that_come_late_are_gone_on_with_in_the_same_run() {
    for (seed, missing) in (143..).zip([&[ETCD][..], &[KUBELET], &[ETCD, KUBELET]]) {
        let bed = Bed::new(seed, described(1, 1, ""));
        for image in missing {
            bed.lab.nodes(|nodes| nodes.missing_images.insert((*image).to_owned()));
        }
        let appear = async {
            tokio::time::sleep(Duration::from_mins(6)).await;
            bed.lab.nodes(|nodes| nodes.missing_images.clear());
        };
        let wanted = healthy();
        let (end, ()) = futures_util::future::join(bed.converge(&wanted, 1), appear).await;
        got_there(end, &bed);
        bed.is_healthy().await;
        assert_eq!((bed.etcd_clusters(), bed.accepted("Bootstrap")), (1, 1), "{missing:?}");
    }
}

/// Looks fall into the moments in which the process of etcd is there, too.
#[tokio::test(start_paused = true)]
async fn an_etcd_that_comes_and_goes_without_data_is_no_member() {
    let bed = Bed::new(146, described(1, 0, ""));
    crashes(&bed, "etcd");
    let request = healthy();
    let work = bed.converge(&request, 1);
    drop(tokio::time::timeout(Duration::from_mins(4), work).await);
    assert_eq!(bootstrap_word(&bed).map(|word| word.done), Some(false));
    let node = "cp-1".parse().unwrap();
    let mut ran = 0;
    for _ in 0..80 {
        tokio::time::sleep(Duration::from_millis(137)).await;
        let observed = bed.look(&healthy()).await;
        let seen = observed.talos[&node].configured().unwrap_or_else(|| panic!("{:?}", observed.talos));
        assert_eq!(seen.etcd, Some(SeenEtcd::Empty));
        ran += usize::from(seen.services["etcd"].state == "Running");
        let plan = bed.plan(&healthy()).await;
        let records = |step: &Step| matches!(step, Step::RecordBootstrap { .. });
        assert!(!plan.steps.iter().any(|planned| records(&planned.step)), "{plan:#?}");
    }
    assert!(ran > 0, "no look fell into a moment in which its process was there");
}

/// A machine that restarts right after the call has forgotten it, and is bootstrapped again.
#[tokio::test(start_paused = true)]
async fn a_machine_that_restarts_before_etcd_has_data_is_bootstrapped_again() {
    let bed = Bed::new(147, described(1, 0, ""));
    for image in [ETCD, KUBELET] {
        bed.lab.nodes(|nodes| nodes.missing_images.insert(image.to_owned()));
    }
    let restarts = async {
        while bed.accepted("Bootstrap") == 0 {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        bed.lab.nodes(|nodes| nodes.reset(FIRST));
        tokio::time::sleep(Duration::from_mins(2)).await;
        bed.lab.nodes(|nodes| nodes.missing_images.clear());
    };
    let wanted = healthy();
    let (end, ()) = futures_util::future::join(bed.converge(&wanted, 1), restarts).await;
    got_there(end, &bed);
    bed.is_healthy().await;
    assert_eq!(bed.etcd_clusters(), 1);
    assert!(bed.accepted("Bootstrap") > 1, "the machine was not asked again");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_wrong_is_named() {
    let bed = Bed::new(148, described(1, 0, ""));
    bed.lab.nodes(|nodes| nodes.faults.trouble(FIRST, Trouble::ClockOff));
    let error = bed.converge(&healthy(), 1).await.unwrap_err();
    assert!(error.contains("waited 10 min for a machine that can be bootstrapped"), "{error}");
    let told = bed.told.lines().join("\n");
    assert!(told.contains("time is not in sync yet"), "{told}");
    assert!(!told.contains("Bootstrap on 10.0.7.11: no answer within"), "{told}");
}
