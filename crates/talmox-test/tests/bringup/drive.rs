//! Configuration by drive: nothing of it is left, wherever a run was killed.

use std::time::Instant;

use talmox_plan::{Step, seed_in};
use talmox_test::{Fault, When};
use talmox_types::desired::OUR_SEEDS;

use crate::bed::{Bed, described, healthy};
use crate::faults::in_parallel;
use crate::trouble::{deaths, runtime};

fn bed(seed: u64) -> Bed {
    Bed::new(seed, described(1, 1, "config_delivery: cidata"))
}

/// Healthy, and neither in a VM nor on a storage is there a drive of ours.
async fn nothing_is_left(bed: &Bed, what: &str) {
    bed.is_healthy().await;
    let observed = bed.look(&healthy()).await;
    for guest in observed.guests.values() {
        let held = guest.seen().and_then(|seen| seed_in(&seen.live));
        assert_eq!(held, None, "{what}: VM {}", guest.vmid);
    }
    let files = bed.lab.world(|world| {
        let names = world.sites.values().flat_map(|site| site.files.keys().cloned());
        names.filter(|name| name.contains(OUR_SEEDS)).collect::<Vec<_>>()
    });
    assert!(files.is_empty(), "{what}: {files:?}");
    assert_eq!(bed.etcd_clusters(), 1, "{what}");
}

#[tokio::test(start_paused = true)]
async fn nodes_read_their_configuration_from_a_drive() {
    let bed = bed(51);
    let plan = bed.plan(&healthy()).await;
    let drives = plan.steps.iter().filter(|step| matches!(step.step, Step::AttachSeed { .. })).count();
    assert_eq!(drives, 2);
    bed.converge(&healthy(), 1)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", bed.told.lines().join("\n")));
    nothing_is_left(&bed, "undisturbed").await;
    // Not one byte of configuration went to a machine in maintenance mode.
    assert_eq!(bed.accepted("ApplyConfiguration"), 0);
    let plan = bed.plan(&healthy()).await;
    assert!(plan.is_empty() && plan.waiting.is_empty(), "{plan:#?}");
}

#[test]
fn killed_at_any_call() {
    let begun = Instant::now();
    let calls = runtime().block_on(async {
        let bed = bed(52);
        bed.converge(&healthy(), 0xa).await.unwrap();
        bed.lab.calls().len()
    });
    let cases = deaths(calls);
    in_parallel(&cases, |&(number, sent)| {
        runtime().block_on(async {
            let bed = bed(52);
            bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
            let _ = bed.converge_mortally(&healthy(), 0xa).await;
            bed.lab.transport().revive_client();
            let what = format!("killed at call {number}, sent {sent}");
            let again = bed.converge(&healthy(), 0xb).await;
            again.unwrap_or_else(|error| panic!("{what}: {error}\n{}", bed.lab.calls()));
            nothing_is_left(&bed, &what).await;
        });
    });
    println!(
        "killed with drives: K = {calls} calls, {} runs, no drive left each time, {:.1} s",
        cases.len(),
        begun.elapsed().as_secs_f64()
    );
}
