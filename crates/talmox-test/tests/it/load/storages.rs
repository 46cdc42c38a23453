//! Thirty VMs on three hosts and every type of storage.

use std::collections::BTreeMap;

use talmox_exec::Limits;
use talmox_sim::TaskRecord;

use crate::load::bed::{Bed, DISKS, NodeSpec, description};

const VMS: usize = 30;

/// Four VMs from the template on each storage, and two from a template that is made of an image on the eighth.
fn nodes() -> Vec<NodeSpec> {
    let from_image = |number: usize| number >= 4 * DISKS.len();
    let node = |number: usize| NodeSpec {
        storage: if from_image(number) { "pool" } else { DISKS[number % DISKS.len()].0 },
        from_template: !from_image(number),
    };
    (0..VMS).map(node).collect()
}

#[tokio::test(start_paused = true)]
async fn no_task_fails_for_want_of_a_lock() {
    let bed = Bed::new(1);
    let desired = description(&nodes());
    bed.stock(&desired);
    let took = bed.run(&desired, Limits::default()).await;
    let failed: Vec<&TaskRecord> = took.tasks.iter().filter(|task| task.status != "OK").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for task in &took.tasks {
        *kinds.entry(&task.kind).or_default() += 1;
    }
    assert_eq!((kinds["qmclone"], kinds["qmstart"]), (VMS, VMS), "{kinds:?}");
    let waited = took.tasks.iter().filter(|task| task.ended - task.spawned > task.worked).count();
    println!(
        "{VMS} VMs on 3 hosts and {} types of storage: {} tasks, {waited} of them waited for a lock, 0 failed; \
         {:.1} s; {}",
        DISKS.len() + 1,
        took.tasks.len(),
        took.time.as_secs_f64(),
        took.bound
    );
    let dump = bed.lab.world(|world| world.dump());
    for (storage, kind) in DISKS {
        let on_it = dump.volumes.keys().filter(|volume| volume.contains(&format!("{storage}:"))).count();
        // Base images, and at least the four VMs' own.
        assert!(on_it > 4, "{storage} ({kind}): {:#?}", dump.volumes.keys());
    }
    assert!(bed.plan(&bed.client(), &desired).await.is_empty());
    assert!(took.summary.waiting.is_empty());
}
