//! What leaves a cluster that lives, and what has to come before that.

use talmox_plan::{Depth, Goal};
use talmox_types::desired::EtcdBackup;

use super::*;

fn backed_up(control_planes: u8, workers: u8) -> Desired {
    let mut desired = desired(control_planes, workers);
    desired.talos.etcd_backup = Some(EtcdBackup { dir: "etcd-backup".to_owned(), age: Vec::new(), keep: 7 });
    desired
}

fn without(desired: &Desired, node: &str) -> Desired {
    let mut fewer = desired.clone();
    fewer.nodes.retain(|one| one.name.as_str() != node);
    fewer
}

fn replacing(node: &str) -> Request {
    Request { replace: [name(node)].into(), ..until(Until::Vms) }
}

/// Its member would stay in etcd, dead, and nobody would have asked the others.
#[test]
fn a_control_plane_stays_where_nobody_asks_etcd() {
    let all = desired(3, 1);
    let fewer = without(&all, "cp-3");
    let observed = living(&all);
    let remove = Request { remove: [name("cp-3")].into(), ..until(Until::Vms) };
    let prune = Request { prune: true, ..until(Until::Vms) };
    for (desired, request, words) in [
        (&all, replacing("cp-2"), "and not join again"),
        (&fewer, remove.clone(), "may be a control plane"),
        (&fewer, prune, "may be a control plane"),
    ] {
        let plan = planned(desired, &observed, &request);
        assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
        assert!(problems(&plan)[0].contains(words), "{:?}", problems(&plan));
    }
    // Before there was an etcd nobody misses anything; and whatever made the plan, it is not carried out on one that lives.
    let fresh = running(&all);
    for (desired, request) in [(&all, replacing("cp-2")), (&fewer, remove)] {
        let plan = planned(desired, &fresh, &request);
        assert!(plan.refusals.is_empty() && !plan.steps.is_empty(), "{plan:#?}");
        assert!(check(&plan, desired, &fresh, &request).is_empty());
        let caught = check(&plan, desired, &observed, &request);
        assert!(caught.iter().any(|found| found.rule == Rule::OneAtATime), "{caught:#?}");
    }
}

#[test]
fn what_a_worker_leaves_behind_where_nobody_is_asked_is_said() {
    let desired = desired(3, 1);
    let observed = living(&desired);
    let plan = planned(&desired, &observed, &replacing("w-1"));
    assert!(plan.refusals.is_empty() && steps(&plan)[0].starts_with("w-1/stop"), "{plan:#?}");
    assert!(
        plan.notes.iter().any(|note| note.text.contains("keeps the Node of the old machine")),
        "{plan:#?}"
    );
}

/// The mark of the VM that etcd was begun on tells it from a worker where no machine is asked.
#[test]
fn a_mark_that_etcd_was_begun_is_no_workers() {
    let mut desired = desired(3, 1);
    let mut observed = living(&desired);
    desired.nodes[0].role = Role::Worker;
    edit(&mut observed, 2000, |config| drop(config.set("memory", "1024")));
    let request = Request { allow_reboot: true, ..until(Until::Vms) };
    let plan = planned(&desired, &observed, &request);
    assert!(plan.steps.is_empty(), "{:?}", steps(&plan));
    assert!(problems(&plan)[0].contains("its vote in etcd would be lost"), "{:?}", problems(&plan));
    let destroy = Request { goal: Goal::Destroy, targets: [name("cp-1")].into(), ..Request::default() };
    let plan = planned(&desired, &observed, &destroy);
    assert!(problems(&plan)[0].contains("take its leave from etcd first"), "{:?}", problems(&plan));
}

/// Somebody has removed the VM of a node by hand.
fn without_the_vm_of(desired: &Desired, node: &str) -> Observed {
    let mut observed = living(desired);
    observed.depth = Depth::Everything;
    let vmid = vmid_of(desired, node);
    observed.guests.retain(|one, _| one.get() != vmid);
    observed.talos.remove(&name(node));
    let SeenKubernetes::Answers(cluster) = &mut observed.kubernetes else { panic!() };
    cluster.nodes.get_mut(node).unwrap().ready = false;
    observed
}

#[test]
fn a_dead_member_is_removed_after_a_snapshot() {
    let desired = backed_up(3, 0);
    let observed = without_the_vm_of(&desired, "cp-3");
    let plan = planned(&desired, &observed, &healthy());
    assert_eq!(steps(&plan)[0], "snapshot-etcd create");
    assert!(
        steps(&plan).contains(&"cp-3/forget change_live after snapshot-etcd".to_owned()),
        "{:?}",
        steps(&plan)
    );
    // Without a place for it the plan says what it lacks.
    let nowhere = super::desired(3, 0);
    let plan = planned(&nowhere, &observed, &healthy());
    assert!(problems(&plan)[0].contains("nothing says where a snapshot"), "{:?}", problems(&plan));
    let mut unwanted = healthy();
    unwanted.upkeep.no_snapshot = true;
    let without = planned(&nowhere, &observed, &unwanted);
    assert!(without.refusals.is_empty(), "{:?}", problems(&without));
    let caught = check(&without, &nowhere, &observed, &healthy());
    assert!(caught.iter().any(|found| found.rule == Rule::SnapshotFirst), "{caught:#?}");
}

/// What Kubernetes alone still lists takes no vote along.
#[test]
fn a_node_that_etcd_does_not_list_needs_no_snapshot() {
    let desired = desired(3, 1);
    let observed = without_the_vm_of(&desired, "w-1");
    let plan = planned(&desired, &observed, &healthy());
    assert!(plan.refusals.is_empty(), "{:?}", problems(&plan));
    assert!(steps(&plan)[0].starts_with("w-1/forget"), "{:?}", steps(&plan));
}
