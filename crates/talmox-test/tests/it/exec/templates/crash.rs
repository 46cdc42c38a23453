//! A client that dies at any call while templates are built, and answers that are lost.
//!
//! The work is done once undisturbed, which gives the number of its calls and how everything looks afterwards; then once
//! more for every call, with the client killed before it is sent and after it arrived, and with the reply lost. Another run
//! must end with the same templates, the same images and nothing beside.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use talmox_plan::Goal;
use talmox_sim::World;
use talmox_test::thorough::runtime;
use talmox_test::{Fault, When};

use super::yard::{Yard, talos, three_hosts};

const SEED: u64 = 7;

/// What there is in the end: templates, how many of each, and files.
type Normal = (BTreeMap<(String, String, String), usize>, BTreeSet<String>, usize);

fn normal(yard: &Yard) -> Normal {
    let templates = yard.templates().into_iter().map(|(place, ids)| (place, ids.len())).collect();
    (templates, yard.files(), yard.dump().vms.len())
}

/// One run with something planned to go wrong, then another.
async fn run(world: &World, (storage, goal): (&str, Goal), when: Option<(When, Fault)>) -> (Yard, bool) {
    let yard = Yard::of(world.clone(), SEED);
    let desired = || talos("1.13.9", storage, &["cp-1"], "");
    let first = yard.bench(desired(), goal, 0xa);
    let disturbed = when.is_some();
    if let Some((when, fault)) = when {
        yard.lab.plan(when, fault);
    }
    let ended = yard.try_apply(&first).await;
    if !disturbed {
        ended.unwrap();
        return (yard, true);
    }
    yard.lab.transport().revive_client();
    let second = yard.bench(desired(), goal, 0xb);
    if let Err(error) = yard.try_apply(&second).await {
        panic!("the run after it failed: {error}\n{}", yard.lab.calls());
    }
    (yard, ended.is_ok())
}

fn every_call(release: &str, storage: &str, goal: Goal) {
    let begun = Instant::now();
    let world = three_hosts(release, SEED);
    let work = (storage, goal);
    let (expected, calls) = runtime().block_on(async {
        let (yard, _) = run(&world, work, None).await;
        (normal(&yard), yard.lab.calls().len())
    });
    let (templates, nodes) = match goal {
        Goal::Templates if storage == "shared" => (1, 0),
        Goal::Templates => (3, 0),
        Goal::Converge | Goal::Destroy | Goal::PruneTemplates | Goal::Hosts => (1, 1),
    };
    assert_eq!((expected.0.len(), expected.1.len(), expected.2), (templates, templates, templates + nodes));
    let (mut runs, mut through) = (0, 0);
    for fault in [Fault::KillClient { sent: false }, Fault::KillClient { sent: true }, Fault::ReplyLost] {
        for number in 1..=calls {
            runtime().block_on(async {
                let when = When::call(u64::try_from(number).unwrap());
                let (yard, first) = run(&world, work, Some((when, fault.clone()))).await;
                assert_eq!(normal(&yard), expected, "{fault:?} at call {number}\n{}", yard.lab.calls());
                yard.assert_tidy();
                (runs, through) = (runs + 1, through + usize::from(first));
            });
        }
    }
    println!(
        "{goal:?} on PVE {release}, {storage}: K = {calls} calls, {runs} runs, all the same in the end ({through} at the first go), \
         {:.1} s",
        begun.elapsed().as_secs_f64()
    );
}

#[test]
fn on_storages_of_each_host() {
    every_call("9.2", "local-zfs", Goal::Templates);
}

#[test]
fn on_storages_of_each_host_of_the_older_release() {
    every_call("8.4", "local-zfs", Goal::Templates);
}

#[test]
fn on_a_storage_they_share() {
    every_call("9.2", "shared", Goal::Templates);
}

#[test]
fn on_a_storage_they_share_of_the_older_release() {
    every_call("8.4", "shared", Goal::Templates);
}

#[test]
fn from_nothing_to_a_node() {
    every_call("9.2", "local-zfs", Goal::Converge);
}
