//! Clusters that begin with a snapshot.

use talmox_k8s::{Apply, Manifest};
use talmox_plan::{Goal, Request, Step, Upkeep};
use talmox_talos::ResetPlan;
use talmox_test::{Fault, When};

use crate::etcd::bed::{Bed, healthy};
use crate::etcd::snapshots::living;

/// A cluster with something in it, its snapshot, and then nothing.
pub(crate) async fn lost(seed: u64, controllers: usize) -> (Bed, Request) {
    let bed = living(seed, controllers).await;
    let object =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: precious, namespace: default}\ndata: {a: b}\n";
    bed.kubernetes().apply(&Manifest::read_all(object).unwrap(), Apply::default()).await.unwrap();
    let request = bed.restorable(2).await;
    (bed, request)
}

async fn destroy(bed: &Bed) {
    let all = Request { goal: Goal::Destroy, ..Request::default() };
    bed.converge(&all, 3).await.unwrap();
    let left = bed.lab.world(|world| world.dump().vms.keys().filter(|vmid| **vmid < 9000).count());
    assert_eq!(left, 0, "templates alone stay");
}

pub(crate) async fn has_objects(bed: &Bed) -> bool {
    let found = bed.kubernetes().config_map("default", "precious").await.unwrap();
    found.is_some_and(|data| data.get("a").is_some_and(|value| value == "b"))
}

#[tokio::test(start_paused = true)]
async fn after_everything_was_deleted_one_command_brings_it_back() {
    let (bed, request) = lost(311, 3).await;
    destroy(&bed).await;
    let plan = bed.plan(&request).await;
    assert!(plan.later.iter().any(|intent| intent.step == "recover-etcd"), "{:#?}", plan.later);
    assert!(!plan.later.iter().any(|intent| intent.step == "bootstrap"));
    bed.converge(&request, 4).await.unwrap();
    bed.is_healthy().await;
    assert!(has_objects(&bed).await);
    assert_eq!(bed.accepted("EtcdRecover"), 1);
    assert_eq!(bed.accepted("Bootstrap"), 2, "the first one, and the one with the snapshot");
    // Again nothing is done, with or without it.
    assert!(bed.plan(&request).await.is_empty());
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.refusals.is_empty(), "{plan:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_lives_is_never_restored() {
    let (bed, request) = lost(312, 1).await;
    let plan = bed.plan(&request).await;
    let [refusal] = plan.refusals.as_slice() else { panic!("{plan:#?}") };
    assert!(refusal.problem.contains("cp-1 has data of etcd"), "{refusal:?}");
    assert!(bed.converge(&request, 4).await.is_err());
    assert_eq!(bed.accepted("EtcdRecover"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_restore_never_becomes_an_empty_cluster() {
    let (bed, request) = lost(313, 1).await;
    destroy(&bed).await;
    // The upload is refused after the intent was written.
    bed.lab.plan(When::talos("EtcdRecover"), Fault::Refused);
    let error = bed.converge(&request, 4).await.unwrap_err();
    assert!(error.contains("could not send snapshot-1"), "{error}");
    let plan = bed.plan(&healthy()).await;
    assert!(plan.refusals.iter().any(|refusal| refusal.problem.contains("did not finish")), "{plan:#?}");
    assert!(!plan.steps.iter().any(|step| matches!(step.step, Step::Bootstrap { .. })));
    bed.converge(&request, 5).await.unwrap();
    assert!(has_objects(&bed).await);
}

#[tokio::test(start_paused = true)]
async fn lost_replies_and_broken_uploads_end_well() {
    for (seed, name, fault) in [
        (314, "EtcdRecover", Fault::ReplyLost),
        (315, "Bootstrap", Fault::ReplyLost),
        (316, "Bootstrap", Fault::KillClient { sent: true }),
        (317, "EtcdRecover", Fault::KillClient { sent: true }),
    ] {
        let (bed, request) = lost(seed, 1).await;
        destroy(&bed).await;
        bed.lab.plan(When::talos(name), fault);
        let first = bed.converge_mortally(&request, 4).await;
        if first.is_err() {
            bed.lab.transport().revive_client();
            bed.converge(&request, 5).await.unwrap();
        }
        assert!(has_objects(&bed).await, "{name}");
        // Whatever happened, nobody began a second time with nothing.
        let clusters = bed.etcd_clusters();
        assert!(clusters <= 2, "{clusters} clusters after {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_since_is_not_begun_with() {
    let (bed, request) = lost(318, 1).await;
    destroy(&bed).await;
    bed.handed.snapshots.lock().unwrap().get_mut("snapshot-1").unwrap()[9000] ^= 1;
    let before = bed.accepted("Bootstrap");
    let error = bed.converge(&request, 4).await.unwrap_err();
    assert!(error.contains("not the file any more"), "{error}");
    assert_eq!(bed.accepted("Bootstrap"), before);
}

#[tokio::test(start_paused = true)]
async fn machines_that_lost_their_data_begin_with_a_snapshot_too() {
    let (bed, request) = lost(319, 1).await;
    // What Talos' own guide to disaster recovery says: the data goes, configuration and VM stay.
    let partitions = vec!["EPHEMERAL".to_owned()];
    let reset = ResetPlan { graceful: false, reboot: true, partitions };
    bed.client("10.0.7.11").reset(&reset).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_mins(3)).await;
    let plan = bed.plan(&healthy()).await;
    let choices = plan.refusals.iter().flat_map(|refusal| &refusal.choices);
    assert!(choices.into_iter().any(|choice| choice.contains("talmox apply --restore FILE")), "{plan:#?}");
    let plan = bed.plan(&request).await;
    assert!(
        plan.steps.iter().any(|step| matches!(step.step, Step::Upkeep(Upkeep::RecoverEtcd { .. }))),
        "{plan:#?}"
    );
    bed.converge(&request, 5).await.unwrap();
    assert!(has_objects(&bed).await);
}
