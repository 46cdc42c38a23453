//! A snapshot before what is risky.

use talmox_plan::Request;
use talmox_talos::Code;
use talmox_test::{Fault, When};

use crate::etcd::bed::{Bed, described, healthy, snapshot_plan};

pub(crate) async fn living(seed: u64, controllers: usize) -> Bed {
    let bed = Bed::new(seed, described(controllers, 0, ""));
    bed.converge(&healthy(), 1).await.unwrap();
    bed
}

fn kept(bed: &Bed) -> usize {
    bed.handed.snapshots.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_whole_one_is_kept() {
    let bed = living(301, 3).await;
    bed.carry_out(&snapshot_plan(&bed), &healthy(), 2).await.unwrap();
    assert_eq!(kept(&bed), 1);
    let etcd = bed.etcd().await;
    let (leader, chosen) = (etcd.leader().unwrap(), talmox_exec::etcd::choose(&etcd, false).unwrap());
    assert_ne!(leader, chosen, "a follower has less to do");
}

#[tokio::test(start_paused = true)]
async fn one_that_is_cut_off_is_not_kept_and_nothing_follows() {
    let bed = living(302, 1).await;
    for fault in [Fault::ReplyShortened, Fault::ReplyLost, Fault::status(Code::Unknown, "read error")] {
        bed.lab.plan(When::talos("EtcdSnapshot"), fault.clone());
        let error = bed.carry_out(&snapshot_plan(&bed), &healthy(), 2).await.unwrap_err();
        assert!(error.contains("could not take a snapshot of etcd"), "{fault:?}: {error}");
        assert_eq!(kept(&bed), 0, "{fault:?}");
    }
    bed.carry_out(&snapshot_plan(&bed), &healthy(), 3).await.unwrap();
    assert_eq!(kept(&bed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sick_member_is_not_asked() {
    let bed = living(303, 3).await;
    let first = bed.machine("10.0.7.11");
    bed.lab.nodes(|nodes| nodes.lose_etcd(first));
    bed.carry_out(&snapshot_plan(&bed), &Request::default(), 2).await.unwrap();
    assert_eq!(kept(&bed), 1);
    let second = bed.machine("10.0.7.12");
    bed.lab.nodes(|nodes| nodes.lose_etcd(second));
    // What is left has no quorum: nobody knows what is agreed upon.
    let etcd = bed.etcd().await;
    assert_eq!(talmox_exec::etcd::choose(&etcd, false), None);
    // Whoever asks for it all the same gets what the last one knows.
    assert_eq!(talmox_exec::etcd::choose(&etcd, true).map(ToString::to_string), Some("cp-3".to_owned()));
}
