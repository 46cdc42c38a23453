//! Templates from an image to the nodes that stand on them, and away again.

use std::collections::BTreeSet;

use talmox_plan::{Goal, Step};
use talmox_types::desired::Desired;

use super::yard::{Yard, talos, three_hosts};

const NAME: &str = "talos-1.13.9-ce4c980550dd";

fn places(yard: &Yard) -> Vec<String> {
    let describe = |((name, host, disk), ids): ((String, String, String), Vec<u32>)| {
        format!("{name} on {host} {disk} {ids:?}")
    };
    yard.templates().into_iter().map(describe).collect()
}

fn lab(version: &str, storage: &str) -> Desired {
    talos(version, storage, &["cp-1"], "")
}

#[tokio::test(start_paused = true)]
async fn one_on_each_host_and_nothing_the_second_time() {
    for release in ["8.4", "9.2"] {
        let yard = Yard::of(three_hosts(release, 1), 1);
        let bench = yard.bench(lab("1.13.9", "local-zfs"), Goal::Templates, 1);
        let summary = yard.apply(&bench).await.unwrap();
        assert_eq!((summary.rounds, summary.templates, summary.made), (1, 3, 0), "{summary:?}");
        let expected = ["pve1", "pve2", "pve3"]
            .iter()
            .zip(9000..)
            .map(|(host, id)| format!("{NAME} on {host} local-zfs [{id}]"));
        assert_eq!(places(&yard), expected.collect::<Vec<_>>());
        yard.assert_tidy();
        assert_eq!(yard.files().len(), 3, "{:?}", yard.files());
        assert_eq!(bench.shelf.registered().len(), 1, "a schematic is told once");
        let members = &yard.dump().pools["talmox-templates"];
        assert_eq!(members, &BTreeSet::from([9000, 9001, 9002]));
        // A second run has nothing to do and writes nothing.
        let writes = yard.lab.calls().writes().count();
        let plan = yard.plan(&bench).await;
        assert!(plan.steps.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
        yard.apply(&bench).await.unwrap();
        assert_eq!(yard.lab.calls().writes().count(), writes);
    }
}

#[tokio::test(start_paused = true)]
async fn every_step_may_run_twice() {
    let yard = Yard::new();
    let bench = yard.bench(lab("1.13.9", "local-zfs"), Goal::Templates, 1);
    let client = yard.client();
    let plan = yard.plan(&bench).await;
    let first = talmox_exec::execute(&bench.run(&client), &plan).await;
    assert!(first.is_complete() && first.wrote(), "{first:#?}");
    let before = yard.dump();
    let writes = yard.lab.calls().writes().count();
    let second = talmox_exec::execute(&bench.run(&client), &plan).await;
    assert!(second.is_complete() && !second.wrote(), "{second:#?}");
    assert_eq!(yard.dump(), before);
    assert_eq!(yard.lab.calls().writes().count(), writes);
}

#[tokio::test(start_paused = true)]
async fn one_for_all_hosts_on_a_storage_they_share() {
    let yard = Yard::new();
    let bench = yard.bench(lab("1.13.9", "shared"), Goal::Templates, 1);
    yard.apply(&bench).await.unwrap();
    assert_eq!(places(&yard), [format!("{NAME} on pve1 shared [9000]")]);
    assert_eq!(yard.files().len(), 1, "{:?}", yard.files());
    yard.assert_tidy();
}

#[tokio::test(start_paused = true)]
async fn a_new_version_is_built_beside_the_old_and_the_old_goes_when_asked() {
    let yard = Yard::new();
    let nodes = ["cp-1", "worker-1"];
    let old = yard.bench(talos("1.13.9", "local-zfs", &nodes, ""), Goal::Converge, 1);
    let summary = yard.apply(&old).await.unwrap();
    assert_eq!((summary.made, summary.templates), (2, 2), "{summary:?}");
    yard.settle().await;
    assert!(yard.plan(&old).await.steps.is_empty());
    let new = yard.bench(talos("1.13.10", "local-zfs", &nodes, ""), Goal::Templates, 2);
    yard.apply(&new).await.unwrap();
    yard.settle().await;
    assert_eq!(yard.templates().len(), 5, "{:?}", places(&yard));
    // Two of the old ones have linked clones and stay; nobody else built one.
    let prune = yard.bench(talos("1.13.10", "local-zfs", &nodes, ""), Goal::PruneTemplates, 3);
    let plan = yard.plan(&prune).await;
    assert!(
        !plan.steps.iter().any(|planned| matches!(planned.step, Step::RemoveTemplate { .. })),
        "{plan:#?}"
    );
    // Once the nodes are gone, so may they.
    let gone = yard.bench(talos("1.13.9", "local-zfs", &nodes, ""), Goal::Destroy, 4);
    yard.apply(&gone).await.unwrap();
    yard.settle().await;
    yard.apply(&prune).await.unwrap();
    let names: BTreeSet<String> = yard.templates().into_keys().map(|(name, _, _)| name).collect();
    assert_eq!(names, BTreeSet::from(["talos-1.13.10-ce4c980550dd".to_owned()]));
    assert!(yard.files().iter().all(|file| file.contains("1.13.10")), "{:?}", yard.files());
    yard.assert_tidy();
    let writes = yard.lab.calls().writes().count();
    yard.apply(&prune).await.unwrap();
    assert_eq!(yard.lab.calls().writes().count(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_look_without_a_change_costs_one_request_for_each_vm_template_and_host() {
    let yard = Yard::new();
    let bench = yard.bench(talos("1.13.9", "local-zfs", &["cp-1", "worker-1"], ""), Goal::Converge, 1);
    yard.apply(&bench).await.unwrap();
    for id in [300, 301] {
        let config = [("name".to_owned(), "mail".to_owned())].into();
        yard.lab.world(|world| world.add_vm("pve3", id, config, true));
    }
    yard.settle().await;
    let before = yard.lab.calls().len();
    let observed = talmox_exec::observe(&yard.client(), &bench.desired).await.unwrap();
    let calls = yard.lab.calls();
    let (nodes, templates) = (2, yard.templates().len());
    assert!(calls.len() - before <= nodes + templates + 2 + 6, "{calls}");
    assert_eq!((observed.depth, observed.files.len()), (talmox_plan::Depth::Candidates, 0));
    assert!(observed.pools.iter().any(|pool| pool.as_str() == "talmox-templates"));
    // For templates, everything is looked at.
    let observed = talmox_exec::observe_for(&yard.client(), &bench.desired, Goal::Templates).await.unwrap();
    assert_eq!(observed.depth, talmox_plan::Depth::Everything);
    assert_eq!(observed.files.len(), 6, "`local` and `shared` of three hosts: {:?}", observed.files);
    let asked = yard.lab.calls();
    let asked = asked.asking("GET", "/storage/shared/content").count();
    assert_eq!(asked, 2 * 2, "iso and import of one host, when there was nothing and now");
}
