//! Configuration by drive: nothing of it is left, wherever a run was killed.

use std::time::{Duration, Instant};

use talmox_plan::{DriveView, Goal, Request, Step, seed_in, view};
use talmox_pve::client::Method;
use talmox_test::thorough::runtime;
use talmox_test::{Fault, When, host, storage};
use talmox_types::desired::OUR_SEEDS;

use crate::bringup::bed::{Bed, described, healthy};
use crate::bringup::trouble::{deaths, die_at_each};

fn bed(seed: u64) -> Bed {
    Bed::new(seed, described(1, 1, "config_delivery: cidata"))
}

/// Drives of ours on the storage they go to.
async fn drives(bed: &Bed) -> Vec<String> {
    let listed = bed.lab.root().content(&host(1), &storage("local"), Some("iso")).await.unwrap();
    let names = listed.into_iter().map(|volume| volume.volid.file_name().to_owned());
    names.filter(|name| name.starts_with(OUR_SEEDS)).collect()
}

/// Healthy, and neither in a VM nor on a storage is there a drive of ours.
async fn nothing_is_left(bed: &Bed, what: &str) {
    bed.is_healthy().await;
    let observed = bed.look(&healthy()).await;
    for guest in observed.guests.values() {
        let held = guest.seen().and_then(|seen| seed_in(&seen.live));
        assert_eq!(held, None, "{what}: VM {}", guest.vmid);
    }
    let files = drives(bed).await;
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

/// Killed with two drives on the storage, of which one at least no VM has yet.
async fn interrupted(seed: u64) -> Bed {
    let bed = bed(seed);
    bed.lab.plan(When::nth(Method::Post, "/upload", 2), Fault::KillClient { sent: true });
    bed.converge_mortally(&healthy(), 0xa).await.unwrap_err();
    bed.lab.transport().revive_client();
    // What the host was doing it does.
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(drives(&bed).await.len(), 2);
    bed
}

/// What `status` shows of drives.
async fn shown(bed: &Bed) -> Vec<DriveView> {
    view(&bed.desired, &bed.look(&healthy()).await).drives
}

#[tokio::test(start_paused = true)]
async fn drives_that_were_left_are_shown_and_go_with_the_cluster() {
    let bed = interrupted(53).await;
    let shown = shown(&bed).await;
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown.iter().any(|drive| drive.vmid.is_none()), "{shown:?}");
    bed.converge(&Request { goal: Goal::Destroy, ..Request::default() }, 0xb).await.unwrap();
    assert!(drives(&bed).await.is_empty());
    assert!(bed.lab.world(|world| world.dump().vms.keys().all(|vmid| *vmid >= 9000)), "templates stay");
}

#[tokio::test(start_paused = true)]
async fn pruning_templates_takes_drives_that_no_vm_has() {
    let bed = interrupted(54).await;
    let held = shown(&bed).await.iter().filter(|drive| drive.vmid.is_some()).count();
    bed.converge(&Request { goal: Goal::PruneTemplates, ..Request::default() }, 0xb).await.unwrap();
    assert_eq!(drives(&bed).await.len(), held);
    // One in a VM is still needed: the run that goes on uses it, and takes it out.
    bed.converge(&healthy(), 0xc).await.unwrap();
    nothing_is_left(&bed, "pruned").await;
}

#[test]
fn killed_at_any_call() {
    let begun = Instant::now();
    let calls = runtime().block_on(async {
        let bed = bed(52);
        bed.converge(&healthy(), 0xa).await.unwrap();
        bed.lab.calls().len()
    });
    let runs = die_at_each(&deaths(calls, 37), async |number, sent, what| {
        let bed = bed(52);
        bed.lab.plan(When::call(number as u64), Fault::KillClient { sent });
        let _ = bed.converge_mortally(&healthy(), 0xa).await;
        bed.lab.transport().revive_client();
        let again = bed.converge(&healthy(), 0xb).await;
        again.unwrap_or_else(|error| panic!("{what}: {error}\n{}", bed.lab.calls()));
        nothing_is_left(&bed, what).await;
    });
    println!(
        "killed with drives: K = {calls} calls, {runs} runs, no drive left each time, {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}
