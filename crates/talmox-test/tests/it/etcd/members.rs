//! Members that are looked at, and defragmented.

use talmox_talos::Alarm;
use talmox_test::{Fault, When};

use crate::etcd::snapshots::living;

#[tokio::test(start_paused = true)]
async fn members_are_defragmented_one_by_one_and_the_leader_last() {
    let bed = living(321, 3).await;
    let leader = bed.etcd().await.leader().unwrap().to_string();
    let order = bed.defragment(1).await.unwrap();
    assert_eq!(order.len(), 3);
    assert_eq!(order.last(), Some(&leader));
    assert_eq!(bed.accepted("EtcdDefragment"), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_defragmented_while_a_member_is_sick() {
    let bed = living(322, 3).await;
    let second = bed.machine("10.0.7.12");
    bed.lab.nodes(|nodes| nodes.lose_etcd(second));
    let error = bed.defragment(1).await.unwrap_err();
    assert!(error.contains("cp-2 is not well"), "{error}");
    assert_eq!(bed.accepted("EtcdDefragment"), 0);
    let etcd = bed.etcd().await;
    assert!(etcd.has_quorum());
    assert_eq!(etcd.lost(), ["cp-2"]);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_ends_it() {
    let bed = living(323, 3).await;
    bed.lab.plan(When::nth_talos("EtcdDefragment", 2), Fault::Refused);
    let error = bed.defragment(1).await.unwrap_err();
    assert!(error.contains("could not be defragmented"), "{error}");
    assert_eq!(bed.accepted("EtcdDefragment"), 1);
}

#[tokio::test(start_paused = true)]
async fn alarms_and_lost_quorum_are_seen() {
    let bed = living(324, 3).await;
    let machine = bed.machine("10.0.7.12");
    bed.lab.nodes(|nodes| nodes.raise_alarm(machine));
    let etcd = bed.etcd().await;
    let [(id, Alarm::NoSpace)] = etcd.alarms.as_slice() else { panic!("{:?}", etcd.alarms) };
    assert_eq!(etcd.name_of(*id), "cp-2");
    for address in ["10.0.7.12", "10.0.7.13"] {
        let machine = bed.machine(address);
        bed.lab.nodes(|nodes| nodes.lose_etcd(machine));
    }
    let etcd = bed.etcd().await;
    assert!(etcd.is_there() && !etcd.has_quorum(), "{etcd:?}");
    assert!(etcd.members.is_none());
}
