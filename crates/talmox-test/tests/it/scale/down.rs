//! Nodes the description does not name any more.

use talmox_plan::NoteKind;
use talmox_test::{Fault, When};

use crate::scale::bed::healthy;
use crate::scale::support::*;

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_and_is_forgotten() {
    let mut bed = living(61, 1, 2).await;
    bed.desired = without(&bed.desired, &["worker-2"]);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty(), "nobody asked: {plan:#?}");
    let plan = bed.plan(&removing(&["worker-2"])).await;
    assert_eq!(
        steps(&plan),
        [
            "worker-2/drain",
            "worker-2/retire",
            "worker-2/stop",
            "worker-2/remove",
            "worker-2/forget",
            "await-health",
        ]
    );
    carried_out(&bed, &removing(&["worker-2"]), 2).await;
    bed.is_healthy().await;
    assert_eq!(known(&bed).await.1, set(&["cp-1", "worker-1"]));
    assert_eq!((bed.accepted("Reset"), bed.accepted("EtcdLeaveCluster")), (1, 0));
    let plan = bed.plan(&removing(&["worker-2"])).await;
    assert!(plan.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn five_control_planes_become_three_one_after_the_other() {
    let mut bed = living(62, 5, 0).await;
    bed.desired = without(&bed.desired, &["cp-4", "cp-5"]);
    let request = talmox_plan::Request { prune: true, ..healthy() };
    let plan = bed.plan(&request).await;
    let second = plan.steps.iter().find(|step| step.id.as_str() == "cp-5/drain").unwrap();
    assert!(second.needs.iter().any(|need| need.as_str() == "cp-4/forget"), "{second:?}");
    carried_out(&bed, &request, 2).await;
    bed.is_healthy().await;
    assert_eq!((bed.accepted("EtcdLeaveCluster"), bed.accepted("EtcdRemoveMemberByID")), (2, 0));
    assert_eq!(known(&bed).await, (set(&["cp-1", "cp-2", "cp-3"]), set(&["cp-1", "cp-2", "cp-3"])));
}

#[tokio::test(start_paused = true)]
async fn from_three_to_two_is_done_with_a_word_and_to_none_refused() {
    let mut bed = living(63, 3, 0).await;
    let three = bed.desired.clone();
    bed.desired = without(&three, &["cp-3"]);
    let plan = bed.plan(&removing(&["cp-3"])).await;
    let note = plan.notes.iter().find(|note| note.kind == NoteKind::Warning).unwrap();
    assert_eq!(
        note.text,
        "2 members of etcd are left, which bear the loss of 0, as 1 would: odd numbers are better"
    );
    carried_out(&bed, &removing(&["cp-3"]), 2).await;
    bed.is_healthy().await;
    // Only one is described, and it is new: nobody who has the data would be left.
    bed.desired = without(&three, &["cp-1", "cp-2"]);
    let plan = bed.plan(&removing(&["cp-1", "cp-2"])).await;
    assert!(
        problems(&plan).iter().any(|problem| problem.contains("the cluster's data would go with it")),
        "{plan:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_only_control_plane_is_not_replaced() {
    let bed = living(64, 1, 1).await;
    let plan = bed.plan(&replacing(&["cp-1"])).await;
    assert!(problems(&plan)[0].contains("the cluster's data would go with it"), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_leave_whose_reply_is_lost_is_not_repeated() {
    for fault in [Fault::ReplyLost, Fault::Hang { reached: true }] {
        let mut bed = living(65, 3, 0).await;
        bed.desired = without(&bed.desired, &["cp-3"]);
        bed.lab.plan(When::nth_talos("EtcdLeaveCluster", 1), fault);
        carried_out(&bed, &removing(&["cp-3"]), 2).await;
        bed.is_healthy().await;
        let asked = bed.lab.calls();
        assert_eq!(asked.asking("CALL", "EtcdLeaveCluster").count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_off_goes_and_its_member_is_removed() {
    let mut bed = living(66, 3, 0).await;
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2002), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.desired = without(&bed.desired, &["cp-3"]);
    let plan = bed.plan(&removing(&["cp-3"])).await;
    assert_eq!(steps(&plan), ["snapshot-etcd", "cp-3/remove", "cp-3/forget", "await-health"]);
    carried_out(&bed, &removing(&["cp-3"]), 2).await;
    bed.is_healthy().await;
    assert_eq!((bed.accepted("EtcdLeaveCluster"), bed.accepted("EtcdRemoveMemberByID")), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_would_take_the_majority_along_stays() {
    let mut bed = living(67, 3, 0).await;
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2001), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.desired = without(&bed.desired, &["cp-3"]);
    let plan = bed.plan(&removing(&["cp-3"])).await;
    assert_eq!(
        problems(&plan),
        ["without it 1 of 2 members of etcd would be well, which is no majority: cp-2 has to be well first"]
    );
}

/// Every member's data is gone: whoever comes then must not begin anew.
async fn is_never_begun_again(bed: &crate::scale::bed::Bed) {
    let machines: Vec<_> =
        bed.control_planes().into_values().map(|at| bed.machine(&at.to_string())).collect();
    bed.lab.nodes(|nodes| machines.iter().for_each(|machine| nodes.lose_etcd(*machine)));
    tokio::time::sleep(std::time::Duration::from_mins(1)).await;
    let error = bed.converge(&healthy(), 9).await.unwrap_err();
    assert!(error.contains("this cluster was bootstrapped before"), "{error}");
    assert_eq!((bed.accepted("Bootstrap"), bed.etcd_clusters()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn that_the_cluster_was_begun_outlives_the_node_it_began_on() {
    let mut bed = living(68, 3, 0).await;
    bed.desired = without(&bed.desired, &["cp-1"]);
    let plan = bed.plan(&removing(&["cp-1"])).await;
    assert!(steps(&plan).contains(&"cp-2/record-bootstrap"), "{plan:#?}");
    let removal = plan.steps.iter().find(|step| step.id.as_str() == "cp-1/remove").unwrap();
    assert!(removal.needs.iter().any(|need| need.as_str() == "cp-2/record-bootstrap"), "{removal:?}");
    carried_out(&bed, &removing(&["cp-1"]), 2).await;
    assert!(bed.plan(&healthy()).await.is_empty());
    is_never_begun_again(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn that_the_cluster_was_begun_outlives_nodes_that_are_built_anew() {
    let bed = living(69, 3, 0).await;
    carried_out(&bed, &replacing(&["cp-1", "cp-2", "cp-3"]), 2).await;
    assert!(bed.plan(&healthy()).await.is_empty());
    is_never_begun_again(&bed).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_answers_is_not_forgotten_whoever_has_its_vm() {
    let mut bed = living(70, 3, 0).await;
    // Proxmox does not list its VM any more though it runs, and somebody has deleted the node from Kubernetes.
    bed.lab.world(|world| {
        world.remove_vm(2002);
        world.take_power();
    });
    bed.desired = without(&bed.desired, &["cp-3"]);
    bed.kubernetes_at("10.0.7.11").delete_node("cp-3", None).await.unwrap();
    let error = bed.converge(&removing(&["cp-3"]), 2).await.unwrap_err();
    assert!(error.contains("still answers at 10.0.7.13, so it is not gone"), "{error}");
    assert_eq!(bed.accepted("EtcdRemoveMemberByID"), 0);
}

/// Somebody has deleted its VM: its member is removed for the new one to join, and that cannot be taken back either.
#[tokio::test(start_paused = true)]
async fn a_dead_member_is_removed_after_a_snapshot() {
    let mut bed = living(71, 3, 0).await;
    let client = bed.lab.root();
    let task = client.stop_vm(&talmox_test::host(1), talmox_test::vmid(2002), false).await.unwrap();
    bed.lab.done(&client, &task).await.unwrap();
    bed.lab.world(|world| world.remove_vm(2002));
    let plan = bed.plan(&healthy()).await;
    assert_eq!(steps(&plan)[..2], ["snapshot-etcd", "cp-3/forget"]);
    let place = bed.desired.talos.etcd_backup.take();
    let plan = bed.plan(&healthy()).await;
    assert!(problems(&plan)[0].contains("nothing says where a snapshot"), "{plan:#?}");
    bed.desired.talos.etcd_backup = place;
    carried_out(&bed, &healthy(), 2).await;
    bed.is_healthy().await;
    assert_eq!(bed.handed.snapshots.lock().unwrap().len(), 1);
}

/// Where nobody asks the machines no control plane leaves.
#[tokio::test(start_paused = true)]
async fn a_member_does_not_leave_by_its_vm_alone() {
    let mut bed = living(72, 3, 1).await;
    let vms = crate::scale::bed::until(talmox_plan::Until::Vms);
    let request = talmox_plan::Request { replace: names(&["cp-2"]), ..vms.clone() };
    let error = bed.converge(&request, 2).await.unwrap_err();
    assert!(error.contains("would not take its leave from etcd"), "{error}");
    bed.desired = without(&bed.desired, &["cp-3"]);
    let request = talmox_plan::Request { remove: names(&["cp-3"]), ..vms };
    let error = bed.converge(&request, 3).await.unwrap_err();
    assert!(error.contains("would not take its leave from etcd"), "{error}");
    assert!(bed.lab.calls().asking("DELETE", "/qemu/").next().is_none());
}
