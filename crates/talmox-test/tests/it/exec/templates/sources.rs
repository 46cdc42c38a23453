//! Nodes that are made without a template: from an ISO, and from an image.

use talmox_plan::Goal;
use talmox_types::Mark;

use super::yard::{Yard, talos};

async fn made_by(boot: &str) -> (Yard, Vec<std::collections::BTreeMap<String, String>>) {
    let yard = Yard::new();
    let bench = yard.bench(
        talos("1.13.9", "local-zfs", &["cp-1", "worker-1"], &format!("boot: {boot}\n")),
        Goal::Converge,
        1,
    );
    let summary = yard.apply(&bench).await.unwrap();
    assert_eq!((summary.made, summary.templates), (2, 0), "{summary:?}");
    let dump = yard.dump();
    let of_node = |vm: &&talmox_sim::VmDump| {
        vm.config.get("description").is_some_and(|text| Mark::of_description(text).is_some())
    };
    let nodes: Vec<_> = dump.vms.values().filter(of_node).collect();
    assert!(nodes.len() == 2 && nodes.iter().all(|vm| vm.running), "{nodes:#?}");
    assert_eq!(dump.vms.len(), 2, "no template is made for them");
    let configs = nodes.into_iter().map(|vm| vm.config.clone()).collect();
    yard.settle().await;
    let writes = yard.lab.calls().writes().count();
    let plan = yard.plan(&bench).await;
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert_eq!(yard.lab.calls().writes().count(), writes);
    yard.assert_tidy();
    (yard, configs)
}

#[tokio::test(start_paused = true)]
async fn from_an_iso() {
    let (yard, configs) = made_by("iso").await;
    for config in configs {
        assert!(
            config.values().any(|value| value.contains(".iso") && value.contains("media=cdrom")),
            "{config:#?}"
        );
        assert!(config["boot"].starts_with("order=scsi0"), "{config:#?}");
    }
    assert!(yard.files().iter().all(|file| file.contains(":iso/talmox-")), "{:?}", yard.files());
}

#[tokio::test(start_paused = true)]
async fn from_an_image() {
    let (yard, configs) = made_by("import").await;
    for config in configs {
        assert!(config["scsi0"].starts_with("local-zfs:vm-"), "{config:#?}");
    }
    assert!(yard.files().iter().all(|file| file.contains(":import/talmox-")), "{:?}", yard.files());
}
